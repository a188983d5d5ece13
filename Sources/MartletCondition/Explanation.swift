// SPDX-License-Identifier: Apache-2.0
//
// Explains a condition to people: its tree with the cardinality of every sub-expression, its bytecode, and likely mistakes
// (CON-9). Every sub-expression is evaluated by itself, over a source that the caller opens. Rests on the evaluator.

public import MartletBase

/// The explanation of one condition.
public struct Explanation: Sendable, Hashable {
    /// One sub-expression. Parts are in the order of a tree printed from its root.
    public struct Part: Sendable, Hashable {
        /// The sub-expression in normal form.
        public var text: String
        /// The bytes of the sub-expression in the condition's text.
        public var byteRange: Range<Int>
        /// The depth below the root.
        public var depth: Int
        /// The operator (`&&`, `||`, `!`), or the whole term for a topic.
        public var label: String
        /// The number of instances that the sub-expression selects.
        public var count: UInt64
    }

    /// A construct that is legal but probably a mistake.
    public struct Lint: Sendable, Hashable {
        /// The construct that a lint reports.
        public enum Kind: String, Sendable, Hashable {
            /// `&&` and `||` side by side without parentheses.
            case mixedOperators
            /// A topic without subscribers.
            case unknownTopic
            /// Every instance matches, with any subscriptions.
            case alwaysTrue
            /// No instance can match.
            case alwaysEmpty
        }
        /// The construct.
        public var kind: Kind
        /// The byte of the construct in the condition's text; 0 for the whole condition.
        public var byteOffset: UInt32
        /// A sentence for the author of the condition.
        public var message: String
    }

    /// The condition in normal form, with parentheses that show the order of evaluation.
    public let normalForm: String
    /// The sub-expressions, the whole condition first.
    public let parts: [Part]
    /// The instructions, one per element.
    public let bytecode: [String]
    /// The names of the slots; the universe is last, if the condition reads it.
    public let slots: [String]
    /// The probable mistakes, in the order of their byte offsets.
    public let lints: [Lint]

    /// The number of instances that the whole condition selects.
    public var count: UInt64 { parts.first?.count ?? 0 }

    /// Evaluates every sub-expression of `condition`.
    ///
    /// - Parameters:
    ///   - isKnown: whether a topic has subscribers.
    ///   - count: returns how many instances a sub-expression selects.
    public init<Failure: Error>(
        of condition: Condition, isKnown: (TopicName) throws(Failure) -> Bool,
        count: (Condition) throws(Failure) -> UInt64
    ) throws(Failure) {
        let tree = condition.syntaxTree
        let texts = tree.descriptions
        normalForm = tree.description
        bytecode = condition.program.description.split(separator: "\n").map(String.init)
        slots =
            condition.topics.map(\.text) + (condition.selectsWithoutTopics ? ["(universe)"] : [])

        var parts: [Part] = []
        // Count equal sub-expressions once.
        var counts: [String: UInt64] = [:]
        var stack = [(index: tree.rootIndex, depth: 0)]
        while let (index, depth) = stack.popLast() {
            let node = tree.nodes[index]
            let members: UInt64
            if let known = counts[texts[index]] {
                members = known
            } else {
                members = try count(
                    index == tree.rootIndex ? condition : condition.part(at: index))
                counts[texts[index]] = members
            }
            let label: String
            switch node.kind {
            case .topic: label = texts[index]
            case .not(let operand):
                label = "!"
                stack.append((operand, depth + 1))
            case .and(let left, let right):
                label = "&&"
                stack.append((right, depth + 1))
                stack.append((left, depth + 1))
            case .or(let left, let right):
                label = "||"
                stack.append((right, depth + 1))
                stack.append((left, depth + 1))
            }
            parts.append(
                Part(
                    text: texts[index], byteRange: node.byteRange, depth: depth, label: label,
                    count: members))
        }
        self.parts = parts

        var lints = Self.mixedOperators(tree, texts)
        for (slot, topic) in condition.topics.enumerated() where try !isKnown(topic) {
            lints.append(
                Lint(
                    kind: .unknownTopic, byteOffset: Self.firstMention(of: slot, in: tree),
                    message: "Nobody is subscribed to '\(topic)'; check the spelling."))
        }
        if let constant = Self.constant(tree) {
            lints.append(
                constant
                    ? Lint(
                        kind: .alwaysTrue, byteOffset: 0,
                        message: "This selects every registered instance, whatever its topics.")
                    : Lint(
                        kind: .alwaysEmpty, byteOffset: 0,
                        message: "No instance can ever match this."))
        }
        self.lints = lints.sorted { $0.byteOffset < $1.byteOffset }
    }

