// SPDX-License-Identifier: Apache-2.0
//
// The opaque values that the outside world holds: registration tokens, and the digests under which
// secrets are kept. Both are fixed-size values without allocation. Random bytes come from the edge;
// nothing here makes any. Rests on `Limits`.

/// A registration token (REG-1): 24 random bytes, 32 characters of URL-safe base64 in text.
/// It addresses an instance; knowing it never lets one act as the instance.
public struct Token: Hashable, Sendable {
    public let words: (UInt64, UInt64, UInt64)

    /// Bytes 0–7, 8–15 and 16–23, each little-endian.
    public init(words: (UInt64, UInt64, UInt64)) { self.words = words }

    /// nil unless the text is 32 characters of `[A-Za-z0-9_-]`. Every message to a token asks for this, so
    /// four characters become three bytes in place, without an array.
    public init?(text: String) {
        guard text.utf8.count * 6 == Limits.tokenRandomBytes * 8 else { return nil }
        let characters = text.utf8.span
        let values = Base64URL.values
        var all: UInt8 = 0
        /// Four characters are three bytes, the first of them lowest.
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

    /// - Throws: an error that says what a token looks like.
    public init(validating text: some StringProtocol) throws(MartletError) {
        guard let token = Token(text: String(text)) else {
            throw MartletError(
                .invalidArgument,
                "This is not a registration token: 32 characters of [A-Za-z0-9_-].", field: "token")
        }
        self = token
    }

    /// `bytes` has 24 elements.
    public init(bytes: [UInt8]) {
        precondition(bytes.count == Limits.tokenRandomBytes, "A token has 24 bytes.")
        func word(_ at: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[at + $1]) << (8 * UInt64($1)) }
        }
        words = (word(0), word(8), word(16))
    }

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

    public var text: String { Base64URL.encode(bytes) }

    public static func == (a: Token, b: Token) -> Bool { a.words == b.words }
    public func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
    }
}

/// A notification key (GRP-1): as many random bytes as a token has, and the same characters in text.
/// It addresses a group; knowing it lets nobody change the group without being a sender.
public struct GroupKey: Hashable, Sendable {
    private let bits: Token

    /// `bytes` has 24 elements.
    public init(bytes: [UInt8]) { bits = Token(bytes: bytes) }

    /// GRP-5: a key that can be told from a registration token also when its group has ended, without a
    /// row for every group that there was. Sixteen bytes are random and eight are a checksum of these
    /// and the project; whoever makes up a key with the right checksum has the key of no group.
    /// - Parameter random: `Limits.groupKeyRandomBytes` of them.
    public init(random: [UInt8], of project: ProjectNumber) {
        self.init(bytes: random + Self.checksum(random, project))
    }

    /// Whether this was made as a key of the project.
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

    /// - Throws: an error that says what a key looks like.
    public init(validating text: some StringProtocol) throws(MartletError) {
        guard let bits = Token(text: String(text)) else {
            throw MartletError(
                .invalidArgument,
                "This is not a group's key: 32 characters of [A-Za-z0-9_-].", field: "key")
        }
        self.bits = bits
    }

    public var bytes: [UInt8] { bits.bytes }
    public var text: String { bits.text }
}

/// The SHA-256 of a secret: the only form in which one is stored (REG-5).
public struct SecretDigest: Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Bytes 0–7, 8–15, 16–23 and 24–31, each little-endian.
    public init(words: (UInt64, UInt64, UInt64, UInt64)) { self.words = words }

    /// `bytes` has 32 elements.
    public init(bytes: [UInt8]) {
        precondition(bytes.count == 32, "A SHA-256 digest has 32 bytes.")
        func word(_ at: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[at + $1]) << (8 * UInt64($1)) }
        }
        words = (word(0), word(8), word(16), word(24))
    }

    public var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
        }
    }

    /// Bytes 0–7 as a big-endian number.
    public var firstWord: UInt64 { words.0.byteSwapped }

    /// Takes the same time wherever the first difference stands, so that an attacker learns nothing
    /// from the time of a refusal.
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

    /// nil where a character is outside the alphabet, the length is impossible, or unused bits are
    /// set (so that every value has exactly one text).
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

    /// The six bits that each character stands for; above 63 outside the alphabet.
    static let values = (0...UInt8.max).map { value(of: $0).map { UInt8($0) } ?? 64 }

    /// The six bits that a character stands for; nil outside the alphabet.
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
