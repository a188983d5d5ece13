// SPDX-License-Identifier: Apache-2.0
//
// The opaque values that clients hold: registration tokens and notification keys, and the digests under which
// secrets are kept. Tokens and digests have a fixed size and need no allocation. The edge supplies random bytes;
// the code here makes none. Rests on `Limits`.

/// A registration token (REG-1): 24 random bytes, written as 32 characters of URL-safe base64. A token addresses an
/// instance but does not authorise its holder to act as the instance.
public struct Token: Hashable, Sendable {
    /// The 24 bytes as three words: bytes 0–7, 8–15 and 16–23, each little-endian.
    public let words: (UInt64, UInt64, UInt64)

    /// Bytes 0–7, 8–15 and 16–23, each little-endian.
    public init(words: (UInt64, UInt64, UInt64)) { self.words = words }

    /// nil unless the text is 32 characters of `[A-Za-z0-9_-]`. Every send to a token parses one, so the code
    /// converts four characters to three bytes in place, without an array.
    public init?(text: String) {
        guard text.utf8.count * 6 == Limits.tokenRandomBytes * 8 else { return nil }
        let characters = text.utf8.span
        let values = Base64URL.values
        var all: UInt8 = 0
        /// Converts four characters to three bytes, the first byte in the lowest bits.
        func bytes(_ group: Int) -> UInt64 {
            var bits: UInt32 = 0
            for index in group * 4..<group * 4 + 4 {
                let value = values[Int(characters[index])]
                all |= value
                bits = bits << 6 | UInt32(value)
            }
            return UInt64((bits << 8).byteSwapped)
        }
        let (first, second, third, fourth) = (bytes(0), bytes(1), bytes(2), bytes(3))
        let (fifth, sixth, seventh, last) = (bytes(4), bytes(5), bytes(6), bytes(7))
        guard all < 64 else { return nil }
        self.init(
            words: (
                first | second << 24 | third << 48,
                third >> 16 | fourth << 8 | fifth << 32 | sixth << 56,
                sixth >> 8 | seventh << 16 | last << 40
            ))
    }

    /// - Throws: an error that describes the form of a token.
    public init(validating text: some StringProtocol) throws(MartletError) {
        guard let token = Token(text: String(text)) else {
            throw MartletError(
                .invalidArgument,
                "This is not a registration token: 32 characters of [A-Za-z0-9_-].", field: "token")
        }
        self = token
    }

    /// - Parameter bytes: 24 elements.
    public init(bytes: [UInt8]) {
        precondition(bytes.count == Limits.tokenRandomBytes, "A token has 24 bytes.")
        func word(_ at: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[at + $1]) << (8 * UInt64($1)) }
        }
        words = (word(0), word(8), word(16))
    }

    /// The 24 bytes of the token.
    public var bytes: [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(Limits.tokenRandomBytes)
        for word in [words.0, words.1, words.2] {
            for shift in 0..<8 {
                out.append(UInt8(truncatingIfNeeded: word >> (8 * UInt64(shift))))
            }
        }
        return out
    }

    /// The token as clients write it: 32 characters of `[A-Za-z0-9_-]`.
    public var text: String { Base64URL.encode(bytes) }

    public static func == (a: Token, b: Token) -> Bool { a.words == b.words }
    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
    }
}

/// A notification key (GRP-1): 24 bytes in the text form of a token. A key addresses a group but does not authorise
/// its holder to change the group; only senders may do so.
public struct GroupKey: Hashable, Sendable {
    private let bits: Token

    /// - Parameter bytes: 24 elements.
    public init(bytes: [UInt8]) { bits = Token(bytes: bytes) }

    /// GRP-5: makes a key with a checksum. The checksum tells the key from a registration token even after the
    /// group has ended, without a row for every former group. Sixteen bytes are random; eight are a checksum of
    /// these bytes and the project. A forged key with a correct checksum belongs to no group.
    /// - Parameter random: `Limits.groupKeyRandomBytes` random bytes.
    public init(random: [UInt8], of project: ProjectNumber) {
        self.init(bytes: random + Self.checksum(random, project))
    }

