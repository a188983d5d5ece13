// SPDX-License-Identifier: Apache-2.0
//
// How conditions are read, and what is said about those that cannot be.

import MartletBase
import MartletCondition
import Testing

@Suite("Reading conditions")
struct ParserTests {
    /// Condition → topics subscribed to → matches.
    /// Source: the examples of the public documentation of Firebase Cloud Messaging.
    static let fixtures = """
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicA → no
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicB → no
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicC → no
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicB TopicC → no
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → - → no
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicA TopicB → yes
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicA TopicC → yes
        'TopicA' in topics && ('TopicB' in topics || 'TopicC' in topics) → TopicA TopicB TopicC → yes
        !('TopicA' in topics) → - → yes
        !('TopicA' in topics) → B → yes
        !('TopicA' in topics) → TopicA → no
        !('TopicA' in topics) → TopicA B → no
        'dogs' in topics || 'cats' in topics → dogs → yes
        'dogs' in topics || 'cats' in topics → cats → yes
        'dogs' in topics || 'cats' in topics → dogs cats → yes
        'dogs' in topics || 'cats' in topics → birds → no
        'A' in topics || 'B' in topics && 'C' in topics → A → no
        'A' in topics || 'B' in topics && 'C' in topics → A C → yes
        'A' in topics && 'B' in topics || 'C' in topics → C → yes
        'A' in topics → A → yes
        'A' in topics → a → no
        !'A' in topics && 'B' in topics → B → yes
        !!'A' in topics → A → yes
        !!!('A' in topics) → A → no
        """

    @Test("The documented examples match as documented")
    func documented() throws {
        for line in Self.fixtures.split(separator: "\n") {
            let parts = line.split(separator: " → ").map(String.init)
            let condition = try Condition(parsing: parts[0])
            let subscribed = Set(parts[1].split(separator: " ").map(String.init))
            let matches = condition.syntaxTree.matches {
                subscribed.contains(condition.topics[$0].text)
            }
            #expect(matches == (parts[2] == "yes"), "\(line)")
        }
    }

