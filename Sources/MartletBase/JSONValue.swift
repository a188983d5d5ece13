// SPDX-License-Identifier: Apache-2.0
//
// A strict JSON parser and writer for the custom keys of an Apple message (MSG-5). The broker parses to check the
// keys, a device parses to show them, and the writer serves people.
// Source: RFC 8259.

/// A JSON value.
public indirect enum JSONValue: Sendable, Hashable {
    case null
    case bool(Bool)
    /// A number without fraction and exponent, in the range of `Int64`.
    case integer(Int64)
    /// Any other number, with its digits: one with a fraction or an exponent, one outside the range of `Int64`, or -0.
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// The reason why a text is not JSON, and the byte offset of the fault.
    public struct Fault: Error, Sendable, Hashable {
        /// Offset of the fault in the text, in bytes.
        public var byteOffset: Int
        /// The reason as part of a sentence, such as `a colon is missing`, for the caller to complete.
        public var message: String
    }

    /// Deepest nesting of arrays and objects. The bound limits the parser's recursion.
    public static let depthMax = 32

    /// Rule for an object in which a name occurs twice.
    public enum RepeatedNames: Sendable {
        /// Refuse the text: in JSON written for Martlet, a repeated name is an oversight.
        case refuse
        /// Take the last value, as the interfaces do that the gateway imitates.
        case takeLast
    }

    /// Reads a text that is exactly one value, with optional white space around.
    /// - Throws: the first fault in the text.
    public init(
        parsing text: String, repeatedNames: RepeatedNames = .refuse
    ) throws(Fault) {
        try self.init(parsing: [UInt8](text.utf8), repeatedNames: repeatedNames)
    }

    /// Reads a text that is exactly one value, with optional white space around.
    public init(
        parsing bytes: [UInt8], repeatedNames: RepeatedNames = .refuse
    ) throws(Fault) {
        guard String(validating: bytes, as: UTF8.self) != nil else {
            throw Fault(byteOffset: 0, message: "the text is not UTF-8")
        }
        var parser = JSONParser(bytes, repeatedNames)
        self = try parser.value(depth: 0)
        try parser.finish()
    }

    /// Reads a text that stands by itself, such as a file or the body of a request: a byte-order mark may be in front of
    /// it (RFC 8259, section 8.1), because some editors and libraries write one.
    public init(
        document bytes: [UInt8], repeatedNames: RepeatedNames = .refuse
    ) throws(Fault) {
        let markBytes = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        do throws(Fault) {
            try self.init(parsing: Array(bytes[markBytes...]), repeatedNames: repeatedNames)
        } catch {
            throw Fault(byteOffset: markBytes + error.byteOffset, message: error.message)
        }
    }

    /// The member of an object with the given name; nil for other values.
    public subscript(key: String) -> JSONValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    /// The text of a string; nil for other values.
    public var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// JSON on one line, with the members of an object in the order of their names, and the digits of numbers as they came.
    public var text: String {
        switch self {
        case .null: "null"
        case .bool(let flag): flag ? "true" : "false"
        case .integer(let number): String(number)
        case .number(let number): number.text
        case .string(let text): Self.quoted(text)
        case .array(let elements): "[" + elements.map(\.text).joined(separator: ",") + "]"
        case .object(let members):
            "{"
                + members.map { "\(Self.quoted($0.key)):\($0.value.text)" }
                .joined(separator: ",") + "}"
        }
    }

    static func quoted(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\r": out += "\\r"
            case "\t": out += "\\t"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F:
                let digits = String(scalar.value, radix: 16)
                out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }
}

/// One-pass parser over valid UTF-8. `JSONValue.depthMax` bounds the recursion.
struct JSONParser {
    private let bytes: [UInt8]
    private let repeatedNames: JSONValue.RepeatedNames
    private var offset = 0

    init(_ bytes: [UInt8], _ repeatedNames: JSONValue.RepeatedNames) {
        self.bytes = bytes
        self.repeatedNames = repeatedNames
    }

