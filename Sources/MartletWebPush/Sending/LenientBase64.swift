// SPDX-License-Identifier: Apache-2.0
//
// Reads Base64 the ways senders and user agents write it: either alphabet, with padding or without. Rests on Base64URL.

import Martlet

enum LenientBase64 {
    /// - Returns: nil if the text isn't Base64.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var digits: [UInt8] = []
        digits.reserveCapacity(text.utf8.count)
        for digit in text.utf8 where digit != UInt8(ascii: "=") {
            switch digit {
            case UInt8(ascii: "+"): digits.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): digits.append(UInt8(ascii: "_"))
            default: digits.append(digit)
            }
        }
        return Base64URL.decode(String(decoding: digits, as: UTF8.self))
    }

    /// An application server's public key: an uncompressed point on P-256.
    /// - Returns: nil for anything else.
    static func publicKey(_ text: some StringProtocol) -> [UInt8]? {
        guard let point = decode(text), point.count == 65, point[0] == 4 else { return nil }
        return point
    }
}
