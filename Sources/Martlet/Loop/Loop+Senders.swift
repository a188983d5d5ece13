// SPDX-License-Identifier: Apache-2.0
//
// Closes a sender's connection when its credential ends: a key, an access token, or the client certificate that stands for the
// sender (REG-9, OPS-6). Revoking a key ends the connections opened with the key, or with access tokens minted from the key.
// The expiry of a token ends the connections opened with the token. Rests on Loop.

import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows
import MartletStore
import MartletTransport
import MartletWire

/// The credential of a sender's connection.
struct SenderCredential {
    /// ID of the server key, or of the service-account key from which the token was minted; empty for a certificate.
    var keyID: String
    /// Expiry of an access token or a certificate; nil for a server key.
    var expires: Instant?
    /// The certificate's subject, and the ID of the project; nil for a key or a token.
    var certificate: (subject: String, projectID: String)?
}

extension Loop where Kernel: ~Copyable {
    /// Finds the sender of a HELLO: by its server key, or without a key by the connection's certificate (OPS-6).
    func sender(
        _ connection: UnsafeMutablePointer<Connection>, _ serverKey: String, of projectID: String
    ) throws -> (Project, SenderCredential) {
        guard serverKey.isEmpty,
            let certificate = transport.verifiedCertificate(of: connection.pointee.id)
        else {
            let sender = try context.senderCredentials.sender(
                presenting: serverKey, of: projectID, now: context.clock())
            return (
                sender.project, SenderCredential(keyID: sender.keyID, expires: sender.expires)
            )
        }
        let credential = SenderCredential(
            keyID: "", expires: Instant(millisecondsSince1970: certificate.expires * 1000),
            certificate: (certificate.subject, projectID))
        guard !isOver(certificate: credential, at: context.clock()) else {
            throw MartletError(
                .unauthenticated,
                """
                The certificate of \(certificate.subject) stands for no sender of this project; \
                present a server key.
                """, field: "server_key")
        }
        let project = try context.store.read { (transaction) throws in
            try Authentication.project(id: projectID, in: transaction)
        }
        return (project, credential)
    }

    /// Whether a certificate has expired, or stands for the sender no more after a reload.
    private func isOver(certificate credential: SenderCredential, at now: Instant) -> Bool {
        guard let (subject, projectID) = credential.certificate else { return false }
        let isListed = context.tls?.current.isSender(subject: subject, of: projectID) ?? false
        return !isListed || credential.expires.map { $0 <= now } ?? false
    }

    /// Ends the connections opened with a revoked key.
    mutating func revoke(_ keyID: String) {
        endSenders(
            MartletError(.unauthenticated, "The credential was revoked; connect with another.")
        ) { $0.keyID == keyID }
    }

    /// Ends the connections whose access token has expired, or whose certificate stands for the sender no more. Called
    /// once a second.
    mutating func endExpiredSenders() {
        guard !senders.isEmpty else { return }
        let now = context.clock()
        let over = senders.filter { isOver(certificate: $0.value, at: now) }.map(\.key)
        for index in over {
            fail(
                places[index],
                MartletError(
                    .unauthenticated, "The certificate stands for this sender no more.",
                    field: "server_key"))
        }
        endSenders(
            MartletError(
                .unauthenticated, "The access token has expired; connect with another.",
                field: "access_token")
        ) { credential in
            credential.certificate == nil && credential.expires.map { $0 <= now } ?? false
        }
    }

    private mutating func endSenders(
        _ error: MartletError, where isOver: (SenderCredential) -> Bool
    ) {
        for (index, credential) in senders where isOver(credential) {
            fail(places[index], error)
        }
    }
}