    private var next: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private func fault(_ message: String) -> JSONValue.Fault {
        JSONValue.Fault(byteOffset: offset, message: message)
    }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D {
            offset += 1
        }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        offset += 1
        return true
    }

    mutating func finish() throws(JSONValue.Fault) {
        skipSpace()
        guard offset == bytes.count else { throw fault("something follows the value") }
    }

    mutating func value(depth: Int) throws(JSONValue.Fault) -> JSONValue {
        skipSpace()
        guard depth <= JSONValue.depthMax else {
            throw fault("it is nested deeper than \(JSONValue.depthMax)")
        }
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")):
            return try number()
        default: throw fault("a value is missing")
        }
    }

    private mutating func word(
        _ word: String, _ value: JSONValue
    ) throws(JSONValue.Fault) -> JSONValue {
        guard bytes[offset...].starts(with: word.utf8) else { throw fault("a value is missing") }
        offset += word.utf8.count
        return value
    }

    private mutating func object(depth: Int) throws(JSONValue.Fault) -> JSONValue {
        offset += 1
        var members = JSONObject()
        skipSpace()
        if take("}") { return .object(members) }
        repeat {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw fault("a name in quotes is missing") }
            let start = offset
            let name = try string()
            skipSpace()
            guard take(":") else { throw fault("a colon is missing") }
            let value = try value(depth: depth + 1)
            let former = members.updateValue(value, forKey: name)
            guard former == nil || repeatedNames == .takeLast else {
                throw JSONValue.Fault(byteOffset: start, message: "a name is there twice")
            }
            skipSpace()
        } while take(",")
        guard take("}") else { throw fault("a comma or } is missing") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSONValue.Fault) -> JSONValue {
        offset += 1
        var elements: [JSONValue] = []
        skipSpace()
        if take("]") { return .array(elements) }
        repeat {
            elements.append(try value(depth: depth + 1))
            skipSpace()
        } while take(",")
        guard take("]") else { throw fault("a comma or ] is missing") }
        return .array(elements)
    }

    private mutating func string() throws(JSONValue.Fault) -> String {
        offset += 1
        var text: [UInt8] = []
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                offset += 1
                text.append(contentsOf: Character(try escaped()).utf8)
            case 0..<0x20: throw fault("a control character in a string; write it as an escape")
            default:
                offset += 1
                text.append(byte)
            }
        }
        throw fault("a string has no end")
    }

    private mutating func escaped() throws(JSONValue.Fault) -> Unicode.Scalar {
        guard let byte = next else { throw fault("a string has no end") }
        offset += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"):
            return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): break
        default:
            offset -= 1
            throw fault("there is no such escape")
        }
        let unit = try hexadecimal()
        if let scalar = Unicode.Scalar(UInt32(unit)) { return scalar }
        // A lead surrogate: the second half of the pair follows.
        guard UTF16.isLeadSurrogate(unit), take("\\"), take("u") else {
            throw fault("half of a surrogate pair")
        }
        let trail = try hexadecimal()
        guard UTF16.isTrailSurrogate(trail) else { throw fault("half of a surrogate pair") }
        let value = 0x10000 + (UInt32(unit) & 0x3FF) << 10 + UInt32(trail) & 0x3FF
        guard let scalar = Unicode.Scalar(value) else { throw fault("half of a surrogate pair") }
        return scalar
    }

    private mutating func hexadecimal() throws(JSONValue.Fault) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw fault("an escape has four hexadecimal digits")
            }
            unit = unit << 4 | UInt16(digit)
            offset += 1
        }
        return unit
    }

    private mutating func number() throws(JSONValue.Fault) -> JSONValue {
        let start = offset
        _ = take("-")
        if !take("0") { try digits() }
        var isInteger = true
        if take(".") {
            isInteger = false
            try digits()
        }
        if take("e") || take("E") {
            isInteger = false
            if !take("+") { _ = take("-") }
            try digits()
        }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        // An Int64 has no -0.
        if isInteger, let integer = Int64(text), integer != 0 || text == "0" {
            return .integer(integer)
        }
        guard let number = Double(text), number.isFinite else {
            throw fault("a number is out of range")
        }
        return .number(JSONNumber(number, as: text))
    }

    private mutating func digits() throws(JSONValue.Fault) {
        let start = offset
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
            offset += 1
        }
        guard offset > start else { throw fault("a digit is missing") }
    }
}
