// SPDX-License-Identifier: Apache-2.0
//
// The credentials of a sender (REG-5): a server key, or an access token minted from a service-account key. The
// text of an access token has the project, the expiry and the key ID, signed with a secret of the data folder.
// So the store has no row for a token, and a token ends with its key. Rests on the engine's authentication and
// MartletCrypto.

import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows
import MartletStore

/// Checks senders' credentials, and mints access tokens.
struct SenderCredentials: Sendable {
    /// A sender with a valid credential.
    struct Sender {
        var project: Project
        /// ID of the server key, or of the service-account key from which the token was minted.
        var keyID: String
        /// Expiry of an access token; nil for a server key.
        var expires: Instant?
        var isToken: Bool { expires != nil }
    }

    /// Prefix of access tokens. A server key cannot begin with the prefix, because the first 12 characters of a
    /// server key have no dot.
    static let tokenPrefix = "mat1."
    /// Bytes of project and expiry, before the key ID.
    private static let headBytes = 12
    /// Longest access token that is read, in bytes.
    private static let tokenBytesMax = 512

    private let store: Store
    private let secret: AuthenticationKey

    init(store: Store, secret: [UInt8]) {
        self.store = store
        self.secret = AuthenticationKey(secret)
    }

    /// Finds the sender of a credential.
    /// - Parameter projectID: the project that the sender names; nil: any project.
    /// - Throws: `MartletError` UNAUTHENTICATED, `StorageError`.
    func sender(presenting text: String, of projectID: String?, now: Instant) throws -> Sender {
        if text.hasPrefix(Self.tokenPrefix) {
            let (number, keyID, expires) = try read(text, now: now)
            return try store.read { (transaction) throws in
                let (project, _) = try Authentication.serviceAccount(
                    projectID: projectID, keyID: keyID, in: transaction)
                guard project.number == number else { throw Self.invalid }
                return Sender(project: project, keyID: keyID, expires: expires)
            }
        }
        let digest = Credentials.digest(text)
        let keyID = Credentials.keyID(of: text)
        return try store.read { (transaction) throws in
            let project = try Authentication.sender(
                projectID: projectID, keyID: keyID, digest: digest, in: transaction)
            return Sender(project: project, keyID: keyID, expires: nil)
        }
    }

    func mint(_ project: ProjectNumber, keyID: String, expires: Instant) -> String {
        var payload: [UInt8] = []
        payload.append(littleEndian: project.rawValue)
        payload.append(littleEndian: expires.millisecondsSince1970)
        payload += keyID.utf8
        return Self.tokenPrefix + Base64URL.encode(payload) + "."
            + Base64URL.encode(secret.code(of: payload))
    }

    private func read(
        _ text: String, now: Instant
    ) throws(MartletError) -> (project: ProjectNumber, keyID: String, expires: Instant) {
        let parts = text.dropFirst(Self.tokenPrefix.count).split(separator: ".")
        guard text.utf8.count <= Self.tokenBytesMax, parts.count == 2,
            let payload = Base64URL.decode(parts[0]), payload.count > Self.headBytes,
            let signature = Base64URL.decode(parts[1]),
            secret.isCode(signature, of: payload)
        else { throw Self.invalid }
        let (project, expires) = payload.withUnsafeBytes {
            (
                $0.loadLittleEndian(UInt32.self, at: 0),
                $0.loadLittleEndian(Int64.self, at: 4)
            )
        }
        guard now.millisecondsSince1970 < expires else {
            throw MartletError(
                .unauthenticated, "The access token has expired; ask for another.",
                field: "access_token")
        }
        let keyID = String(decoding: payload[Self.headBytes...], as: UTF8.self)
        return (ProjectNumber(project), keyID, Instant(millisecondsSince1970: expires))
    }

    private static var invalid: MartletError {
        MartletError(
            .unauthenticated, "This is no access token of this broker; ask for one at its gateway.",
            field: "access_token")
    }
}
