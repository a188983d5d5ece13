// SPDX-License-Identifier: Apache-2.0
//
// Who a credential belongs to (REG-5), service-account keys, and access tokens minted from them: for
// servers that embed a broker and let senders in by themselves. Rests on Broker.

import MartletEngine
import MartletRows
import MartletStore

/// A sender whose credential is good.
public struct SenderIdentity: Sendable, Hashable {
    public var project: ProjectSummary
    /// Of the server key, or of the service-account key that the access token was minted from.
    public var keyID: String
    public var isAccessToken: Bool
}

/// A service-account key: what a sender's assertions are checked with.
public struct ServiceAccountSummary: Sendable, Hashable {
    public var keyID: String
    public var name: String
    /// What its assertions are issued by.
    public var clientEmail: String
    /// SubjectPublicKeyInfo, in DER.
    public var publicKey: [UInt8]
    public var created: Instant
    public var isRevoked: Bool

    init(_ key: ServiceAccountKey) {
        keyID = key.id
        name = key.name
        clientEmail = key.clientEmail
        publicKey = key.publicKey
        created = key.created
        isRevoked = key.isRevoked
    }
}

extension Broker {
    /// Whose a server key or an access token is.
    /// - Parameter credential: its whole text.
    /// - Throws: `UNAUTHENTICATED` for one that has expired, was revoked or never was.
    public func sender(presenting credential: String) throws(MartletError) -> SenderIdentity {
        do {
            let sender = try senderCredentials.sender(
                presenting: credential, of: nil, now: clock())
            return SenderIdentity(
                project: ProjectSummary(sender.project), keyID: sender.keyID,
                isAccessToken: sender.isToken)
        } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }

    /// Makes a key known whose private half is with an app server.
    /// - Parameters:
    ///   - keyID: unique in the broker; 1 to 64 characters of `[a-z0-9]`.
    ///   - name: what people call it; at most 200 bytes.
    ///   - clientEmail: what assertions are issued by; 1 to 255 bytes.
    ///   - publicKey: an RSA SubjectPublicKeyInfo in DER, at most 2048 bytes. It is judged where
    ///     assertions are checked.
    /// - Throws: `NOT_FOUND`, `ALREADY_EXISTS`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED`.
    public func createServiceAccount(
        keyID: String, named name: String, clientEmail: String, publicKey: [UInt8],
        in project: String
    ) async throws(MartletError) {
        _ = try await perform(
            .createServiceAccount(
                project: project,
                key: NewServiceAccountKey(
                    id: keyID, name: name, clientEmail: clientEmail, publicKey: publicKey)))
    }

    /// Ends a key, and at once every access token that was minted from it.
    /// - Throws: `NOT_FOUND`.
    public func revokeServiceAccount(
        _ keyID: String, in project: String
    ) async throws(MartletError) {
        _ = try await perform(.revokeServiceAccount(project: project, keyID: keyID))
    }

    /// All service-account keys of a project, revoked ones too.
    public func serviceAccounts(
        in project: String
    ) throws(MartletError) -> [ServiceAccountSummary] {
        let keys = try ask {
            try $0.projects.serviceAccountKeys(
                of: try Authentication.project(id: project, in: $0).number)
        }
        return keys.map { ServiceAccountSummary($0) }
    }

    /// One of any project, to check an assertion with.
    /// - Throws: `UNAUTHENTICATED` for one that was revoked or never was.
    public func serviceAccount(
        _ keyID: String
    ) throws(MartletError) -> (project: ProjectSummary, account: ServiceAccountSummary) {
        let found = try ask { try Authentication.serviceAccount(keyID: keyID, in: $0) }
        return (ProjectSummary(found.project), ServiceAccountSummary(found.key))
    }

    /// A credential that lets its bearer send for the key's project until it expires, or the key is
    /// revoked.
    /// - Parameter lifeSeconds: 1 to 86,400.
    /// - Throws: `UNAUTHENTICATED` for a key that was revoked or never was.
    public func mintAccessToken(
        for keyID: String, lifeSeconds: UInt32 = Limits.accessTokenSecondsDefault
    ) throws(MartletError) -> String {
        guard (1...Limits.accessTokenSecondsMax).contains(lifeSeconds) else {
            throw MartletError(
                .invalidArgument,
                "An access token lives 1 to \(Limits.accessTokenSecondsMax) seconds.",
                field: "life")
        }
        let found = try ask { try Authentication.serviceAccount(keyID: keyID, in: $0) }
        let expires = clock().millisecondsSince1970 + Int64(lifeSeconds) * 1000
        return senderCredentials.mint(
            found.project.number, keyID: keyID,
            expires: Instant(millisecondsSince1970: expires))
    }
}
