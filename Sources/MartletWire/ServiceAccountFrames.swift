// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about service-account keys (REG-5), and the answers. The private key never goes over
// the wire: the administrator makes the key pair and registers the public key. Rests on `WireReader` and
// `WireWriter`.

public import MartletBase

/// CREATE_SERVICE_ACCOUNT (0x90): registers a public key for a project. Answered by DONE.
public struct CreateServiceAccountRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var keyID: String
    public var name: String
    /// Issuer named in the assertions that the key signs.
    public var clientEmail: String
    /// RSA public key as SubjectPublicKeyInfo in DER.
    public var publicKey: [UInt8]

    public init(
        correlation: UInt32 = 0, projectID: String, keyID: String, name: String,
        clientEmail: String,
        publicKey: [UInt8]
    ) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
        self.name = name
        self.clientEmail = clientEmail
        self.publicKey = publicKey
    }

    package static var type: FrameType { .createServiceAccount }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
        keyID = try reader.string()
        name = try reader.string()
        clientEmail = try reader.string()
        publicKey = Array(try reader.stringBytes())
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
        writer.string(keyID)
        writer.string(name)
        writer.string(clientEmail)
        writer.counted(publicKey)
    }
}

/// REVOKE_SERVICE_ACCOUNT (0x91): revokes a service-account key. Answered by DONE.
public struct RevokeServiceAccountRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var projectID: String
    public var keyID: String

    public init(correlation: UInt32 = 0, projectID: String, keyID: String) {
        self.correlation = correlation
        self.projectID = projectID
        self.keyID = keyID
    }

    package static var type: FrameType { .revokeServiceAccount }

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

/// LIST_SERVICE_ACCOUNTS (0x92): asks for the service-account keys of a project. Answered by SERVICE_ACCOUNT_PAGE.
public struct ListServiceAccountsRequest: WireRequest {
    package typealias Answer = ServiceAccountPage

    public var correlation: UInt32
    public var projectID: String

    public init(correlation: UInt32 = 0, projectID: String) {
        self.correlation = correlation
        self.projectID = projectID
    }

    package static var type: FrameType { .listServiceAccounts }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        projectID = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(projectID)
    }
}

/// SERVICE_ACCOUNT_PAGE (0x93): the answer to LIST_SERVICE_ACCOUNTS.
public struct ServiceAccountPage: WireAnswer {
    public var correlation: UInt32
    public var accounts: [ServiceAccountSummary]

    public init(correlation: UInt32 = 0, accounts: [ServiceAccountSummary]) {
        self.correlation = correlation
        self.accounts = accounts
    }

    package static var type: FrameType { .serviceAccountPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        accounts = try reader.list(entryBytesMin: 15) { (reader) throws(WireError) in
            ServiceAccountSummary(
                keyID: try reader.string(), name: try reader.string(),
                clientEmail: try reader.string(),
                created: Instant(millisecondsSince1970: try reader.i64()),
                isRevoked: try reader.flag("revoked"))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(accounts) { (writer, account) in
            writer.string(account.keyID)
            writer.string(account.name)
            writer.string(account.clientEmail)
            writer.i64(account.created.millisecondsSince1970)
            writer.flag(account.isRevoked)
        }
    }
}

extension AdministratorInterface {
    /// Registers the public half of a key pair. The app server keeps the private half.
    /// - Parameters:
    ///   - keyID: unique in the broker; 1 to 64 characters of `[a-z0-9]`.
    ///   - name: a name for people, at most 200 bytes.
    ///   - clientEmail: issuer of the key's assertions, 1 to 255 bytes.
    ///   - publicKey: an RSA SubjectPublicKeyInfo in DER, at most 2048 bytes. The broker checks the form of the
    ///     key; the key is used where assertions are checked.
    /// - Throws: `NOT_FOUND`, `ALREADY_EXISTS`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED`.
    public func createServiceAccount(
        keyID: String, named name: String, clientEmail: String, publicKey: [UInt8],
        in project: String
    ) async throws(Failure) {
        _ = try await requests.ask(
            CreateServiceAccountRequest(
                projectID: project, keyID: keyID, name: name, clientEmail: clientEmail,
                publicKey: publicKey))
    }

    /// Revokes a service-account key, and at once each access token minted from the key.
    /// - Throws: `NOT_FOUND`.
    public func revokeServiceAccount(_ keyID: String, in project: String) async throws(Failure) {
        _ = try await requests.ask(RevokeServiceAccountRequest(projectID: project, keyID: keyID))
    }

    /// All service-account keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND` for the project.
    public func serviceAccounts(
        in project: String
    ) async throws(Failure) -> [ServiceAccountSummary] {
        try await requests.ask(ListServiceAccountsRequest(projectID: project)).accounts
    }
}
