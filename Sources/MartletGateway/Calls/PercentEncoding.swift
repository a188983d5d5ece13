// SPDX-License-Identifier: Apache-2.0
//
// Escapes in paths, queries and forms. Source: RFC 3986 §2.1; forms: WHATWG URL §5. Rests on the standard library.

enum PercentEncoding {
    /// Decodes percent escapes; nil for a broken escape, or bytes that are not UTF-8.
    /// - Parameter refusesNeedless: whether an escaped letter or digit counts as broken.
    static func decode(
        _ text: Substring, plusIsSpace: Bool = false, refusesNeedless: Bool = false
    ) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit),
                    let low = rest.popFirst().flatMap(digit)
                else { return nil }
                let decoded = high << 4 | low
                if refusesNeedless, isLetterOrDigit(decoded) { return nil }
                bytes.append(decoded)
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Decodes the pairs of a form: `a=1&b=2`; nil for a broken escape, or bytes that are not UTF-8.
    static func form(_ text: Substring) -> [(name: String, value: String)]? {
        var pairs: [(name: String, value: String)] = []
        for pair in text.split(separator: "&") {
            let sides = pair.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decode(sides[0], plusIsSpace: true),
                let value = decode(sides.count > 1 ? sides[1] : "", plusIsSpace: true)
            else { return nil }
            pairs.append((name, value))
        }
        return pairs
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}
