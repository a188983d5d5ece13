// SPDX-License-Identifier: Apache-2.0
//
// What the tests of conditions compare with: expressions of their own that know nothing of the
// module's parser, and sources of blocks in memory in every form. Rests on MartletBits for views.

import MartletBase
import MartletBits
import MartletCondition

/// An expression over numbered topics, with its own meaning and its own texts.
indirect enum Expression {
    case topic(Int)
    case not(Expression)
    case and(Expression, Expression)
    case or(Expression, Expression)

    func value(_ isMember: (Int) -> Bool) -> Bool {
        switch self {
        case .topic(let topic): isMember(topic)
        case .not(let inner): !inner.value(isMember)
        case .and(let a, let b): a.value(isMember) && b.value(isMember)
        case .or(let a, let b): a.value(isMember) || b.value(isMember)
        }
    }

    var isBinary: Bool {
        switch self {
        case .and, .or: true
        default: false
        }
    }

    enum Parentheses: CaseIterable {
        /// Around everything that has an operator, and around terms.
        case everywhere
        /// Around operands that have an operator.
        case operands
        /// Only where reading left to right would give something else.
        case needed
    }

    func text(_ style: Parentheses, blank: String = " ") -> String {
        let inner: String
        switch self {
        case .topic(let topic): inner = "'T\(topic)'\(blank)in\(blank == "" ? " " : blank)topics"
        case .not(let operand):
            let text = operand.text(style, blank: blank)
            inner = operand.isBinary && style != .everywhere ? "!(\(text))" : "!\(text)"
        case .and(let a, let b): inner = Self.join(a, "&&", b, style, blank)
        case .or(let a, let b): inner = Self.join(a, "||", b, style, blank)
        }
        return style == .everywhere ? "(\(inner))" : inner
    }

    private static func join(
        _ a: Expression, _ sign: String, _ b: Expression, _ style: Parentheses, _ blank: String
    ) -> String {
        var (left, right) = (a.text(style, blank: blank), b.text(style, blank: blank))
        if a.isBinary, style == .operands { left = "(\(left))" }
        if b.isBinary, style != .everywhere { right = "(\(right))" }
        return left + blank + sign + blank + right
    }

    /// A random expression with `terms` terms.
    static func random(
        terms: Int, topics: Int, depth: Int = 50, _ random: inout SeededGenerator
    ) -> Expression {
        if depth > 0, Int.random(in: 0..<5, using: &random) == 0 {
            return .not(Self.random(terms: terms, topics: topics, depth: depth - 1, &random))
        }
        if terms <= 1 || depth <= 0 { return .topic(Int.random(in: 0..<topics, using: &random)) }
        let left = Int.random(in: 1..<terms, using: &random)
        let a = Self.random(terms: left, topics: topics, depth: depth - 1, &random)
        let b = Self.random(terms: terms - left, topics: topics, depth: depth - 1, &random)
        return Bool.random(using: &random) ? .and(a, b) : .or(a, b)
    }
}

/// One block of one set, with the memory its view points into.
final class StoredBlock {
    let block: UInt32
    let view: BlockView
    private let memory: UnsafeMutableRawBufferPointer

    /// - Parameter form: 0 list, 1 wide list, 3 runs, otherwise bitmap; lists only up to 500 members,
    ///   runs only up to 1000.
    init(block: UInt32, bits: [Int], form: Int) {
        self.block = block
        memory = .allocate(byteCount: 4096, alignment: 64)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        if bits.count == BlockGeometry.bitsPerBlock, form % 2 == 0 {
            view = .full
        } else if bits.count <= 500, form == 0 {
            let list = memory.bindMemory(to: UInt16.self)
            for (index, bit) in bits.enumerated() { list[index] = UInt16(bit) }
            view = .list(UnsafeBufferPointer(rebasing: list[..<bits.count]))
        } else if bits.count <= 500, form == 1 {
            let list = memory.bindMemory(to: UInt32.self)
            for (index, bit) in bits.enumerated() { list[index] = block << 15 | UInt32(bit) }
            view = .wideList(UnsafeRawBufferPointer(rebasing: memory[..<(bits.count * 4)]))
        } else if form == 3, case let toggles = Self.toggles(of: bits), toggles.count <= 2000 {
            let target = memory.bindMemory(to: UInt16.self)
            for (index, toggle) in toggles.enumerated() { target[index] = UInt16(toggle) }
            view = .runs(UnsafeBufferPointer(rebasing: target[..<toggles.count]))
        } else {
            let words = memory.bindMemory(to: UInt64.self)
            for bit in bits { words[bit / 64] |= 1 << UInt64(bit % 64) }
            view = .bitmap(UnsafePointer(words.baseAddress!))
        }
    }

    deinit { memory.deallocate() }

    /// Where runs begin, and the first bits behind them.
    static func toggles(of bits: [Int]) -> [Int] {
        var toggles: [Int] = []
        for bit in bits {
            if toggles.last == bit {
                toggles[toggles.count - 1] += 1
            } else {
                toggles += [bit, bit + 1]
            }
        }
        return toggles
    }
}

