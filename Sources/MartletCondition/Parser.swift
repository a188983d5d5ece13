// SPDX-License-Identifier: Apache-2.0
//
// Parses lexemes to a tree, by the rule of the specification: parentheses first, then strictly left to right, with
// one precedence for `&&` and `||`; `!` binds to the next operand. One precedence needs no precedence climbing: at
// every depth of parentheses the parser keeps the left operand and the operator that waits for its right operand.
// The depths are an array instead of the call stack, so that no text can exhaust the stack. (Source: Firebase Cloud
// Messaging documentation, "Send messages to topics": "FCM first evaluates any conditions in parentheses, and then
// evaluates the expression from left to right".) Rests on `Lexer`.

internal import MartletBase

/// Parses one condition.
struct Parser {
    /// The state of one pair of parentheses, or of the whole text.
    private struct Level {
        /// The offset of the `(`; 0 for the whole text.
        var start: Int
        /// The left operand, once parsed.
        var left: Int?
        /// The operator that waits for its right operand.
        var waiting: Lexeme?
        /// The `!` lexemes that wait for their operand, outermost first.
        var nots: [Lexeme] = []
    }

    private var lexer: Lexer
    private let topicsMax: Int
    private var nodes: [SyntaxTree.Node] = []
    private var topics: [TopicName] = []
    private var slots: [ArraySlice<UInt8>: Int] = [:]
    private var levels = [Level(start: 0)]
    /// The number of open parentheses and waiting `!` together.
    private var depth = 0

    private init(_ bytes: [UInt8], topicsMax: Int) {
        lexer = Lexer(bytes)
        self.topicsMax = topicsMax
    }

    /// Parses a condition's bytes.
    ///
    /// - Throws: `invalidArgument` with the byte at fault.
    static func parse(_ bytes: [UInt8], topicsMax: Int) throws(MartletError) -> SyntaxTree {
        guard bytes.count <= Limits.conditionBytesMax else {
            throw Lexer.fault(
                Limits.conditionBytesMax,
                "The condition has \(bytes.count) bytes; at most \(Limits.conditionBytesMax)"
                    + " are allowed.")
        }
        let ceiling = min(max(topicsMax, 1), Limits.conditionTopicsCeiling)
        var parser = Parser(bytes, topicsMax: ceiling)
        return try parser.parse()
    }

    private mutating func parse() throws(MartletError) -> SyntaxTree {
        while true {
            if wantsOperand {
                try operand()
            } else if try afterOperand() {
                return SyntaxTree(nodes: nodes, topics: topics)
            }
        }
    }

    /// Whether the next lexeme must be a term, `!` or `(`; otherwise an operator, `)` or the end must follow.
    private var wantsOperand: Bool {
        levels[levels.count - 1].left == nil || levels[levels.count - 1].waiting != nil
    }

    // MARK: Where an operand must stand

    private mutating func operand() throws(MartletError) {
        let lexeme = try lexer.next()
        switch lexeme.kind {
        case .name(let name): try term(lexeme, name)
        case .open:
            try deepen(lexeme)
            levels.append(Level(start: lexeme.range.lowerBound))
        case .not:
            try deepen(lexeme)
            levels[levels.count - 1].nots.append(lexeme)
        case .close:
            if let waiting = danglingOperator { throw danglingFault(waiting) }
            if levels.count == 1 { throw unopened(lexeme) }
            throw Lexer.fault(
                lexeme.range.lowerBound, "These parentheses are empty; write 'NAME' in topics.")
        case .and, .or:
            throw Lexer.fault(
                lexeme.range.lowerBound,
                "There is nothing to the left of \(spelling(lexeme)); write 'NAME' in topics.")
        case .keywordIn, .keywordTopics:
            throw Lexer.fault(
                lexeme.range.lowerBound,
                "A term begins with the topic name in single quotes: 'NAME' in topics.")
        case .end:
            if let waiting = danglingOperator { throw danglingFault(waiting) }
            if levels.count > 1 { throw unclosed() }
            throw Lexer.fault(
                lexeme.range.lowerBound, "The condition is empty; write 'NAME' in topics.")
        }
    }

