// SPDX-License-Identifier: Apache-2.0
//
// What conditions select, over sets in every form, against asking every instance.

import MartletBase
import MartletBits
import MartletCondition
import TestSupport
import Testing

@Suite("Meaning of conditions")
struct MeaningTests {
    /// All expressions of at most `depth` levels over three topics.
    private static func expressions(depth: Int) -> [Expression] {
        if depth == 1 { return [.topic(0), .topic(1), .topic(2)] }
        let smaller = expressions(depth: depth - 1)
        var result: [Expression] = [.topic(0), .topic(1), .topic(2)]
        result += smaller.map { .not($0) }
        for a in smaller { for b in smaller { result += [.and(a, b), .or(a, b)] } }
        return result
    }

    /// One block in which the eight combinations of subscriptions of an instance follow each other.
    private static func eightfold() -> [[StoredBlock]] {
        var slots = (0..<3).map { topic in
            [StoredBlock(block: 0, bits: (0..<8).filter { $0 >> topic & 1 != 0 }, form: topic)]
        }
        slots.append([StoredBlock(block: 0, bits: Array(0..<8), form: 0)])
        return slots
    }

    @Test("Every expression of three levels selects what its operators say, however it is written")
    func allSmallExpressions() throws {
        let sets = Self.eightfold()
        let expressions = Self.expressions(depth: 3)
        #expect(expressions.count == 1179)
        for (number, expression) in expressions.enumerated() {
            let expected = (0..<8).filter { bits in expression.value { bits >> $0 & 1 != 0 } }
            for style in Expression.Parentheses.allCases {
                let text = expression.text(style, blank: number % 2 == 0 ? " " : "")
                let condition = try Condition(parsing: text)
                let numbers = condition.topics.map { Int($0.text.dropFirst())! }
                let byTree = (0..<8).filter { bits in
                    condition.syntaxTree.matches { bits >> numbers[$0] & 1 != 0 }
                }
                #expect(byTree == expected, "\(text)")
                let table = try #require(condition.truthTable)
                let byTable = (0..<8).filter { bits in
                    var assignment = 0
                    for (slot, topic) in numbers.enumerated() where bits >> topic & 1 != 0 {
                        assignment |= 1 << slot
                    }
                    return table.matches(assignment)
                }
                #expect(byTable == expected, "\(text)")
                #expect(condition.selectsWithoutTopics == expected.contains(0))
                let slots = numbers.map { sets[$0] } + [sets[3]]
                var evaluator = ConditionEvaluator(condition, source: MemorySource(slots: slots))
                var found: [Int] = []
                while let block = evaluator.next() { block.view.forEachBit { found.append($0) } }
                #expect(found == expected, "\(text)")
            }
        }
    }

    @Test(
        "CON-4 A negation selects instances without any subscription too, and only registered ones")
    func negation() throws {
        let condition = try Condition(parsing: "!('TopicA' in topics)")
        #expect(condition.selectsWithoutTopics)
        #expect(condition.slotCount == 2)
        let topic = [StoredBlock(block: 4, bits: [1, 3], form: 0)]
        let universe = [
            StoredBlock(block: 2, bits: [7], form: 0),
            StoredBlock(block: 4, bits: [1, 2, 3, 9], form: 2),
        ]
        var evaluator = ConditionEvaluator(
            condition, source: MemorySource(slots: [topic, universe]))
        var found: [UInt32] = []
        while let block = evaluator.next() {
            block.view.forEachBit { found.append(block.block << 15 | UInt32($0)) }
        }
        #expect(found == [2 << 15 | 7, 4 << 15 | 2, 4 << 15 | 9])
    }

    @Test(
        "A damaged list matches nothing past its block, and an empty one nothing at all",
        arguments: [2, 6], [0, 1])
    func damagedLists(topics: Int, form: Int) throws {
        func evaluate(_ sign: String, _ sets: [StoredBlock]) throws -> [Int] {
            let text = sets.indices.map { "'T\($0)' in topics" }.joined(separator: sign)
            let condition = try Condition(parsing: text, topicsMax: 64)
            let slots = condition.topics.map { [sets[Int($0.text.dropFirst())!]] }
            var evaluator = ConditionEvaluator(condition, source: MemorySource(slots: slots))
            var found: [Int] = []
            while let block = evaluator.next() { block.view.forEachBit { found.append($0) } }
            return found
        }
        // Bitmaps whose memory goes on behind their words, with members there.
        let stray = [5, 32_640, 32_767]
        let bitmaps = (1..<topics).map { _ in StoredBlock(block: 0, bits: stray, form: 2) }
        let list = StoredBlock(block: 0, bits: stray, form: form)
        #expect(try evaluate(" && ", [list] + bitmaps) == [5])
        let empty = (1..<topics).map { _ in StoredBlock(block: 0, bits: [], form: form) }
        let single = StoredBlock(block: 0, bits: [3], form: form)
        #expect(try evaluate(" || ", empty + [single]) == [3])
    }