    /// Whether the checksum says that the key was made for the project.
    public func isMade(for project: ProjectNumber) -> Bool {
        let random = Array(bytes.prefix(Limits.groupKeyRandomBytes))
        return bytes.dropFirst(random.count).elementsEqual(Self.checksum(random, project))
    }

    /// FNV-1a with 64 bits. Source: draft-eastlake-fnv.
    private static func checksum(_ random: [UInt8], _ project: ProjectNumber) -> [UInt8] {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        let number = (0..<4).map { UInt8(truncatingIfNeeded: project.rawValue >> (8 * $0)) }
        for byte in "group".utf8 + random + number {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        return (0..<8).map { UInt8(truncatingIfNeeded: hash >> (8 * UInt64($0))) }
    }

    /// - Throws: an error that describes the form of a notification key.
    public init(validating text: some StringProtocol) throws(MartletError) {
        guard let bits = Token(text: String(text)) else {
            throw MartletError(
                .invalidArgument,
                "This is not a group's key: 32 characters of [A-Za-z0-9_-].", field: "key")
        }
        self.bits = bits
    }

    /// The 24 bytes of the key.
    public var bytes: [UInt8] { bits.bytes }
    /// The key as clients write it: 32 characters of `[A-Za-z0-9_-]`.
    public var text: String { bits.text }
}

/// The SHA-256 of a secret. The broker stores secrets in this form only (REG-5).
public struct SecretDigest: Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Bytes 0–7, 8–15, 16–23 and 24–31, each little-endian.
    public init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

    /// - Parameter bytes: 32 elements.
    public init(bytes: [UInt8]) {
        precondition(bytes.count == 32, "A SHA-256 digest has 32 bytes.")
        func word(_ at: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[at + $1]) << (8 * UInt64($1)) }
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// The 32 bytes of the digest.
    public var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
        }
    }

    /// Bytes 0–7 as a big-endian number.
    public var firstWord: UInt64 { words.0.byteSwapped }

    /// Compares in constant time, independent of the position of the first difference, so that the time of a
    /// refusal tells an attacker nothing.
    public func matches(_ other: SecretDigest) -> Bool {
        let low = (words.0 ^ other.words.0) | (words.1 ^ other.words.1)
        let high = (words.2 ^ other.words.2) | (words.3 ^ other.words.3)
        return low | high == 0
    }
}

/// URL-safe base64 without padding (Source: RFC 4648 §5).
public enum Base64URL {
    private static let alphabet = [UInt8](
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// The text of the bytes: four characters for three bytes, and two or three characters for one or two bytes at
    /// the end.
    public static func encode(_ bytes: [UInt8]) -> String {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count * 4 + 2) / 3)
        var index = 0
        while index < bytes.count {
            let rest = bytes.count - index
            let group =
                UInt32(bytes[index]) << 16 | (rest > 1 ? UInt32(bytes[index + 1]) << 8 : 0)
                | (rest > 2 ? UInt32(bytes[index + 2]) : 0)
            out.append(alphabet[Int(group >> 18)])
            out.append(alphabet[Int(group >> 12 & 63)])
            if rest > 1 { out.append(alphabet[Int(group >> 6 & 63)]) }
            if rest > 2 { out.append(alphabet[Int(group & 63)]) }
            index += 3
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// nil for a character outside the alphabet, an impossible length, or unused bits that are set. The last rule
    /// gives every value exactly one text.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var out: [UInt8] = []
        out.reserveCapacity(text.utf8.count * 3 / 4)
        var bits: UInt32 = 0
        var bitCount = 0
        for character in text.utf8 {
            guard let value = value(of: character) else { return nil }
            bits = bits << 6 | value
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                out.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
                bits &= (1 << UInt32(bitCount)) - 1
            }
        }
        guard bitCount < 6, bits == 0 else { return nil }
        return out
    }

    /// The six bits of each character; 64 for a character outside the alphabet.
    static let values = (0...UInt8.max).map { value(of: $0).map { UInt8($0) } ?? 64 }

    /// The six bits of a character; nil outside the alphabet.
    static func value(of character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character) - 65
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character) - 71
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character) + 4
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
