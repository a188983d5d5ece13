// SPDX-License-Identifier: Apache-2.0
//
// Checks whether bytes have the form of an RSA public key (REG-5): a SubjectPublicKeyInfo of RFC 5280 §4.1 in DER, with the
// algorithm rsaEncryption of RFC 8017 §A.1.
//
//     SEQUENCE { SEQUENCE { OID 1.2.840.113549.1.1.1, NULL },
//                BIT STRING { 0 unused bits, SEQUENCE { INTEGER modulus, INTEGER exponent } } }
//
// The check does not compute with the key; the signature of an assertion is verified elsewhere. A key of another form
// is refused at its creation, because its service account could never sign in. Pure.

enum RSAPublicKey {
    /// Shorter keys are refused when an assertion is verified. Source: NIST SP 800-131A, 2048 bits.
    private static let modulusBitsMin = 2048
    private static let algorithm: [UInt8] = [
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ]

    private enum Tag {
        static let integer: UInt8 = 0x02
        static let bitString: UInt8 = 0x03
        static let sequence: UInt8 = 0x30
    }

    /// The fault of the key, as the end of a sentence; nil: the form is valid.
    static func fault(in der: [UInt8]) -> String? {
        var outer = Reader(der[...])
        guard var info = outer.take(Tag.sequence), outer.isAtEnd,
            let algorithm = info.take(Tag.sequence), let bits = info.take(Tag.bitString),
            info.isAtEnd
        else { return "is not a SubjectPublicKeyInfo in DER" }
        guard algorithm.bytes.elementsEqual(Self.algorithm) else { return "is not an RSA key" }
        guard bits.bytes.first == 0 else { return "is not an RSA key in DER" }
        var inner = Reader(bits.bytes.dropFirst())
        guard var key = inner.take(Tag.sequence), inner.isAtEnd,
            let modulus = key.take(Tag.integer)?.positive,
            let exponent = key.take(Tag.integer)?.positive, key.isAtEnd
        else { return "is not an RSA key in DER" }
        guard bitCount(modulus) >= modulusBitsMin else {
            return "has \(bitCount(modulus)) bits and needs \(modulusBitsMin)"
        }
        guard let last = exponent.last, last & 1 == 1, bitCount(exponent) > 1,
            modulus.last.map({ $0 & 1 == 1 }) ?? false
        else { return "has numbers that no RSA key can have" }
        return nil
    }

    /// - Parameter number: big-endian, without leading zero bytes.
    private static func bitCount(_ number: ArraySlice<UInt8>) -> Int {
        guard let first = number.first else { return 0 }
        return number.count * 8 - first.leadingZeroBitCount
    }

    /// Takes DER values apart.
    private struct Reader {
        var bytes: ArraySlice<UInt8>

        init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

        var isAtEnd: Bool { bytes.isEmpty }

        /// The bytes of a positive INTEGER, without the zero byte before a highest bit of 1; nil if the value is not
        /// positive, or is longer than necessary.
        var positive: ArraySlice<UInt8>? {
            guard let first = bytes.first, first < 0x80 else { return nil }
            guard first == 0 else { return bytes }
            let rest = bytes.dropFirst()
            guard let second = rest.first, second >= 0x80 else { return nil }
            return rest
        }

        /// The contents of the next value; nil if the value has another tag, or is not valid.
        mutating func take(_ tag: UInt8) -> Reader? {
            guard bytes.popFirst() == tag, let short = bytes.popFirst() else { return nil }
            var length = Int(short)
            if short >= 0x80 {
                let count = Int(short & 0x7F)
                guard (1...2).contains(count), bytes.count >= count else { return nil }
                length = bytes.prefix(count).reduce(0) { $0 << 8 | Int($1) }
                bytes = bytes.dropFirst(count)
                // DER encodes a length in as few bytes as possible.
                guard length >= (count == 1 ? 0x80 : 0x100) else { return nil }
            }
            guard bytes.count >= length else { return nil }
            defer { bytes = bytes.dropFirst(length) }
            return Reader(bytes.prefix(length))
        }
    }
}
