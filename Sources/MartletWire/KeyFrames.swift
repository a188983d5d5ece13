// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about server keys, with their frames and answers. The broker tells the text of a key
// once, when the key is created. All other frames name the key by its ID. Rests on `WireReader`, `WireWriter` and
// `AdministratorInterface`.

public import MartletBase

/// CREATE_KEY (0x34): creates a server key for a project. Answered by KEY.
public struct CreateKeyRequest: WireRequest {
    package typealias Answer = KeyResult

    public var correlation: UInt32
    public var projectID: String
    public var name: String

    public init(correlation: UInt32 = 0, projectID: String, name: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
    }

    package static var type: FrameType { .createKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        name = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(name)
    }
}

/// KEY (0x35): the answer to CREATE_KEY.
public struct KeyResult: WireAnswer {
    public var correlation: UInt32
    public var keyID: String
    /// The text of the server key. The broker tells the text only here.
    public var serverKey: String

    public init(correlation: UInt32 = 0, keyID: String, serverKey: String) {
        self.correlation = correlation
        self.keyID = keyID
        self.serverKey = serverKey
    }

    package static var type: FrameType { .key }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keyID = try reader.string()
        serverKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(keyID)
        writer.string(serverKey)
    }
}

/// REVOKE_KEY (0x36): revokes a server key. Answered by DONE.
public struct RevokeKeyRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var keyID: String

    public init(correlation: UInt32 = 0, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    package static var type: FrameType { .revokeKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        keyID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(keyID)
    }
}

/// LIST_KEYS (0x37): asks for the server keys of a project. Answered by KEY_PAGE.
public struct ListKeysRequest: WireRequest {
    package typealias Answer = KeyPage

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .listKeys }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// KEY_PAGE (0x38): the answer to LIST_KEYS.
public struct KeyPage: WireAnswer {
    public var correlation: UInt32
    public var keys: [ServerKeySummary]

    public init(correlation: UInt32 = 0, keys: [ServerKeySummary]) {
        self.correlation = correlation
        self.keys = keys
    }

    package static var type: FrameType { .keyPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keys = try reader.list(entryBytesMin: 13) { (reader) throws(WireError) in
            ServerKeySummary(
                id: try reader.string(), name: try reader.string(),
                created: Instant(millisecondsSince1970: try reader.i64()),
                isRevoked: try reader.flag("revoked"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(keys) { (writer, key) in
            writer.string(key.id)
            writer.string(key.name)
            writer.i64(key.created.millisecondsSince1970)
            writer.flag(key.isRevoked)
        }
    }
}

extension AdministratorInterface {
    /// Creates a server key for a project (REG-5). The text of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createServerKey(
        named name: String, in project: String
    ) async throws(Failure) -> NewServerKey {
        let key = try await requests.ask(CreateKeyRequest(projectID: project, name: name))
        return NewServerKey(id: key.keyID, text: key.serverKey)
    }

    /// Revokes a server key. New connections with the key are refused, and the broker ends the connections that were
    /// opened with the key (REG-9).
    /// - Throws: `NOT_FOUND`.
    public func revokeServerKey(_ id: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeKeyRequest(projectID: project, keyID: id))
    }

    /// All server keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func serverKeys(in project: String) async throws(Failure) -> [ServerKeySummary] {
        try await requests.ask(ListKeysRequest(projectID: project)).keys
    }
}
