// SPDX-License-Identifier: Apache-2.0
//
// An administrator's requests about service-account keys (REG-5), and the answers. The private key never goes over
// the wire: the administrator makes the key pair and registers the public key. Rests on `KeyFrames`.

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

/// Keys of service accounts (REG-5).
package enum ServiceAccounts: KeyKind {
    package static var revokeType: FrameType { .revokeServiceAccount }
    package static var listType: FrameType { .listServiceAccounts }
    package static var pageType: FrameType { .serviceAccountPage }
    package static var entryBytesMin: Int { 15 }

    package static func decode(
        from reader: inout WireReader
    ) throws(WireError) -> ServiceAccountSummary {
        ServiceAccountSummary(
            keyID: try reader.string(), name: try reader.string(),
            clientEmail: try reader.string(),
            created: Instant(millisecondsSince1970: try reader.i64()),
            isRevoked: try reader.flag("revoked"))
    }

    package static func encode(_ key: ServiceAccountSummary, into writer: inout WireWriter) {
        writer.string(key.keyID)
        writer.string(key.name)
        writer.string(key.clientEmail)
        writer.i64(key.created.millisecondsSince1970)
        writer.flag(key.isRevoked)
    }
}

/// REVOKE_SERVICE_ACCOUNT (0x91), answered by DONE.
package typealias RevokeServiceAccountRequest = RevokeKey<ServiceAccounts>
/// LIST_SERVICE_ACCOUNTS (0x92), answered by SERVICE_ACCOUNT_PAGE.
package typealias ListServiceAccountsRequest = ListRequest<ServiceAccounts>
/// SERVICE_ACCOUNT_PAGE (0x93).
package typealias ServiceAccountPage = ListResult<ServiceAccounts>

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
        try await revoke(ServiceAccounts.self, keyID, in: project)
    }

    /// All service-account keys of a project, including revoked keys.
    /// - Throws: `NOT_FOUND` for the project.
    public func serviceAccounts(
        in project: String
    ) async throws(Failure) -> [ServiceAccountSummary] {
        try await list(ServiceAccounts.self, in: project)
    }
}
