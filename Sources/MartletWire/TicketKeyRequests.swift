// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys that verify tickets (REG-7), with their frames and answers. The frames of
// answers have no secret. Rests on `KeyFrames`.

public import MartletBase

/// ADD_TICKET_KEY (0xA5): adds a ticket key to a project. Answered by DONE.
public struct AddTicketKeyRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    /// The `kid` of the key's tickets.
    public var keyID: String
    public var name: String
    public var algorithm: TicketAlgorithm
    /// The secret of HS256; empty for the other algorithms.
    public var secret: [UInt8]
    /// Text from `BEGIN PUBLIC KEY` to `END PUBLIC KEY`; empty for HS256.
    public var publicKey: String

    public init(
        correlation: UInt32 = 0, projectID: String, keyID: String, name: String,
        algorithm: TicketAlgorithm, secret: [UInt8] = [], publicKey: String = ""
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
        self.name = name
        self.algorithm = algorithm
        self.secret = secret
        self.publicKey = publicKey
    }

    package static var type: FrameType { .addTicketKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        keyID = try reader.string()
        name = try reader.string()
        algorithm = try reader.choice("ticket algorithm")
        secret = Array(try reader.stringBytes())
        publicKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(keyID)
        writer.string(name)
        writer.u8(algorithm.rawValue)
        writer.counted(secret)
        writer.string(publicKey)
    }
}

/// Ticket keys (REG-7).
package enum TicketKeys: KeyKind {
    package static var revokeType: FrameType { .revokeTicketKey }
    package static var listType: FrameType { .listTicketKeys }
    package static var pageType: FrameType { .ticketKeyPage }
    package static var entryBytesMin: Int { 14 }

    package static func decode(
        from reader: inout WireReader
    ) throws(WireError) -> TicketKeySummary {
        TicketKeySummary(
            id: try reader.string(), name: try reader.string(),
            algorithm: try reader.choice("ticket algorithm"),
            created: Instant(millisecondsSince1970: try reader.i64()),
            isRevoked: try reader.flag("revoked"))
    }

    package static func encode(_ key: TicketKeySummary, into writer: inout WireWriter) {
        writer.string(key.id)
        writer.string(key.name)
        writer.u8(key.algorithm.rawValue)
        writer.i64(key.created.millisecondsSince1970)
        writer.flag(key.isRevoked)
    }
}

/// REVOKE_TICKET_KEY (0xA6), answered by DONE.
package typealias RevokeTicketKeyRequest = RevokeKey<TicketKeys>
/// LIST_TICKET_KEYS (0xA7), answered by TICKET_KEY_PAGE.
package typealias ListTicketKeysRequest = ListRequest<TicketKeys>
/// TICKET_KEY_PAGE (0xA8).
package typealias TicketKeyPage = ListResult<TicketKeys>

extension AdministratorInterface {
    /// Adds a key that verifies tickets (REG-7): the secret that the app's server signs HS256 tickets with. The
    /// broker's data folder has the secret itself.
    /// - Parameters:
    ///   - secret: 32 to 2048 bytes.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    ///   - name: a name for people, at most 200 bytes.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketSecret(
        _ secret: [UInt8], id: String, named name: String = "", in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddTicketKeyRequest(
                projectID: project, keyID: id, name: name, algorithm: .hs256, secret: secret))
    }

    /// Adds a key that verifies tickets (REG-7): the public half of the key that the app's server signs with.
    /// - Parameters:
    ///   - publicKey: the text from `BEGIN PUBLIC KEY` to `END PUBLIC KEY`: RSA of 2048 to 4096 bits for RS256, P-256
    ///     for ES256.
    ///   - algorithm: `rs256` or `es256`. HS256 has a secret and is refused.
    ///   - id: the `kid` of the tickets, 1 to 64 characters of `[a-zA-Z0-9-_.~%]`.
    ///   - name: a name for people, at most 200 bytes.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `RESOURCE_EXHAUSTED` for more than 64 keys.
    public func addTicketKey(
        _ publicKey: String, for algorithm: TicketAlgorithm, id: String, named name: String = "",
        in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            AddTicketKeyRequest(
                projectID: project, keyID: id, name: name, algorithm: algorithm,
                publicKey: publicKey))
    }

    /// Revokes a ticket key, and removes the key's secret from the store. The key's tickets are refused from then on;
    /// registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeTicketKey(_ id: String, in project: String) async throws(Failure) {
        try await revoke(TicketKeys.self, id, in: project)
    }

    /// All ticket keys of a project, including revoked keys, without secrets.
    /// - Throws: `NOT_FOUND`.
    public func ticketKeys(in project: String) async throws(Failure) -> [TicketKeySummary] {
        try await list(TicketKeys.self, in: project)
    }
}
