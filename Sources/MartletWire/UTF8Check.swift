// SPDX-License-Identifier: Apache-2.0
//
// Checks that bytes are UTF-8 without making a string. ASCII is checked eight bytes at a time, other text sequence
// by sequence with the table of well-formed sequences.
// Source: The Unicode Standard, chapter 3, table 3-7 "Well-Formed UTF-8 Byte Sequences".

enum UTF8Check {
    static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        let count = bytes.count
        while index < count {
            if index + 8 <= count,
                bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080
                    == 0
            {
                index += 8
                continue
            }
            let lead = bytes[index]
            if lead < 0x80 {
                index += 1
                continue
            }
            // The range of the second byte excludes overlong forms, surrogates and values above U+10FFFF.
            let following: Int
            let second: ClosedRange<UInt8>
            switch lead {
            case 0xC2...0xDF: (following, second) = (1, 0x80...0xBF)
            case 0xE0: (following, second) = (2, 0xA0...0xBF)
            case 0xE1...0xEC, 0xEE...0xEF: (following, second) = (2, 0x80...0xBF)
            case 0xED: (following, second) = (2, 0x80...0x9F)
            case 0xF0: (following, second) = (3, 0x90...0xBF)
            case 0xF1...0xF3: (following, second) = (3, 0x80...0xBF)
            case 0xF4: (following, second) = (3, 0x80...0x8F)
            default: return false
            }
            guard index + following < count, second.contains(bytes[index + 1]) else { return false }
            for offset in 1..<following where bytes[index + 1 + offset] & 0xC0 != 0x80 {
                return false
            }
            index += following + 1
        }
        return true
    }
}
