// SPDX-License-Identifier: Apache-2.0
//
// Base64 as senders and user agents write keys: of both alphabets, with and without padding. Rests on Base64URL.

import Martlet

enum LenientBase64 {
    /// - Returns: nil for a text that is no base64.
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

    /// An application server's public key: a point on P-256, not compressed.
    /// - Returns: nil for any other text.
    static func publicKey(_ text: some StringProtocol) -> [UInt8]? {
        guard let point = decode(text), point.count == 65, point[0] == 4 else { return nil }
        return point
    }
}
