// SPDX-License-Identifier: Apache-2.0
//
// The IDs of user agents and their channels. A user agent's ID is the secret that lets it in, so we keep only a digest.
// Rests on MartletCrypto.

import Martlet
import MartletCrypto

/// The digest of a user agent's secret ID.
struct AgentIdentity: Hashable, Sendable {
    /// Longest ID, in bytes. Firefox accepts up to 128 characters.
    static let textBytesMax = 128

    private let words: SIMD4<UInt64>

    /// - Parameter text: the secret ID.
    init(of text: String) {
        let bytes = SHA256.hash(Array(text.utf8))
        words = SIMD4(
            (0..<4).map { word in
                (0..<8).reduce(0) { $0 << 8 | UInt64(bytes[8 * word + $1]) }
            })
    }

    /// The digest, as the store knows it.
    var digest: SecretDigest {
        SecretDigest(
            bytes: (0..<4).flatMap { word in
                (0..<8).map { UInt8(truncatingIfNeeded: words[word] >> (56 - 8 * UInt64($0))) }
            })
    }

    /// A new secret ID: 32 hexadecimal digits.
    static func newText() -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<2).map { _ in
            let half = String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 16)
            return String(repeating: "0", count: 16 - half.count) + half
        }.joined()
    }
}

/// The ID of a channel: a UUID in lower case.
struct ChannelID: Hashable, Sendable, CustomStringConvertible {
    private let high: UInt64
    private let low: UInt64

    private static let textBytes = 36
    private static let dashes: Set<Int> = [8, 13, 18, 23]

    /// - Returns: nil unless the text is a UUID in lower case, with dashes.
    init?(_ text: String) {
        guard text.utf8.count == Self.textBytes else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for (index, byte) in text.utf8.enumerated() {
            if Self.dashes.contains(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            words = (words.0 << 4 | words.1 >> 60, words.1 << 4 | UInt64(digit))
        }
        (high, low) = words
    }

    /// - Parameter bytes: 16 bytes.
    init(bytes: [UInt8]) {
        high = bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
        low = bytes[8...].reduce(0) { $0 << 8 | UInt64($1) }
    }

    var bytes: [UInt8] {
        [high, low].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * UInt64($0))) }
        }
    }

    var description: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(Self.textBytes)
        for (index, byte) in bytes.enumerated() {
            if [4, 6, 8, 10].contains(index) { text.append(UInt8(ascii: "-")) }
            text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
        return String(decoding: text, as: UTF8.self)
    }
}
