// SPDX-License-Identifier: Apache-2.0
//
// Explaining a condition: counts of sub-expressions, bytecode and warnings (CON-9); and equal conditions sharing a program
// (CON-7).

import MartletBase
import MartletCondition
import Testing

@Suite("Explaining and sharing conditions")
struct ExplanationTests {
    private func explain(_ text: String, topicsMax: Int = 5, unknown: Set<String> = []) throws
        -> Explanation
    {
        Explanation(
            of: try Condition(parsing: text, topicsMax: topicsMax),
            isKnown: { (topic: TopicName) in !unknown.contains(topic.text) },
            count: { (_: Condition) in 0 })
    }

    @Test("CON-9 The count of every sub-expression is what it selects by itself")
    func counts() throws {
        var random = SeededGenerator(seed: 70)
        let model = Model(topics: 3, blocks: [0, 3], &random)
        let condition = try Condition(
            parsing: "'T0' in topics && !('T1' in topics || 'T2' in topics)")
        let explanation = Explanation(
            of: condition, isKnown: { (_: TopicName) in true },
            source: { (part: Condition) in model.source(for: part) })
        #expect(
            explanation.parts.map(\.label) == [
                "&&", "'T0' in topics", "!", "||", "'T1' in topics", "'T2' in topics",
            ])
        #expect(explanation.parts.map(\.depth) == [0, 1, 1, 2, 3, 3])
        let either = Expression.or(.topic(1), .topic(2))
        let expected: [Expression] = [
            .and(.topic(0), .not(either)), .topic(0), .not(either), either, .topic(1), .topic(2),
        ]
        for (part, expression) in zip(explanation.parts, expected) {
            #expect(part.count == UInt64(model.matches(expression).count), "\(part.text)")
        }
        #expect(explanation.count == explanation.parts[0].count)
        #expect(explanation.slots == ["T0", "T1", "T2"])
        #expect(explanation.bytecode == ["r0 = s1 | s2", "r0 = s0 &~ r0", "return r0"])
        #expect(explanation.lints.isEmpty)
        #expect(explanation.description.contains("return r0"))
    }

    @Test("CON-9 Mixed operators without parentheses are pointed at, by byte")
    func mixed() throws {
        let lints = try explain("'A' in topics || 'B' in topics && 'C' in topics").lints
        #expect(lints.map(\.kind) == [.mixedOperators])
        #expect(lints.first?.byteOffset == 31)
        #expect(try explain("('A' in topics || 'B' in topics) && 'C' in topics").lints.isEmpty)
        #expect(try explain("'A' in topics || ('B' in topics && 'C' in topics)").lints.isEmpty)
        #expect(try explain("'A' in topics || 'B' in topics || 'C' in topics").lints.isEmpty)
    }

    @Test(
        "CON-9 Unknown topics, conditions that are always true and ones that are always empty are said"
    )
    func otherLints() throws {
        let unknown = try explain("'A' in topics || 'B' in topics", unknown: ["B"]).lints
        #expect(unknown.map(\.kind) == [.unknownTopic])
        #expect(unknown.first?.byteOffset == 17)
        #expect(try explain("'A' in topics || !('A' in topics)").lints.map(\.kind) == [.alwaysTrue])
        #expect(try explain("'A' in topics && !'A' in topics").lints.map(\.kind) == [.alwaysEmpty])
        let others = (0..<6).map { " && 'T\($0)' in topics" }.joined()
        let many = try explain("('A' in topics && !'A' in topics)" + others, topicsMax: 64).lints
        #expect(many.map(\.kind) == [.alwaysEmpty])
    }

    @Test("A failure of the counts passes through")
    func failure() throws {
        struct Gone: Error {}
        let condition = try Condition(parsing: "'A' in topics")
        #expect(throws: Gone.self) {
            try Explanation(
                of: condition, isKnown: { (_: TopicName) throws(Gone) -> Bool in true },
                count: { (_: Condition) throws(Gone) -> UInt64 in throw Gone() })
        }
    }

    @Test("CON-7 A text is compiled once, and the least recently used leaves at the bound")
    func cache() throws {
        var cache = ProgramCache(capacity: 3)
        func text(_ topic: String) -> String { "'\(topic)' in topics" }
        for topic in ["a", "b", "c", "a"] { _ = try cache.condition(parsing: text(topic)) }
        #expect(cache.hitCount == 1)
        #expect(cache.missCount == 3)
        _ = try cache.condition(parsing: text("d"))
        #expect(cache.count == 3)
        // b left; a was used after it.
        _ = try cache.condition(parsing: text("a"))
        #expect(cache.hitCount == 2)
        _ = try cache.condition(parsing: text("b"))
        #expect(cache.missCount == 5)
        // The limit is part of the key.
        _ = try cache.condition(parsing: text("b"), topicsMax: 64)
        #expect(cache.missCount == 6)
        #expect(cache.count == 3)
        var random = SeededGenerator(seed: 71)
        for _ in 0..<5000 {
            let topic = "t\(Int.random(in: 0..<6, using: &random))"
            let condition = try cache.condition(parsing: text(topic))
            #expect(condition.topics[0].text == topic)
            #expect(cache.count <= 3)
        }
    }

    @Test("A text that is equal to a cached one but has other bytes is still refused")
    func canonicalEquivalence() throws {
        var cache = ProgramCache()
        _ = try cache.condition(parsing: "'K' in topics")
        // The Kelvin sign: equal strings, different bytes.
        let kelvin = "'\u{212A}' in topics"
        #expect(kelvin == "'K' in topics")
        #expect(throws: MartletError.self) { try cache.condition(parsing: kelvin) }
        #expect(throws: MartletError.self) {
            try cache.condition(parsing: String(repeating: " ", count: 1 << 20))
        }
        #expect(cache.count == 1)
    }

    @Test("Equal conditions have equal truth tables")
    func truthTables() throws {
        func table(_ text: String) throws -> TruthTable? { try Condition(parsing: text).truthTable }
        #expect(
            try table("!('A' in topics && 'B' in topics)")
                == table("!'A' in topics || !'B' in topics"))
        #expect(try table("'A' in topics")?.bits == 0b10)
        #expect(try table("'A' in topics && 'B' in topics")?.bits == 0b1000)
        #expect(try table("'A' in topics || !'A' in topics")?.isAlwaysTrue == true)
        #expect(try table("'A' in topics && !'A' in topics")?.isAlwaysEmpty == true)
    }
}
