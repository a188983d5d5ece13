// SPDX-License-Identifier: Apache-2.0
//
// How each platform writes a time to live, the JSON of custom keys, and the bits of options (TTL-1, MSG-5, RCP-1).

import MartletBase
import MartletWire
import Testing

@Suite struct FormsTests {
    @Test("TTL-1 Android's durations, rounded down to whole seconds")
    func android() {
        let good: [(String, UInt32)] = [
            ("4500s", 4500), ("3.5s", 3), ("0s", 0), ("0.999999999s", 0), ("3.500000000s", 3),
            ("2419200s", 2_419_200), ("2419200.9s", 2_419_200), ("007s", 7),
            ("2419201s", 2_419_201), ("99999999999s", .max),
        ]
        for (text, seconds) in good {
            #expect(Lifespan(androidDuration: text) == .seconds(seconds), "\(text)")
        }
        for text in [
            "", "s", "5", "5m", "-1s", "+1s", ".5s", "5.s", "5.5.5s", "1e3s", " 5s", "5 s",
            "0.0000000001s", "٣s",
        ] {
            #expect(Lifespan(androidDuration: text) == nil, "\(text)")
        }
    }

    @Test("TTL-1 the web's seconds and Apple's instants")
    func others() {
        #expect(Lifespan(webTTL: "0") == .seconds(0))
        #expect(Lifespan(webTTL: "2419200") == .seconds(2_419_200))
        #expect(Lifespan(webTTL: "99999999999") == .seconds(.max))
        for text in ["", "-1", "1.5", "5s"] { #expect(Lifespan(webTTL: text) == nil) }
        #expect(Lifespan(unixSeconds: 0) == .seconds(0))
        #expect(Lifespan(unixSeconds: 5) == .until(Instant(millisecondsSince1970: 5000)))
        #expect(Lifespan(unixSeconds: -1) == nil && Lifespan(unixSeconds: .max) == nil)
    }

    @Test("PRI-1 Apple's and the web's priorities")
    func priorities() {
        #expect(MessagePriority(apnsPriority: 5) == .normal)
        #expect(MessagePriority(apnsPriority: 10) == .high)
        #expect(MessagePriority(apnsPriority: 1) == nil)
        for text in ["very-low", "low", "normal"] {
            #expect(MessagePriority(webUrgency: text) == .normal)
        }
        #expect(MessagePriority(webUrgency: "high") == .high)
        #expect(MessagePriority(webUrgency: "High") == nil)
    }

    @Test("RCP-1 an option keeps its bit in each format")
    func options() {
        let formats: [(MessageOptions.Bits, UInt8)] = [
            (.send, 2), (.deliver, 1), (.record, 4), (.waiting, 1), (.event, 2), (.forwarded, 4),
            (.digest, 0x72),
        ]
        let wanted = MessageOptions(wantsReceipts: true)
        for (bits, flags) in formats {
            #expect(wanted.flags(in: bits) == flags && MessageOptions(flags, in: bits) == wanted)
            #expect(MessageOptions(~flags, in: bits) == MessageOptions())
            // All options are in `all`, and are read and written.
            let each = Mirror(reflecting: bits).children.compactMap { $0.value as? UInt8 }
            #expect(each.reduce(0, |) == bits.all)
            #expect(MessageOptions(bits.all, in: bits).flags(in: bits) == bits.all)
        }
        #expect(formats.allSatisfy { MessageOptions().flags(in: $0.0) == 0 })
    }

    @Test("MSG-5 JSON is read and written")
    func json() throws {
        let good: [(String, JSONValue)] = [
            ("null", .null), (" true ", .bool(true)), ("-0", .number(-0.0)), ("12", .integer(12)),
            ("1.5", .number(1.5)), ("1e2", .number(100.0)), ("-2.5E-1", .number(-0.25)),
            ("9223372036854775807", .integer(.max)),
            ("9223372036854775808", .number(9_223_372_036_854_775_808.0)),
            ("\"\"", .string("")), (#""\"\\\/\b\f\n\r\t""#, .string("\"\\/\u{8}\u{C}\n\r\t")),
            (#""\u2693\ud83d\ude00 ⚓""#, .string("⚓😀 ⚓")),
            ("[]", .array([])), ("[1, [2]]", .array([.integer(1), .array([.integer(2)])])),
            ("{}", .object([:])),
            (
                #"{"a":{"b":[null]},"c":""}"#,
                .object(["a": .object(["b": .array([.null])]), "c": .string("")])
            ),
        ]
        for (text, value) in good {
            #expect(try JSONValue(parsing: text) == value, "\(text)")
            #expect(try JSONValue(parsing: value.text) == value, "\(text)")
        }
        #expect(
            try JSONValue(parsing: #"{"b":1,"a":"\u0001"}"#).text == #"{"a":"\u0001","b":1}"#)
    }

    @Test("GW-1 a document may have a byte-order mark in front, and a value in it may not")
    func document() throws {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        #expect(try JSONValue(document: mark + Array("[1]".utf8)) == .array([.integer(1)]))
        #expect(try JSONValue(document: Array("[1]".utf8)) == .array([.integer(1)]))
        for (bytes, fault) in [(mark + Array("[1".utf8), 5), (mark, 3), (mark + mark + [0x31], 3)] {
            #expect {
                try JSONValue(document: bytes)
            } throws: { error in
                (error as? JSONValue.Fault)?.byteOffset == fault
            }
        }
        #expect(throws: JSONValue.Fault.self) { try JSONValue(parsing: mark + [0x31]) }
    }

    /// Numbers that a `Double` or an `Int64` would write with other digits.
    static let exactNumbers = [
        "18446744073709551615", "-9223372036854775809", "123456789012345678901234567890", "-0",
        "1.50", "5.0", "5e0", "1E+2", "0.1e-7", "0.30000000000000004000", "1e300",
    ]

    @Test("MSG-5 a number keeps its digits", arguments: exactNumbers)
    func digits(_ text: String) throws {
        #expect(try JSONValue(parsing: text).text == text)
        let within = #"{"n":[\#(text),\#(text)]}"#
        #expect(try JSONValue(parsing: within).text == within)
    }

    /// Names of which Swift takes the two for one text.
    static let likeNames = [
        ("\u{E9}", "e\u{301}"), ("\u{212B}", "\u{C5}"), ("\u{AC00}", "\u{1100}\u{1161}"),
        ("q\u{307}\u{323}", "q\u{323}\u{307}"), ("k\u{2126}", "k\u{3A9}"),
    ]

    @Test("MSG-5 names of JSON are compared by code point", arguments: likeNames)
    func names(_ first: String, _ second: String) throws {
        #expect(first == second)
        for (one, other) in [(first, second), (second, first)] {
            let text = #"{"\#(one)":1,"\#(other)":2}"#
            let value = try JSONValue(parsing: text)
            #expect(value[one] == .integer(1) && value[other] == .integer(2))
            #expect(throws: JSONValue.Fault.self) {
                try JSONValue(parsing: #"{"\#(one)":1,"\#(other)":2,"\#(one)":3}"#)
            }
            // In the order of code points, whatever the order of the text.
            let names = [one, other].sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            let written = names.map { #""\#($0)":\#($0.utf8.elementsEqual(one.utf8) ? 1 : 2)"# }
            #expect(Array(value.text.utf8) == Array("{\(written.joined(separator: ","))}".utf8))
            guard case .object(var members) = value else { continue }
            #expect(members.count == 2)
            #expect(members.removeValue(forKey: one) == .integer(1))
            #expect(members[one] == nil && members[other] == .integer(2))
        }
        let message = Message(data: [first: "1", second: "2"])
        #expect(message[first] == "1" && message[second] == "2")
    }

    @Test("MSG-5 what is not JSON is refused with its place")
    func notJSON() {
        for text in [
            "", " ", "nul", "truex", "01", "1.", ".5", "1e", "+1", "-", "1e999", "NaN", "\"",
            "\"\u{1}\"", #""\x""#, #""\u12""#, #""\ud800""#, #""\ud800\u0041""#, #""\udc00""#,
            "[", "[1", "[1,]", "[1 2]", "{", "{1:2}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#,
            #"{"a":1,"a":2}"#, "1 2", "'a'", "// x\n1",
            String(repeating: "[", count: 40) + String(repeating: "]", count: 40),
            String(repeating: "[", count: 100_000),
        ] {
            #expect(throws: JSONValue.Fault.self, "\(text)") { try JSONValue(parsing: text) }
        }
        let bytes: [UInt8] = [0x22, 0xFF, 0x22]
        #expect(throws: JSONValue.Fault.self) { try JSONValue(parsing: bytes) }
    }
}
