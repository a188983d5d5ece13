// SPDX-License-Identifier: Apache-2.0
//
// Cuts the bytes of a condition into lexemes. The lexer works on bytes instead of characters, because offsets in
// errors are bytes, and a text that is not UTF-8 is refused like any other wrong byte. The lexer detects nearly all
// mistakes that people make in conditions, so most of the advice is here. Rests on `TopicName` for the alphabet of
// names.

internal import MartletBase

/// One lexeme of a condition.
struct Lexeme: Equatable {
    enum Kind: Equatable {
        /// `'NAME'`: the range of the name without its quotes.
        case name(Range<Int>)
        /// `in`
        case keywordIn
        /// `topics`
        case keywordTopics
        case and
        case or
        case not
        case open
        case close
        /// The end of the text.
        case end
    }
    var kind: Kind
    /// The bytes of the lexeme in the text.
    var range: Range<Int>
}

/// Yields the lexemes of a text, one at a time.
struct Lexer {
    let bytes: [UInt8]
    private(set) var at = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The next lexeme; `.end` at the end, however often called.
    mutating func next() throws(MartletError) -> Lexeme {
        while at < bytes.count, Self.isBlank(bytes[at]) { at += 1 }
        guard at < bytes.count else {
            return Lexeme(kind: .end, range: bytes.count..<bytes.count)
        }
        switch bytes[at] {
        case UInt8(ascii: "("): return take(.open, 1)
        case UInt8(ascii: ")"): return take(.close, 1)
        case UInt8(ascii: "!"):
            if byte(at + 1) == UInt8(ascii: "=") {
                throw Self.fault(at, "There is no operator !=; write !('NAME' in topics).")
            }
            return take(.not, 1)
        case UInt8(ascii: "&"):
            guard byte(at + 1) == UInt8(ascii: "&") else {
                throw Self.fault(at, "There is no operator &; write && for \"and\".")
            }
            return take(.and, 2)
        case UInt8(ascii: "|"):
            guard byte(at + 1) == UInt8(ascii: "|") else {
                throw Self.fault(at, "There is no operator |; write || for \"or\".")
            }
            return take(.or, 2)
        case UInt8(ascii: "'"): return try name()
        case UInt8(ascii: "\""):
            throw Self.fault(
                at, "Double quotes are not accepted; put topic names in single quotes: 'NAME'.")
        case UInt8(ascii: "="):
            throw Self.fault(at, "There is no operator = or ==; a term is 'NAME' in topics.")
        case let byte where Self.isWordByte(byte): return try word()
        case let byte: throw Self.fault(at, Self.complaint(about: byte))
        }
    }

    // MARK: Tokens of several bytes

    private mutating func name() throws(MartletError) -> Lexeme {
        let start = at + 1
        var end = start
        while end < bytes.count, bytes[end] != UInt8(ascii: "'") {
            guard TopicName.isAllowed(bytes[end]) else {
                throw Self.faultInName(bytes, start: start, at: end)
            }
            end += 1
        }
        guard end < bytes.count else {
            throw Self.fault(at, "This topic name has no closing single quote.")
        }
        guard end > start else {
            throw Self.fault(
                at, "The topic name is empty; write 1 to 900 bytes of [a-zA-Z0-9-_.~%].")
        }
        guard end - start <= Limits.topicNameBytesMax else {
            throw Self.fault(
                start,
                "The topic name has \(end - start) bytes; at most \(Limits.topicNameBytesMax)"
                    + " are allowed.")
        }
        return take(.name(start..<end), end + 1 - at)
    }

    private mutating func word() throws(MartletError) -> Lexeme {
        var end = at
        while end < bytes.count, Self.isWordByte(bytes[end]) { end += 1 }
        switch String(decoding: bytes[at..<end], as: UTF8.self) {
        case "in": return take(.keywordIn, 2)
        case "topics": return take(.keywordTopics, 6)
        case let word where word.lowercased() == "and":
            throw Self.fault(at, "There is no operator \(word); write &&.")
        case let word where word.lowercased() == "or":
            throw Self.fault(at, "There is no operator \(word); write ||.")
        case let word where word.lowercased() == "not":
            throw Self.fault(at, "There is no operator \(word); write !.")
        case let word where word.lowercased() == "in" || word.lowercased() == "topics":
            throw Self.fault(at, "Keywords are lower case: \(word.lowercased()).")
        case "topic": throw Self.fault(at, "The keyword is topics, not topic.")
        case let word where word.utf8.count <= 40:
            throw Self.fault(
                at, "Unexpected word \(word); topic names stand in single quotes: '\(word)'.")
        default:
            throw Self.fault(at, "Unexpected word; topic names stand in single quotes: 'NAME'.")
        }
    }

    private mutating func take(_ kind: Lexeme.Kind, _ count: Int) -> Lexeme {
        defer { at += count }
        return Lexeme(kind: kind, range: at..<at + count)
    }

    private func byte(_ index: Int) -> UInt8? { index < bytes.count ? bytes[index] : nil }

    // MARK: Kinds of bytes

    static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0D || byte == 0x0A
    }

    /// The bytes of bare words: the alphabet of topic names, so that an unquoted name is a single fault.
    static func isWordByte(_ byte: UInt8) -> Bool { TopicName.isAllowed(byte) }

    // MARK: Faults

    static func fault(_ offset: Int, _ message: String) -> MartletError {
        MartletError(
            .invalidArgument, message, field: "condition", byteOffset: UInt32(clamping: offset))
    }

    private static func faultInName(_ bytes: [UInt8], start: Int, at: Int) -> MartletError {
        if bytes[start...].starts(with: "/topics/".utf8) {
            return fault(
                start, "Inside a condition write the bare topic name, without /topics/.")
        }
        if isBlank(bytes[at]) || "&|()!".utf8.contains(bytes[at]) {
            return fault(
                start - 1,
                "This topic name has no closing single quote, or a byte outside"
                    + " [a-zA-Z0-9-_.~%] at byte \(at).")
        }
        return fault(
            at,
            "A topic name consists of [a-zA-Z0-9-_.~%]; \(complaint(about: bytes[at]).lowercasedFirst)"
        )
    }

    private static func complaint(about byte: UInt8) -> String {
        switch byte {
        case 0x21...0x7E: "The character \(Character(Unicode.Scalar(byte))) is not allowed here."
        case 0x80...: "A character outside ASCII is not allowed here."
        default:
            "The control byte 0x\(byte < 16 ? "0" : "")\(String(byte, radix: 16)) is not allowed here."
        }
    }
}

extension String {
    fileprivate var lowercasedFirst: String { prefix(1).lowercased() + dropFirst() }
}