/// The sets of numbered topics over a few blocks, and the universe.
final class Model {
    let blocks: [UInt32]
    /// Topic ↦ membership, block by block.
    private(set) var members: [[Bool]] = []
    private(set) var universe: [Bool]
    private(set) var stored: [[StoredBlock]] = []
    private(set) var storedUniverse: [StoredBlock] = []

    init(topics: Int, blocks: [UInt32], _ random: inout SeededGenerator) {
        self.blocks = blocks
        let count = blocks.count * BlockGeometry.bitsPerBlock
        universe = [Bool](repeating: false, count: count)
        for _ in 0..<topics {
            var set = [Bool](repeating: false, count: count)
            for index in blocks.indices {
                let start = index * BlockGeometry.bitsPerBlock
                let all = start..<start + BlockGeometry.bitsPerBlock
                switch Int.random(in: 0..<9, using: &random) {
                case 0, 1: break
                case 2: set[Int.random(in: all, using: &random)] = true
                case 3: for _ in 0..<30 { set[Int.random(in: all, using: &random)] = true }
                case 4:
                    // Close together, so that sparse sets meet.
                    for _ in 0..<400 { set[start + Int.random(in: 0..<600, using: &random)] = true }
                case 5: for at in all { set[at] = random.next() % 3 == 0 }
                case 6: for at in all { set[at] = random.next() % 32 != 0 }
                case 7:
                    for _ in 0..<8 {
                        let first = Int.random(in: all, using: &random)
                        for at in first..<min(first + 3000, all.upperBound) { set[at] = true }
                    }
                default: for at in all { set[at] = true }
                }
            }
            members.append(set)
            for at in 0..<count where set[at] { universe[at] = true }
        }
        // Instances without any topic; some blocks of the universe are full, some sparse.
        for index in blocks.indices {
            let start = index * BlockGeometry.bitsPerBlock
            let kind = random.next() % 3
            for at in start..<start + BlockGeometry.bitsPerBlock
            where kind == 0 || (kind == 1 && random.next() % 5 == 0) { universe[at] = true }
        }
        for set in members { stored.append(store(set, &random)) }
        storedUniverse = store(universe, &random)
    }

    private func store(_ set: [Bool], _ random: inout SeededGenerator) -> [StoredBlock] {
        var result: [StoredBlock] = []
        for (index, block) in blocks.enumerated() {
            let start = index * BlockGeometry.bitsPerBlock
            let bits = (0..<BlockGeometry.bitsPerBlock).filter { set[start + $0] }
            if bits.isEmpty { continue }
            result.append(
                StoredBlock(
                    block: block, bits: bits, form: Int.random(in: 0..<4, using: &random)))
        }
        return result
    }

    /// Matching instances by asking the expression about each of them.
    func matches(_ expression: Expression) -> [UInt32] {
        var result: [UInt32] = []
        for at in universe.indices where universe[at] {
            if expression.value({ members[$0][at] }) {
                let block = blocks[at / BlockGeometry.bitsPerBlock]
                result.append(block << 15 | UInt32(at % BlockGeometry.bitsPerBlock))
            }
        }
        return result
    }

    /// Topics are called T0, T1, and so on.
    func source(for condition: Condition) -> MemorySource {
        var slots: [[StoredBlock]] = []
        for topic in condition.topics {
            let number = Int(topic.text.dropFirst())
            slots.append(number.map { $0 < stored.count ? stored[$0] : [] } ?? [])
        }
        slots.append(storedUniverse)
        return MemorySource(slots: slots)
    }
}

/// A source over blocks in memory.
struct MemorySource: BlockSource {
    let slots: [[StoredBlock]]
    private var positions: [Int]
    private(set) var callCount = 0

    init(slots: [[StoredBlock]]) {
        self.slots = slots
        positions = Array(repeating: 0, count: slots.count)
    }

    mutating func nextBlock(slot: Int, from block: UInt32) -> (block: UInt32, view: BlockView)? {
        callCount += 1
        while positions[slot] < slots[slot].count, slots[slot][positions[slot]].block < block {
            positions[slot] += 1
        }
        guard positions[slot] < slots[slot].count else { return nil }
        let found = slots[slot][positions[slot]]
        return (found.block, found.view)
    }
}

/// All ordinals of a condition over a model.
func evaluate(_ condition: Condition, over model: Model) -> [UInt32] {
    var evaluator = ConditionEvaluator(condition, source: model.source(for: condition))
    var result: [UInt32] = []
    var last: UInt32?
    while let found = evaluator.next() {
        precondition(last.map { $0 < found.block } ?? true, "Blocks ascend.")
        last = found.block
        let before = result.count
        found.view.forEachBit { result.append(found.block << 15 | UInt32($0)) }
        precondition(result.count - before == found.count, "The count is the view's.")
    }
    return result
}

func count(_ condition: Condition, over model: Model) -> UInt64 {
    var evaluator = ConditionEvaluator(condition, source: model.source(for: condition))
    return evaluator.count()
}
