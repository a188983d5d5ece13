// SPDX-License-Identifier: Apache-2.0
//
// REG-9: a sender's connection lasts as long as its credential. Revoking a key ends the connections opened with
// the key, or with access tokens minted from the key. The expiry of a token ends the connections opened with
// the token. Rests on Loop.

import MartletBase
import MartletWire

/// The credential of a sender's connection.
struct SenderCredential {
    /// ID of the server key, or of the service-account key from which the token was minted.
    var keyID: String
    /// Expiry of an access token; nil for a server key.
    var expires: Instant?
}

extension Loop where Kernel: ~Copyable {
    /// Ends the connections opened with a revoked key.
    mutating func revoke(_ keyID: String) {
        endSenders(
            MartletError(.unauthenticated, "The credential was revoked; connect with another.")
        ) { $0.keyID == keyID }
    }

    /// Ends the connections whose access token has expired. Called once a second.
    mutating func endExpiredSenders() {
        guard !senders.isEmpty else { return }
        let now = context.clock()
        endSenders(
            MartletError(
                .unauthenticated, "The access token has expired; connect with another.",
                field: "access_token")
        ) { credential in credential.expires.map { $0 <= now } ?? false }
    }

    private mutating func endSenders(
        _ error: MartletError, where isOver: (SenderCredential) -> Bool
    ) {
        for (index, credential) in senders where isOver(credential) {
            fail(connections + Int(index), error)
        }
    }
}
