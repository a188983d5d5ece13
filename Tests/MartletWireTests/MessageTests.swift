// SPDX-License-Identifier: Apache-2.0
//
// Which messages a broker accepts, in which words it refuses others, and that a device reads what was sent (MSG-2 to MSG-4).

import MartletBase
import MartletWire
import TestSupport
import Testing

private func bytes(_ message: Message) -> [UInt8] {
    var writer = WireWriter()
    message.encode(into: &writer)
    return writer.bytes
}

/// A field by hand.
private func field(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    [tag, UInt8(content.count & 0xFF), UInt8(content.count >> 8)] + content
}

private func data(_ key: [UInt8], _ value: [UInt8] = []) -> [UInt8] {
    field(4, [UInt8(key.count & 0xFF), UInt8(key.count >> 8)] + key + value)
}

private func refusal(_ bytes: [UInt8]) -> MartletError? {
    do {
        _ = try Message.variants(of: bytes, target: .token)
        return nil
    } catch {
        return error
    }
}

@Suite struct MessageTests {
    @Test("MSG-2 notification, data, both and neither are read as they were written")
    func roundTrips() throws {
        let messages = [
            Message(),
            Message(notification: .init(title: "t")),
            Message(notification: .init(body: "")),
            Message(data: ["": "", "k": "ä⚓👍"]),
            Message(
                notification: .init(title: "t", body: "b", image: "i"), data: ["z": "1", "a": "2"]),
        ]
        for message in messages {
            let encoded = try message.encoded()
            #expect(try Message(decoding: encoded, unknownTags: .refuse) == message)
            let variants = try Message.variants(of: encoded, target: .topic)
            try #require(variants.map(\.body) == [encoded])
            let isEmpty = message == Message()
            #expect(
                variants[0].collapse
                    == (message.notification != nil || isEmpty ? .app : .none))
        }
        #expect(messages[3]["k"] == "ä⚓👍")
        #expect(messages[3]["other"] == nil)
    }

    @Test("MSG-3 title, body, image, keys and values count, and no other bytes")
    func payload() throws {
        func message(_ value: Int) -> Message {
            Message(
                notification: .init(title: "⚓", body: "bb", image: "i"),
                data: ["key": String(repeating: "v", count: value)])
        }
        #expect(message(3991).payloadBytes == 4000)
        let variants = try Message.variants(of: message(3991).encoded(), target: .token)
        #expect(variants.map(\.size) == [MessageSize(payloadBytes: 4000)])
        // The limit is the project's. The codec refuses what no field can hold.
        #expect(refusal(try message(60_000).encoded()) == nil)
        #expect(throws: MartletError.self) { try message(100_000).encoded() }
    }

    @Test(
        "MSG-4 reserved keys are refused",
        arguments: ["from", "message_type", "collapse_key", "google.", "google.x", "gcm.", "gcm.n"])
    func reserved(key: String) throws {
        let error = try #require(refusal(bytes(Message(data: [key: "v"]))))
        #expect(error.word == .invalidArgument)
        #expect(error.field == "message.data")
        #expect(error.message.contains("\"\(key)\" is reserved"))
    }

    @Test(
        "MSG-4 keys that only resemble reserved ones are accepted",
        arguments: [
            "From", "from_", "fro", "message_types", "google", "googlex.", "gcm", "a.gcm.", "",
        ])
    func similar(key: String) {
        #expect(refusal(bytes(Message(data: [key: "v"]))) == nil)
    }

    @Test("MSG-2 256 distinct keys are accepted; 257, or one of them twice, are not")
    func entries() throws {
        let keys = (0..<257).map { Message.DataEntry(key: "k\($0)", value: "") }
        #expect(refusal(bytes(Message(data: Array(keys.dropLast())))) == nil)
        let tooMany = try #require(refusal(bytes(Message(data: keys))))
        #expect(tooMany.field == "message.data" && tooMany.message.contains("256"))
        for twice in [0, 100, 254] {
            let entries = Array(keys.prefix(255)) + [keys[twice]]
            let error = try #require(refusal(bytes(Message(data: entries))))
            #expect(error.message.contains("\"k\(twice)\" is there twice"))
        }
    }

    /// what is wrong | bytes | field
    static let malformed: [(String, [UInt8], String)] = [
        ("a tag alone", [1], "message"),
        ("a length cut short", [1, 0], "message"),
        ("a field cut short", [1, 2, 0, 65], "message"),
        ("title twice", field(1, [65]) + field(1, [65]), "message"),
        ("body before title", field(2, [65]) + field(1, [65]), "message"),
        ("notification after data", data([107]) + field(3, [65]), "message"),
        ("tag 0", field(0, []), "message"),
        ("tag 9", field(9, []), "message"),
        ("a block's tag outside a block", field(16, [0, 0, 0, 0]), "message"),
        ("an option outside a block", field(21, [0, 0]), "message"),
        ("a badge outside a block", field(32, [0, 0, 0, 0]), "message"),
        ("a block twice", field(5, []) + field(5, []), "message"),
        ("data after a block", field(5, []) + data([107]), "message"),
        ("a title that is not UTF-8", field(1, [0xFF]), "message.notification"),
        ("an overlong image", field(3, [0xC0, 0x80]), "message.notification"),
        ("data without a key", field(4, []), "message.data"),
        ("a key longer than its field", field(4, [3, 0, 65]), "message.data"),
        ("a key that is not UTF-8", data([0x80]), "message.data"),
        ("a value with a surrogate", data([107], [0xED, 0xA0, 0x80]), "message.data"),
        ("a value cut inside a character", data([107], [0xE2, 0x9A]), "message.data"),
    ]

    @Test(
        "MSG-2 what is malformed is an INVALID_ARGUMENT that names the field",
        arguments: 0..<Self.malformed.count)
    func refuses(row: Int) throws {
        let (what, bytes, field) = Self.malformed[row]
        let error = try #require(refusal(bytes), "\(what) is accepted")
        #expect(error.word == .invalidArgument, "\(what)")
        #expect(error.field == field, "\(what)")
    }

    @Test("MSG-2 a device skips tags it does not know, a broker refuses them")
    func unknownTags() throws {
        let bytes = field(1, [65]) + data([107], [118]) + field(9, [0xFF]) + field(50, [1])
        let read = try Message(decoding: bytes, unknownTags: .skip)
        #expect(read == Message(notification: .init(title: "A"), data: ["k": "v"]))
        #expect(throws: WireError.unknownValue(field: "message tag", value: 9)) {
            try Message(decoding: bytes, unknownTags: .refuse)
        }
    }

    @Test("MSG-2 validity of UTF-8 agrees with the standard library on every short sequence")
    func utf8() {
        var random = SeededGenerator(seed: 8)
        let edges: [UInt8] = [
            0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0,
            0xE1,
            0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF,
        ]
        for round in 0..<rounds(100_000) {
            let padding = round % 3 == 0 ? Array(repeating: UInt8(65), count: round % 13) : []
            let text =
                padding
                + (0..<Int.random(in: 1...5, using: &random)).map { _ in
                    edges.randomElement(using: &random)!
                }
            let accepted = refusal(field(1, text)) == nil
            if accepted != (String(validating: text, as: UTF8.self) != nil) {
                Issue.record("\(text)")
            }
        }
    }

    @Test("MSG-2 what a broker accepts, a device reads and writes as the same bytes")
    func agreement() throws {
        var random = SeededGenerator(seed: 3)
        var accepted = 0
        for _ in 0..<rounds(100_000) {
            let count = Int.random(in: 0...24, using: &random)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...7, using: &random) }
            guard refusal(bytes) == nil else { continue }
            accepted += 1
            let message = try Message(decoding: bytes, unknownTags: .refuse)
            #expect(try message.encoded() == bytes)
        }
        #expect(accepted > rounds(100))
    }
}