    /// Parses `in topics` after a name.
    private mutating func term(_ lexeme: Lexeme, _ name: Range<Int>) throws(MartletError) {
        let keyword = try lexer.next()
        guard keyword.kind == .keywordIn else {
            throw Lexer.fault(
                keyword.range.lowerBound, "After a topic name comes \"in topics\".")
        }
        let topicsKeyword = try lexer.next()
        guard topicsKeyword.kind == .keywordTopics else {
            throw Lexer.fault(topicsKeyword.range.lowerBound, "After \"in\" comes \"topics\".")
        }
        let slot = try slot(of: name)
        let range = lexeme.range.lowerBound..<topicsKeyword.range.upperBound
        nodes.append(
            SyntaxTree.Node(
                kind: .topic(slot: slot), byteRange: range, isParenthesized: false,
                operatorRange: range))
        complete(nodes.count - 1)
    }

    private mutating func slot(of name: Range<Int>) throws(MartletError) -> Int {
        let key = lexer.bytes[name]
        if let slot = slots[key] { return slot }
        guard topics.count < topicsMax else {
            let advice =
                topicsMax < Limits.conditionTopicsCeiling
                ? "raise the project's limit (up to \(Limits.conditionTopicsCeiling)) or split it."
                : "split it."
            throw Lexer.fault(
                name.lowerBound - 1,
                "The condition names more than \(topicsMax) distinct topics, the limit here; "
                    + advice)
        }
        let topic = try TopicName(validating: String(decoding: key, as: UTF8.self))
        slots[key] = topics.count
        topics.append(topic)
        return topics.count - 1
    }

    /// Applies the waiting `!` lexemes and then the waiting operator to a complete operand.
    private mutating func complete(_ operand: Int) {
        let level = levels.count - 1
        var operand = operand
        while let not = levels[level].nots.popLast() {
            depth -= 1
            nodes.append(
                SyntaxTree.Node(
                    kind: .not(operand),
                    byteRange: not.range.lowerBound..<nodes[operand].byteRange.upperBound,
                    isParenthesized: false, operatorRange: not.range))
            operand = nodes.count - 1
        }
        if let left = levels[level].left, let lexeme = levels[level].waiting {
            nodes.append(
                SyntaxTree.Node(
                    kind: lexeme.kind == .and ? .and(left, operand) : .or(left, operand),
                    byteRange: nodes[left].byteRange
                        .lowerBound..<nodes[operand].byteRange.upperBound,
                    isParenthesized: false, operatorRange: lexeme.range))
            operand = nodes.count - 1
        }
        levels[level].left = operand
        levels[level].waiting = nil
    }

    // MARK: Where an operand has ended

    /// Parses the lexeme after an operand.
    ///
    /// - Returns: true at the end of the condition.
    private mutating func afterOperand() throws(MartletError) -> Bool {
        let lexeme = try lexer.next()
        switch lexeme.kind {
        case .and, .or: levels[levels.count - 1].waiting = lexeme
        case .close:
            guard levels.count > 1, let level = levels.popLast(), let inner = level.left else {
                throw unopened(lexeme)
            }
            depth -= 1
            nodes[inner].byteRange = level.start..<lexeme.range.upperBound
            nodes[inner].isParenthesized = true
            complete(inner)
        case .end:
            guard levels.count == 1 else { throw unclosed() }
            return true
        case .open, .not, .name:
            throw Lexer.fault(
                lexeme.range.lowerBound, "Between two terms comes && or ||.")
        case .keywordIn, .keywordTopics:
            throw Lexer.fault(
                lexeme.range.lowerBound, "After a term comes &&, ||, ) or the end.")
        }
        return false
    }

    // MARK: Faults

    private mutating func deepen(_ lexeme: Lexeme) throws(MartletError) {
        guard depth < Limits.conditionDepthMax else {
            throw Lexer.fault(
                lexeme.range.lowerBound,
                "Parentheses and ! are nested deeper than \(Limits.conditionDepthMax).")
        }
        depth += 1
    }

    /// The last operator without an operand to its right.
    private var danglingOperator: Lexeme? {
        levels[levels.count - 1].nots.last ?? levels[levels.count - 1].waiting
    }

    private func danglingFault(_ lexeme: Lexeme) -> MartletError {
        Lexer.fault(
            lexeme.range.lowerBound,
            "There is nothing to the right of \(spelling(lexeme)); write 'NAME' in topics.")
    }

    private func unopened(_ lexeme: Lexeme) -> MartletError {
        Lexer.fault(lexeme.range.lowerBound, "This ) closes nothing; remove it or open a (.")
    }

    private func unclosed() -> MartletError {
        Lexer.fault(levels[levels.count - 1].start, "This ( is never closed; add a ).")
    }

    private func spelling(_ lexeme: Lexeme) -> String {
        switch lexeme.kind {
        case .and: "&&"
        case .or: "||"
        default: "!"
        }
    }
}