    @Test("Random conditions of up to five topics agree with asking every instance")
    func randomFew() throws {
        var random = SeededGenerator(seed: 60)
        for _ in 0..<rounds(12) {
            let model = Model(topics: 5, blocks: [0, 1, 2, 3, 9, 500, 131_071], &random)
            for _ in 0..<12 {
                let expression = Expression.random(
                    terms: Int.random(in: 1...8, using: &random), topics: 5, depth: 12, &random)
                try compare(expression, model)
            }
        }
    }

    @Test("Random conditions of up to 64 topics agree with asking every instance")
    func randomMany() throws {
        var random = SeededGenerator(seed: 61)
        for topics in [6, 7, 9, 16, 64] {
            let model = Model(topics: topics, blocks: [0, 1, 2, 7], &random)
            for round in 0..<max(2, rounds(10)) {
                let terms = round == 0 ? topics * 2 : Int.random(in: 6...topics * 2, using: &random)
                let expression = Expression.random(
                    terms: terms, topics: topics, depth: 30, &random)
                try compare(expression, model)
            }
        }
    }

    @Test("Chains of one operator over 64 topics agree with asking every instance")
    func chains() throws {
        var random = SeededGenerator(seed: 62)
        let model = Model(topics: 64, blocks: [0, 5], &random)
        for isAnd in [false, true] {
            var expression = Expression.topic(0)
            for topic in 1..<64 {
                let next = topic % 3 == 0 ? Expression.not(.topic(topic)) : .topic(topic)
                expression = isAnd ? .and(expression, next) : .or(expression, next)
            }
            try compare(expression, model)
            // Nested to the right instead: 62 levels of parentheses.
            var nested = Expression.topic(63)
            for topic in stride(from: 62, through: 1, by: -1) {
                nested = isAnd ? .and(.topic(topic), nested) : .or(.topic(topic), nested)
            }
            try compare(nested, model)
            let program = try Condition(parsing: nested.text(.needed), topicsMax: 64).program
            #expect(program.registerCount == 1)
        }
    }

    private func compare(_ expression: Expression, _ model: Model) throws {
        let text = expression.text(.needed, blank: "")
        let condition = try Condition(parsing: text, topicsMax: 64)
        let expected = model.matches(expression)
        let found = evaluate(condition, over: model)
        let isEqual = found == expected
        #expect(isEqual, "\(text): \(found.count) instead of \(expected.count)")
        let counted = count(condition, over: model)
        #expect(counted == UInt64(expected.count), "\(text)")
        // What was built from the same text is the same; a result as a blob has the same members.
        var builder = RecipientSetBuilder()
        var evaluator = ConditionEvaluator(condition, source: model.source(for: condition))
        while let block = evaluator.next() {
            builder.append(block: block.block, view: block.view, count: block.count)
        }
        let blob = builder.finish()
        #expect(blob.count == UInt64(expected.count))
        blob.withBytes { #expect(RecipientSet(copying: $0) != nil) }
    }

    @Test("Every slot that bounds the result by the bytecode bounds it by the truth table")
    func necessarySlots() throws {
        var random = SeededGenerator(seed: 63)
        for _ in 0..<3000 {
            let expression = Expression.random(terms: 6, topics: 5, depth: 10, &random)
            let condition = try Condition(parsing: expression.text(.needed))
            let table = try #require(condition.truthTable)
            for slot in condition.program.necessarySlots where slot < condition.topics.count {
                #expect(table.isNecessary(slot))
            }
        }
    }

    @Test("A conjunction with a small topic does not walk the large one")
    func skipping() throws {
        let condition = try Condition(parsing: "'L' in topics && 'S' in topics")
        let large = (0..<300).map { StoredBlock(block: $0, bits: [1, 2], form: 0) }
        let small = [
            StoredBlock(block: 17, bits: [2], form: 0),
            StoredBlock(block: 290, bits: [2, 9], form: 1),
        ]
        struct Counting: BlockSource, ~Copyable {
            var inner: MemorySource
            let calls: UnsafeMutablePointer<Int>
            mutating func nextBlock(slot: Int, from block: UInt32) -> (
                block: UInt32, view: BlockView
            )? {
                calls.pointee += 1
                return inner.nextBlock(slot: slot, from: block)
            }
        }
        let calls = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        calls.initialize(to: 0)
        defer { calls.deallocate() }
        var evaluator = ConditionEvaluator(
            condition, source: Counting(inner: MemorySource(slots: [large, small]), calls: calls))
        let total = evaluator.count()
        #expect(total == 2)
        #expect(calls.pointee <= 8)
    }

    @Test("Evaluation can go on at a later block")
    func skipTo() throws {
        var random = SeededGenerator(seed: 64)
        let model = Model(topics: 3, blocks: [0, 1, 2, 3, 4, 8], &random)
        for text in [
            "'T0' in topics || 'T1' in topics", "!('T2' in topics)",
            "'T0' in topics && 'T1' in topics",
        ] {
            let condition = try Condition(parsing: text)
            let all = evaluate(condition, over: model)
            for start in 0..<10 as Range<UInt32> {
                var evaluator = ConditionEvaluator(condition, source: model.source(for: condition))
                evaluator.skip(to: start)
                let counted = evaluator.count()
                #expect(counted == UInt64(all.filter { $0 >> 15 >= start }.count))
            }
        }
    }
}
