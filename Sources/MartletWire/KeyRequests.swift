// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about the keys of a project, with their frames and answers. Keys of all kinds are listed
// and revoked by their IDs. The broker makes the text of server keys (REG-5) and registration keys (REG-7), and tells
// the text once, when the key is created. Rests on `Lists` and `AdministratorInterface`.

public import MartletBase

/// A kind of keys. All keys of a kind are listed in one frame, and revoked one by one.
package protocol KeyKind: ListedKind {
    static var revokeType: FrameType { get }
}

/// A kind of keys whose text the broker makes.
package protocol IssuedKeyKind: KeyKind where Entry == KeySummary {
    /// Type of the request that creates a key, and of its answer.
    static var createType: FrameType { get }
    static var issuedType: FrameType { get }
}

extension IssuedKeyKind {
    package static var entryBytesMin: Int { 13 }

    package static func decode(from reader: inout WireReader) throws(WireError) -> KeySummary {
        KeySummary(
            id: try reader.string(), name: try reader.string(),
            created: Instant(millisecondsSince1970: try reader.i64()),
            isRevoked: try reader.flag("revoked"))
    }

    package static func encode(_ key: KeySummary, into writer: inout WireWriter) {
        writer.string(key.id)
        writer.string(key.name)
        writer.i64(key.created.millisecondsSince1970)
        writer.flag(key.isRevoked)
    }
}

/// Server keys (REG-5).
package enum ServerKeys: IssuedKeyKind {
    package static var createType: FrameType { .createKey }
    package static var issuedType: FrameType { .key }
    package static var revokeType: FrameType { .revokeKey }
    package static var listType: FrameType { .listKeys }
    package static var pageType: FrameType { .keyPage }
}

/// Registration keys (REG-7).
package enum RegistrationKeys: IssuedKeyKind {
    package static var createType: FrameType { .createRegistrationKey }
    package static var issuedType: FrameType { .registrationKey }
    package static var revokeType: FrameType { .revokeRegistrationKey }
    package static var listType: FrameType { .listRegistrationKeys }
    package static var pageType: FrameType { .registrationKeyPage }
}

/// CREATE_KEY (0x34), answered by KEY.
package typealias CreateKeyRequest = CreateKey<ServerKeys>
/// KEY (0x35).
package typealias KeyResult = IssuedKeyResult<ServerKeys>
/// REVOKE_KEY (0x36), answered by DONE.
package typealias RevokeKeyRequest = RevokeKey<ServerKeys>
/// LIST_KEYS (0x37), answered by KEY_PAGE.
package typealias ListKeysRequest = ListRequest<ServerKeys>
/// KEY_PAGE (0x38).
package typealias KeyPage = ListResult<ServerKeys>

/// CREATE_REGISTRATION_KEY (0xA0), answered by REGISTRATION_KEY.
package typealias CreateRegistrationKeyRequest = CreateKey<RegistrationKeys>
/// REGISTRATION_KEY (0xA1).
package typealias RegistrationKeyResult = IssuedKeyResult<RegistrationKeys>
/// REVOKE_REGISTRATION_KEY (0xA2), answered by DONE.
package typealias RevokeRegistrationKeyRequest = RevokeKey<RegistrationKeys>
/// LIST_REGISTRATION_KEYS (0xA3), answered by REGISTRATION_KEY_PAGE.
package typealias ListRegistrationKeysRequest = ListRequest<RegistrationKeys>
/// REGISTRATION_KEY_PAGE (0xA4).
package typealias RegistrationKeyPage = ListResult<RegistrationKeys>

/// Creates a key whose text the broker makes. Answered by `IssuedKeyResult`.
package struct CreateKey<Kind: IssuedKeyKind>: WireRequest {
    package typealias Answer = IssuedKeyResult<Kind>

    package var correlation: UInt32
    package var projectID: String
    package var name: String

    package init(correlation: UInt32 = 0, projectID: String, name: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
    }

    package static var type: FrameType { Kind.createType }

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

/// The answer to a `CreateKey`.
package struct IssuedKeyResult<Kind: IssuedKeyKind>: WireAnswer {
    package var correlation: UInt32
    package var keyID: String
    /// The text of the key. The broker tells the text only here.
    package var text: String

    package init(correlation: UInt32 = 0, keyID: String, text: String) {
        self.correlation = correlation
        self.keyID = keyID
        self.text = text
    }

    package static var type: FrameType { Kind.issuedType }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keyID = try reader.string()
        text = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(keyID)
        writer.string(text)
    }
}

/// Revokes a key. Answered by DONE.
package struct RevokeKey<Kind: KeyKind>: WireRequest {
    package typealias Answer = Done

    package var correlation: UInt32
    package var projectID: String
    package var keyID: String

    package init(correlation: UInt32 = 0, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    package static var type: FrameType { Kind.revokeType }

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

extension AdministratorInterface {
    /// Creates a server key for a project (REG-5). The text of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createServerKey(
        named name: String, in project: String
    ) async throws(Failure) -> IssuedKey {
        try await create(ServerKeys.self, named: name, in: project)
    }

    /// Revokes a server key. New connections with the key are refused, and the broker ends the connections that were
    /// opened with the key (REG-9).
    /// - Throws: `NOT_FOUND`.
    public func revokeServerKey(_ id: String, in project: String) async throws(Failure) {
        try await revoke(ServerKeys.self, id, in: project)
    }

    /// All server keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func serverKeys(in project: String) async throws(Failure) -> [KeySummary] {
        try await list(ServerKeys.self, in: project)
    }

    /// Creates a registration key, which lies in the app and lets devices register, and nothing else (REG-7). The text
    /// of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createRegistrationKey(
        named name: String, in project: String
    ) async throws(Failure) -> IssuedKey {
        try await create(RegistrationKeys.self, named: name, in: project)
    }

    /// Revokes a registration key. New devices with the key are refused; registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeRegistrationKey(_ id: String, in project: String) async throws(Failure) {
        try await revoke(RegistrationKeys.self, id, in: project)
    }

    /// All registration keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func registrationKeys(in project: String) async throws(Failure) -> [KeySummary] {
        try await list(RegistrationKeys.self, in: project)
    }

    // MARK: Keys of any kind

    private func create<Kind: IssuedKeyKind>(
        _ kind: Kind.Type, named name: String, in project: String
    ) async throws(Failure) -> IssuedKey {
        let key = try await requests.ask(CreateKey<Kind>(projectID: project, name: name))
        return IssuedKey(id: key.keyID, text: key.text)
    }

    func revoke<Kind: KeyKind>(
        _ kind: Kind.Type, _ id: String, in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(RevokeKey<Kind>(projectID: project, keyID: id))
    }

    func list<Kind: ListedKind>(
        _ kind: Kind.Type, in project: String
    ) async throws(Failure) -> [Kind.Entry] {
        try await requests.ask(ListRequest<Kind>(projectID: project)).entries
    }
}