    /// Evaluates every sub-expression of `condition` over a source of its own.
    ///
    /// - Parameters:
    ///   - isKnown: whether a topic has subscribers.
    ///   - source: opens the source for one sub-expression.
    public init<Source: BlockSource & ~Copyable, Failure: Error>(
        of condition: Condition, isKnown: (TopicName) throws(Failure) -> Bool,
        source: (Condition) throws(Failure) -> Source
    ) throws(Failure) {
        try self.init(
            of: condition, isKnown: isKnown,
            count: { (part: Condition) throws(Failure) -> UInt64 in
                var evaluator = ConditionEvaluator(part, source: try source(part))
                return evaluator.count()
            })
    }

    // MARK: Lint

    /// Operators that the parser reads left to right although most languages would read `&&` first.
    private static func mixedOperators(_ tree: SyntaxTree, _ texts: [String]) -> [Lint] {
        var lints: [Lint] = []
        for node in tree.nodes {
            let left: Int
            switch node.kind {
            case .and(let operand, _), .or(let operand, _): left = operand
            default: continue
            }
            guard !tree.nodes[left].isParenthesized else { continue }
            switch (node.kind, tree.nodes[left].kind) {
            case (.and, .or), (.or, .and):
                lints.append(
                    Lint(
                        kind: .mixedOperators,
                        byteOffset: UInt32(clamping: node.operatorRange.lowerBound),
                        message: "&& and || have equal precedence here and are read left to right;"
                            + " what stands to the left is taken as (\(shortened(texts[left])))."
                            + " Add parentheses to say what is meant."))
            default: continue
            }
        }
        return lints
    }

    /// A lint quotes at most this many characters: enough to recognise the condition, without a copy in every lint.
    private static let quotedCharactersMax = 120

    private static func shortened(_ text: String) -> String {
        text.utf8.count <= quotedCharactersMax ? text : text.prefix(quotedCharactersMax) + " …"
    }

    private static func firstMention(of slot: Int, in tree: SyntaxTree) -> UInt32 {
        let node = tree.nodes.first { $0.kind == .topic(slot: slot) }
        return UInt32(clamping: node?.byteRange.lowerBound ?? 0)
    }

    /// Whether the condition is always true or always false; nil if neither is known. Exact for at most five
    /// topics. For more topics the value of every node follows from its operands, and `x && !x` is recognised only
    /// if both sides have equal normal forms.
    private static func constant(_ tree: SyntaxTree) -> Bool? {
        if let table = TruthTable(tree) {
            return table.isAlwaysTrue ? true : table.isAlwaysEmpty ? false : nil
        }
        let texts = tree.descriptions
        var known = [Bool?](repeating: nil, count: tree.nodes.count)
        for (index, node) in tree.nodes.enumerated() {
            switch node.kind {
            case .topic: break
            case .not(let operand): known[index] = known[operand].map { !$0 }
            case .and(let left, let right):
                if known[left] == false || known[right] == false {
                    known[index] = false
                } else if known[left] == true {
                    known[index] = known[right]
                } else if known[right] == true {
                    known[index] = known[left]
                } else if areOpposite(left, right, tree, texts) {
                    known[index] = false
                }
            case .or(let left, let right):
                if known[left] == true || known[right] == true {
                    known[index] = true
                } else if known[left] == false {
                    known[index] = known[right]
                } else if known[right] == false {
                    known[index] = known[left]
                } else if areOpposite(left, right, tree, texts) {
                    known[index] = true
                }
            }
        }
        return known[tree.rootIndex]
    }

    private static func areOpposite(
        _ a: Int, _ b: Int, _ tree: SyntaxTree, _ texts: [String]
    ) -> Bool {
        if case .not(let operand) = tree.nodes[a].kind, texts[operand] == texts[b] { return true }
        if case .not(let operand) = tree.nodes[b].kind, texts[operand] == texts[a] { return true }
        return false
    }
}

extension Explanation: CustomStringConvertible {
    /// The tree with its counts, the bytecode and the lints, for a terminal.
    public var description: String {
        var lines = [normalForm, ""]
        let width = parts.map { String($0.count).utf8.count }.max() ?? 1
        for part in parts {
            let number = String(part.count)
            let padding = String(repeating: " ", count: width - number.utf8.count)
            let indent = String(repeating: "  ", count: part.depth)
            lines.append("\(padding)\(number)  \(indent)\(part.label)")
        }
        lines.append("")
        for (slot, name) in slots.enumerated() { lines.append("s\(slot) = \(name)") }
        lines += bytecode
        for lint in lints {
            lines.append("byte \(lint.byteOffset): \(lint.message)")
        }
        return lines.joined(separator: "\n")
    }
}
