// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about registration keys (REG-7), with their frames and answers. The broker tells the
// text of a key once, when the key is created. All other frames name the key by its ID. Rests on `WireReader`,
// `WireWriter` and `AdministratorInterface`.

public import MartletBase

/// CREATE_REGISTRATION_KEY (0xA0): creates a registration key for a project. Answered by REGISTRATION_KEY.
public struct CreateRegistrationKeyRequest: WireRequest {
    package typealias Answer = RegistrationKeyResult

    public var correlation: UInt32
    public var projectID: String
    public var name: String

    public init(correlation: UInt32 = 0, projectID: String, name: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.name = name
    }

    package static var type: FrameType { .createRegistrationKey }

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

/// REGISTRATION_KEY (0xA1): the answer to CREATE_REGISTRATION_KEY.
public struct RegistrationKeyResult: WireAnswer {
    public var correlation: UInt32
    public var keyID: String
    /// The text of the registration key. The broker tells the text only here.
    public var registrationKey: String

    public init(correlation: UInt32 = 0, keyID: String, registrationKey: String) {
        self.correlation = correlation
        self.keyID = keyID
        self.registrationKey = registrationKey
    }

    package static var type: FrameType { .registrationKey }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keyID = try reader.string()
        registrationKey = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(keyID)
        writer.string(registrationKey)
    }
}

/// REVOKE_REGISTRATION_KEY (0xA2): revokes a registration key. Answered by DONE.
public struct RevokeRegistrationKeyRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var keyID: String

    public init(correlation: UInt32 = 0, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    package static var type: FrameType { .revokeRegistrationKey }

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

/// LIST_REGISTRATION_KEYS (0xA3): asks for the registration keys of a project. Answered by REGISTRATION_KEY_PAGE.
public struct ListRegistrationKeysRequest: WireRequest {
    package typealias Answer = RegistrationKeyPage

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .listRegistrationKeys }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// REGISTRATION_KEY_PAGE (0xA4): the answer to LIST_REGISTRATION_KEYS.
public struct RegistrationKeyPage: WireAnswer {
    public var correlation: UInt32
    public var keys: [RegistrationKeySummary]

    public init(correlation: UInt32 = 0, keys: [RegistrationKeySummary]) {
        self.correlation = correlation
        self.keys = keys
    }

    package static var type: FrameType { .registrationKeyPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        keys = try reader.list(entryBytesMin: 13) { (reader) throws(WireError) in
            RegistrationKeySummary(
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
    /// Creates a registration key, which lies in the app and lets devices register, and nothing else (REG-7). The text
    /// of the key is returned here and never again.
    /// - Throws: `NOT_FOUND`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED` for more than 256 keys.
    public func createRegistrationKey(
        named name: String, in project: String
    ) async throws(Failure) -> NewRegistrationKey {
        let key = try await requests.ask(
            CreateRegistrationKeyRequest(projectID: project, name: name))
        return NewRegistrationKey(id: key.keyID, text: key.registrationKey)
    }

    /// Revokes a registration key. New devices with the key are refused; registered devices stay.
    /// - Throws: `NOT_FOUND`.
    public func revokeRegistrationKey(_ id: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeRegistrationKeyRequest(projectID: project, keyID: id))
    }

    /// All registration keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND`.
    public func registrationKeys(
        in project: String
    ) async throws(Failure) -> [RegistrationKeySummary] {
        try await requests.ask(ListRegistrationKeysRequest(projectID: project)).keys
    }
}
