// SPDX-License-Identifier: Apache-2.0
//
// Makes the header `topic` of a collapse key: like the mailbox, a push service replaces a waiting message with a later one
// of the same topic. Rests on MartletCrypto.
// Source: RFC 8030, section 5.4.

import Martlet
import MartletCrypto

/// The topic of a message at a push service.
package enum PushTopic {
    /// Longest topic, in characters of `[A-Za-z0-9_-]`.
    private static let bytesMax = 32

    /// Whether Base64URL can have this length. Apple's push service decodes the topic, and refuses it if its length is one
    /// more than a multiple of four (`BadWebPushTopic`).
    private static func isDecodable(length: Int) -> Bool { length % 4 != 1 }

    /// Bytes of a digest that makes 32 characters of Base64URL.
    private static let digestBytes = 24

    /// The topic for a collapse key: the key itself if push services would take it, otherwise its digest. The same key
    /// always gives the same topic.
    /// - Returns: nil for an empty key.
    package static func text(for collapseKey: String) -> String? {
        guard !collapseKey.isEmpty else { return nil }
        let isTopic =
            collapseKey.utf8.count <= bytesMax && isDecodable(length: collapseKey.utf8.count)
            && collapseKey.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
        if isTopic { return collapseKey }
        return Base64URL.encode(Array(SHA256.hash(Array(collapseKey.utf8)).prefix(digestBytes)))
    }
}
