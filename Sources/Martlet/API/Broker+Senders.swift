// SPDX-License-Identifier: Apache-2.0
//
// Checks of sender credentials, service-account keys, and access tokens minted from the keys (REG-5). Servers
// that embed a broker use these calls to authenticate senders. Rests on Broker.

import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore

/// A sender with a valid credential.
public struct SenderIdentity: Sendable, Hashable {
    /// The sender's project.
    public var project: ProjectSummary
    /// ID of the server key, or of the service-account key from which the access token was minted.
    public var keyID: String
    /// True for an access token, false for a server key.
    public var isAccessToken: Bool
}

/// A service-account key: the public key with which a sender's assertions are checked.
public struct ServiceAccountDetails: Sendable, Hashable {
    /// ID of the key, 1 to 64 characters of `[a-z0-9]`; unique in the broker.
    public var keyID: String
    /// Name of the key for people, at most 200 bytes.
    public var name: String
    /// Issuer of the key's assertions.
    public var clientEmail: String
    /// SubjectPublicKeyInfo in DER.
    public var publicKey: [UInt8]
    /// Instant at which the key was registered.
    public var created: Instant
    /// True for a revoked key. A revoked key mints no access token, and the key's access tokens are refused.
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
    /// Finds the sender that presents a credential.
    /// - Parameter credential: the whole text of a server key or an access token.
    /// - Throws: `UNAUTHENTICATED` for an unknown, expired or revoked credential.
    public func sender(presenting credential: String) throws(MartletError) -> SenderIdentity {
        do throws(MartletError) { return try knownSender(presenting: credential) } catch {
            // OPS-7: another node may have made the credential a moment ago.
            guard committer.node != nil else { throw error }
            if let refusal = committer.waitForNewer() { throw refusal }
            return try knownSender(presenting: credential)
        }
    }

    private func knownSender(
        presenting credential: String
    ) throws(MartletError) -> SenderIdentity {
        do {
            let sender = try senderCredentials.sender(
                presenting: credential, of: nil, now: clock())
            return SenderIdentity(
                project: ProjectSummary(sender.project, limits), keyID: sender.keyID,
                isAccessToken: sender.isToken)
        } catch let error as MartletError {
            throw error
        } catch {
            throw .unreadable(error)
        }
    }

    /// All service-account keys of a project with their public keys, including revoked keys.
    /// - Throws: `NOT_FOUND` for the project.
    public func serviceAccountDetails(
        in project: String
    ) throws(MartletError) -> [ServiceAccountDetails] {
        let keys = try ask {
            try $0.projects.serviceAccountKeys(
                of: try Authentication.project(id: project, in: $0).number)
        }
        return keys.map { ServiceAccountDetails($0) }
    }

    /// Finds a service-account key of any project, to check an assertion.
    /// - Throws: `UNAUTHENTICATED` for an unknown or revoked key.
    public func serviceAccount(
        _ keyID: String
    ) throws(MartletError) -> (project: ProjectSummary, account: ServiceAccountDetails) {
        let found = try ask { try Authentication.serviceAccount(keyID: keyID, in: $0) }
        return (ProjectSummary(found.project, limits), ServiceAccountDetails(found.key))
    }

    /// Mints an access token. Its bearer may send for the key's project until the token expires or the key is
    /// revoked.
    /// - Parameter lifeSeconds: 1 to 86,400 seconds.
    /// - Throws: `UNAUTHENTICATED` for an unknown or revoked key, `INVALID_ARGUMENT` for the life.
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
