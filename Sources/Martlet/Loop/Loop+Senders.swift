// SPDX-License-Identifier: Apache-2.0
//
// REG-9: a sender's connection lasts as long as its credential. Revoking a key ends the
// connections that were opened with the key, or with access tokens minted from it. The expiry of a token
// ends the connections that were opened with the token. Rests on Loop.

import MartletBase
import MartletWire

/// What a sender's connection was opened with.
struct SenderCredential {
    /// Of the server key, or of the service-account key that a token was minted from.
    var keyID: String
    /// Of an access token.
    var expires: Instant?
}

extension Loop where Kernel: ~Copyable {
    /// No request is served any more of whoever presented this key.
    mutating func revoke(_ keyID: String) {
        endSenders(
            MartletError(.unauthenticated, "The credential was revoked; connect with another.")
        ) { $0.keyID == keyID }
    }

    /// Once a second.
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