    @Test("CON-2 && and || are read left to right with equal precedence")
    func leftToRight() throws {
        #expect(
            try Condition(parsing: "'A' in topics || 'B' in topics && 'C' in topics").description
                == "('A' in topics || 'B' in topics) && 'C' in topics")
        #expect(
            try Condition(parsing: "'A' in topics&&'B' in topics||!'C' in topics&&'D' in topics")
                .description
                == "(('A' in topics && 'B' in topics) || !('C' in topics)) && 'D' in topics")
        // Random chains against a running value.
        var random = SeededGenerator(seed: 50)
        for _ in 0..<2000 {
            let topics = (0..<Int.random(in: 1...12, using: &random)).map { _ in
                Int.random(in: 0..<5, using: &random)
            }
            let ands = topics.map { _ in Bool.random(using: &random) }
            let nots = topics.map { _ in Bool.random(using: &random) }
            var text = ""
            for index in topics.indices {
                if index > 0 { text += ands[index] ? "&&" : "||" }
                text += (nots[index] ? "!" : "") + "'T\(topics[index])' in topics"
            }
            let condition = try Condition(parsing: text)
            for subscriptions in 0..<32 {
                func term(_ index: Int) -> Bool {
                    (subscriptions >> topics[index] & 1 != 0) != nots[index]
                }
                var expected = term(0)
                for index in topics.indices.dropFirst() {
                    expected = ands[index] ? expected && term(index) : expected || term(index)
                }
                let found = condition.syntaxTree.matches {
                    subscriptions >> Int(condition.topics[$0].text.dropFirst())! & 1 != 0
                }
                #expect(found == expected, "\(text)")
            }
        }
    }

    @Test(
        "CON-3 Five distinct topics are allowed, a sixth is not, and a project may raise it to 64")
    func topicLimit() throws {
        func text(_ topics: some Sequence<Int>) -> String {
            topics.map { "'T\($0)' in topics" }.joined(separator: "||")
        }
        #expect(try Condition(parsing: text(0..<5)).topics.count == 5)
        #expect(try Condition(parsing: text([0, 1, 2, 3, 4, 4, 0, 1])).topics.count == 5)
        #expect(throws: MartletError.self) { try Condition(parsing: text(0..<6)) }
        #expect(try Condition(parsing: text(0..<6), topicsMax: 6).topics.count == 6)
        #expect(try Condition(parsing: text(0..<64), topicsMax: 64).topics.count == 64)
        #expect(throws: MartletError.self) { try Condition(parsing: text(0..<65), topicsMax: 64) }
        #expect(throws: MartletError.self) { try Condition(parsing: text(0..<65), topicsMax: 999) }
        let topics = try Condition(parsing: text([3, 1, 3, 2])).topics.map(\.text)
        #expect(topics == ["T3", "T1", "T2"])
    }

    /// Condition → byte offset → part of the message.
    static let faults = #"""
        "A" in topics → 0 → single quotes
        'A" in topics → 2 → [a-zA-Z0-9-_.~%]
        '/topics/A' in topics → 1 → without /topics/
        'a' in topics || '/topics/b' in topics → 18 → without /topics/
        'A in topics → 0 → no closing single quote
        'A → 0 → no closing single quote
        ' → 0 → no closing single quote
        '' in topics → 0 → empty
        'Ä' in topics → 1 → [a-zA-Z0-9-_.~%]
        'A*' in topics → 2 → [a-zA-Z0-9-_.~%]
        A in topics → 0 → 'A'
        'A' in topics and 'B' in topics → 14 → &&
        'A' in topics AND 'B' in topics → 14 → &&
        'A' in topics or 'B' in topics → 14 → ||
        not 'A' in topics → 0 → !
        'A' in topics & 'B' in topics → 14 → &&
        'A' in topics | 'B' in topics → 14 → ||
        'A' in topics == 'B' in topics → 14 → ==
        'A' in topics != 'B' in topics → 14 → !(
        'A' in topics && → 14 → right of &&
        'A' in topics || → 14 → right of ||
        'A' in topics && ! → 17 → right of !
        ! → 0 → right of !
        && 'A' in topics → 0 → left of &&
        'A' in topics && || 'B' in topics → 17 → left of ||
        ('A' in topics → 0 → never closed
        'B' in topics && (('A' in topics) → 17 → never closed
        ( → 0 → never closed
        'A' in topics) → 13 → closes nothing
        ) → 0 → closes nothing
        () → 1 → empty
        ('A' in topics &&) → 15 → right of &&
        'A' in topics 'B' in topics → 14 → && or ||
        'A' in topics ('B' in topics) → 14 → && or ||
        'A' in topics !'B' in topics → 14 → && or ||
        'A' in topics topics → 14 → the end
        'A' in → 6 → topics
        'A' → 3 → in topics
        'A' topics → 4 → in topics
        'A' In topics → 4 → lower case
        'A' in Topics → 7 → lower case
        'A' in topic → 7 → not topic
        in topics → 0 → single quotes
        topics in 'A' → 0 → single quotes
        'A' in 'B' → 7 → topics
        'A' in topics; → 13 → character ;
        'A' in topics || 'B' in topics || 'C' in topics || 'D' in topics || 'E' in topics || 'F' in topics → 85 → more than 5
        """#

    @Test("CON-6 A bad condition is refused with the byte of the fault and what to write instead")
    func faultTable() throws {
        for line in Self.faults.split(separator: "\n") {
            let parts = line.split(separator: " → ").map(String.init)
            let error = try #require(throws: MartletError.self, "\(line)") {
                try Condition(parsing: parts[0])
            }
            #expect(error.word == .invalidArgument)
            #expect(error.field == "condition")
            #expect(error.byteOffset == UInt32(parts[1]), "\(line): \(error)")
            #expect(error.message.contains(parts[2]), "\(line): \(error)")
        }
        for (text, offset) in [("", 0), (" \t\r\n", 4)] as [(String, UInt32)] {
            let error = #expect(throws: MartletError.self) { try Condition(parsing: text) }
            #expect(error?.byteOffset == offset)
            #expect(error?.message.contains("empty") == true)
        }
    }

    @Test("CON-6 Blanks are free between tokens")
    func blanks() throws {
        let tight = try Condition(parsing: "'A'in topics&&!('B'in topics)")
        let loose = try Condition(
            parsing: "\t'A' \n in\r\n topics  &&  !\n( 'B' in\ttopics ) \r\n")
        #expect(tight.description == loose.description)
        #expect(tight.description == "'A' in topics && !('B' in topics)")
        #expect(throws: MartletError.self) { try Condition(parsing: "'A' intopics") }
        #expect(throws: MartletError.self) { try Condition(parsing: "'A' in\u{A0}topics") }
        #expect(throws: MartletError.self) {
            try Condition(parsing: "'A' in topics & & 'B' in topics")
        }
    }

    @Test("CON-6 Names have 1 to 900 bytes of the documented alphabet")
    func names() throws {
        let alphabet = "abcXYZ0189-_.~%"
        #expect(try Condition(parsing: "'\(alphabet)' in topics").topics[0].text == alphabet)
        let longest = String(repeating: "x", count: 900)
        #expect(try Condition(parsing: "'\(longest)' in topics").topics[0].text == longest)
        let error = #expect(throws: MartletError.self) {
            try Condition(parsing: "'x\(longest)' in topics")
        }
        #expect(error?.byteOffset == 1)
        #expect(error?.message.contains("901") == true)
    }

    @Test(
        "CON-6 Text longer than 4 KiB and nesting deeper than 64 are refused, up to there accepted")
    func bounds() throws {
        let term = "'A' in topics"
        func blanked(_ count: Int) -> String {
            term + String(repeating: " ", count: count - term.utf8.count)
        }
        #expect(try Condition(parsing: blanked(4096)).topics.count == 1)
        let long = #expect(throws: MartletError.self) { try Condition(parsing: blanked(4097)) }
        #expect(long?.byteOffset == 4096)
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + term + String(repeating: ")", count: depth)
        }
        #expect(try Condition(parsing: nested(64)).description == term)
        let deep = #expect(throws: MartletError.self) { try Condition(parsing: nested(65)) }
        #expect(deep?.byteOffset == 64)
        #expect(deep?.message.contains("64") == true)
        let mixed = String(repeating: "!(", count: 32) + term + String(repeating: ")", count: 32)
        #expect(try Condition(parsing: mixed).truthTable?.bits == 0b10)
        #expect(throws: MartletError.self) { try Condition(parsing: "!" + mixed) }
        #expect(throws: MartletError.self) {
            try Condition(parsing: String(repeating: "!", count: 65) + term)
        }
        // Depth is nesting, not number: what is closed no longer counts.
        let wide = (0..<100).map { _ in "!(\(term))" }.joined(separator: "&&")
        #expect(try Condition(parsing: wide).truthTable?.bits == 0b01)
    }

    @Test("CON-6 Whatever the bytes, the answer is a condition or an offset inside the text")
    func robustness() {
        func check(_ bytes: [UInt8]) {
            do throws(MartletError) {
                _ = try Condition(parsing: bytes, topicsMax: 64)
            } catch {
                #expect(error.word == .invalidArgument)
                #expect(error.field == "condition")
                #expect(Int(error.byteOffset ?? .max) <= bytes.count, "\(error)")
                #expect(!error.message.isEmpty)
            }
        }
        let samples = Self.fixtures.split(separator: "\n").map { line in
            Array(String(line.split(separator: " → ")[0]).utf8)
        }
        for sample in samples {
            for count in 0...sample.count { check(Array(sample[..<count])) }
        }
        var random = SeededGenerator(seed: 51)
        let pieces = [
            "'", "\"", "(", ")", "!", "&&", "||", "in", "topics", "/topics/", " ", "\0", "é", "'A'",
        ]
        for _ in 0..<30_000 {
            var bytes = samples.randomElement(using: &random)!
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let at = Int.random(in: 0...bytes.count, using: &random)
                switch random.next() % 4 {
                case 0: bytes.insert(UInt8(truncatingIfNeeded: random.next()), at: at)
                case 1 where at < bytes.count: bytes[at] = UInt8(truncatingIfNeeded: random.next())
                case 2 where at < bytes.count: bytes.remove(at: at)
                default:
                    bytes.insert(contentsOf: pieces.randomElement(using: &random)!.utf8, at: at)
                }
            }
            check(bytes)
        }
        // Nothing but pieces.
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...12, using: &random)
            check((0..<count).flatMap { _ in Array(pieces.randomElement(using: &random)!.utf8) })
        }
        check((0..<4096).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        for byte in ["(", "!", "'", " ", "A", "\0", "\u{FF}"].map({ Array($0.utf8).last! }) {
            check(Array(repeating: byte, count: 1 << 20))
            check(Array(repeating: byte, count: 4096))
        }
        check([0xFF, 0xFE, 0xC0, 0x80])
        check(Array("'\u{0}' in topics".utf8))
    }

    @Test("A text and its normal form select the same, and the normal form is its own")
    func normalForm() throws {
        var random = SeededGenerator(seed: 52)
        for _ in 0..<3000 {
            let expression = Expression.random(
                terms: Int.random(in: 1...8, using: &random), topics: 5, depth: 12, &random)
            let condition = try Condition(parsing: expression.text(.needed))
            let again = try Condition(parsing: condition.description)
            #expect(again.description == condition.description)
            #expect(again.truthTable == condition.truthTable)
            #expect(again.topics == condition.topics)
        }
    }

    @Test("Nodes know their bytes")
    func byteRanges() throws {
        let text = "'A' in topics && !( 'B' in topics || 'C' in topics )"
        let tree = try Condition(parsing: text).syntaxTree
        let bytes = Array(text.utf8)
        let texts = tree.nodes.map { String(decoding: bytes[$0.byteRange], as: UTF8.self) }
        #expect(
            texts == [
                "'A' in topics", "'B' in topics", "'C' in topics",
                "( 'B' in topics || 'C' in topics )", "!( 'B' in topics || 'C' in topics )", text,
            ])
    }
}
