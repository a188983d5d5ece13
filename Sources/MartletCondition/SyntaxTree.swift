// SPDX-License-Identifier: Apache-2.0
//
// The syntax tree of a condition. The nodes lie in one array, operands before their operators and the root last. A
// computation over a tree is therefore a loop from front to back, and no text, however deep, can exhaust the stack.
// Rests on `TopicName`.

public import MartletBase

/// A parsed condition: nodes in an array, the root last.
public struct SyntaxTree: Sendable, Hashable {
    /// The kind of a node. Operands are indices of earlier nodes.
    public enum Kind: Sendable, Hashable {
        /// `'NAME' in topics`; the slot is an index into the condition's topics.
        case topic(slot: Int)
        case not(Int)
        case and(Int, Int)
        case or(Int, Int)
    }

    /// A term or an operator of the condition.
    public struct Node: Sendable, Hashable {
        /// The term or the operator, with its operands.
        public var kind: Kind
        /// The node's bytes in the text, with its parentheses if the text has any.
        public var byteRange: Range<Int>
        /// Whether the text has parentheses around the node.
        var isParenthesized: Bool
        /// The bytes of the operator; for a topic, the bytes of the whole term.
        var operatorRange: Range<Int>
    }

    /// All nodes, at least one: operands before their operators, and the root last.
    public private(set) var nodes: [Node]
    /// Distinct topics in the order of their first mention; a slot is an index into the array.
    public let topics: [TopicName]

    /// Makes a tree of at least one node. The operands of each node precede the node.
    init(nodes: [Node], topics: [TopicName]) {
        precondition(!nodes.isEmpty, "A condition has at least one term.")
        self.nodes = nodes
        self.topics = topics
    }

    /// The index of the root in `nodes`.
    var rootIndex: Int { nodes.count - 1 }
    /// The node of the whole condition.
    public var root: Node { nodes[rootIndex] }

    /// Computes a value for every node from the values of its operands.
    func fold<Value>(
        topic: (Int) -> Value, not: (Value) -> Value, and: (Value, Value) -> Value,
        or: (Value, Value) -> Value
    ) -> [Value] {
        var values: [Value] = []
        values.reserveCapacity(nodes.count)
        for node in nodes {
            switch node.kind {
            case .topic(let slot): values.append(topic(slot))
            case .not(let operand): values.append(not(values[operand]))
            case .and(let left, let right): values.append(and(values[left], values[right]))
            case .or(let left, let right): values.append(or(values[left], values[right]))
            }
        }
        return values
    }

    /// Whether the condition matches an instance that is subscribed to exactly the topics for which `isSubscribed`
    /// is true.
    public func matches(_ isSubscribed: (_ slot: Int) -> Bool) -> Bool {
        fold(topic: isSubscribed, not: { !$0 }, and: { $0 && $1 }, or: { $0 || $1 })[rootIndex]
    }

    /// The tree under one node, as a separate tree with new slots. Byte ranges still refer to the whole text.
    func subtree(at index: Int) -> SyntaxTree {
        // Mark reachable nodes from the back: operands always precede their operator.
        var isUsed = [Bool](repeating: false, count: index + 1)
        isUsed[index] = true
        for at in stride(from: index, through: 0, by: -1) where isUsed[at] {
            switch nodes[at].kind {
            case .topic: break
            case .not(let operand): isUsed[operand] = true
            case .and(let left, let right), .or(let left, let right):
                isUsed[left] = true
                isUsed[right] = true
            }
        }
        var moved = [Int](repeating: 0, count: index + 1)
        var slots: [Int: Int] = [:]
        var kept: [Node] = []
        var keptTopics: [TopicName] = []
        for at in 0...index where isUsed[at] {
            var node = nodes[at]
            switch node.kind {
            case .topic(let slot):
                if slots[slot] == nil {
                    slots[slot] = keptTopics.count
                    keptTopics.append(topics[slot])
                }
                node.kind = .topic(slot: slots[slot]!)
            case .not(let operand): node.kind = .not(moved[operand])
            case .and(let left, let right): node.kind = .and(moved[left], moved[right])
            case .or(let left, let right): node.kind = .or(moved[left], moved[right])
            }
            moved[at] = kept.count
            kept.append(node)
        }
        return SyntaxTree(nodes: kept, topics: keptTopics)
    }
}

extension SyntaxTree: CustomStringConvertible {
    /// The condition in normal form: one blank around operators, and parentheses around every operand with an
    /// operator of its own, so that a reader need not know the order of evaluation. A chain of one operator stays a
    /// chain. The normal form parses to the same selection, unless the added parentheses exceed the limits of
    /// length or depth.
    public var description: String { descriptions[rootIndex] }

    /// The normal form of every node.
    var descriptions: [String] {
        var texts: [String] = []
        texts.reserveCapacity(nodes.count)
        for node in nodes {
            switch node.kind {
            case .topic(let slot): texts.append("'\(topics[slot])' in topics")
            case .not(let operand):
                if case .not = nodes[operand].kind {
                    texts.append("!" + texts[operand])
                } else {
                    texts.append("!(" + texts[operand] + ")")
                }
            case .and(let left, let right):
                texts.append(operand(left, texts, "&&") + " && " + operand(right, texts, nil))
            case .or(let left, let right):
                texts.append(operand(left, texts, "||") + " || " + operand(right, texts, nil))
            }
        }
        return texts
    }

    private func operand(_ index: Int, _ texts: [String], _ chain: String?) -> String {
        switch nodes[index].kind {
        case .topic, .not: texts[index]
        case .and: chain == "&&" ? texts[index] : "(" + texts[index] + ")"
        case .or: chain == "||" ? texts[index] : "(" + texts[index] + ")"
        }
    }
}
