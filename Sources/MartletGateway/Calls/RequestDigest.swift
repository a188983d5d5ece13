// SPDX-License-Identifier: Apache-2.0
//
// Identifies a call, so that a retry is recognised (GW-8). Calls with equal caller, path and body have equal digests. Rests on
// GatewayCall.

import MartletCrypto

/// SHA-256 of a call.
struct RequestDigest: Hashable, Sendable {
    static let bytesCount = SHA256.bytesCount

    let bytes: [UInt8]

    /// - Parameter bytes: `bytesCount` bytes.
    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Hashes caller, path and body. The length of each part goes before the part, so that no two parts run together.
    init(of call: GatewayCall, by caller: Caller) {
        var hash = SHA256()
        let parts: [[UInt8]] = [
            Array(caller.projectID.utf8), Array(caller.keyID.utf8),
            Array(call.path.joined(separator: "/").utf8), call.body,
        ]
        for part in parts {
            hash.update(withUnsafeBytes(of: UInt64(part.count).littleEndian) { Array($0) })
            hash.update(part)
        }
        bytes = hash.finish()
    }
}
