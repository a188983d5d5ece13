// SPDX-License-Identifier: Apache-2.0
//
// A condition, ready to be evaluated: `'A' in topics && ('B' in topics || 'C' in topics)`. Parsing
// and compiling happen once, in `init`; everything after is reading. Rests on Parser, TruthTable
// and Compiler.

public import MartletBase

/// A parsed and compiled condition. Two conditions are equal if their texts are.
public struct Condition: Sendable, Hashable {
    /// The text as it was given; the normal form for part of another condition.
    public let text: String
    public let syntaxTree: SyntaxTree
    /// The value for every combination of topics, if there are at most five.
    public let truthTable: TruthTable?
    public let program: Program

    /// - Parameter topicsMax: distinct topics allowed, at most 64.
    public init(
        parsing text: String, topicsMax: Int = Limits.conditionTopicsMax
    ) throws(MartletError) {
        try self.init(bytes: [UInt8](text.utf8), text: text, topicsMax: topicsMax)
    }

    /// The same for bytes from the outside, which need not be UTF-8.
    public init(
        parsing bytes: some Sequence<UInt8>, topicsMax: Int = Limits.conditionTopicsMax
    ) throws(MartletError) {
        try self.init(bytes: [UInt8](bytes), text: nil, topicsMax: topicsMax)
    }

    private init(bytes: [UInt8], text: String?, topicsMax: Int) throws(MartletError) {
        let tree = try Parser.parse(bytes, topicsMax: topicsMax)
        // What the parser accepts is ASCII.
        self.init(tree: tree, text: text ?? String(decoding: bytes, as: UTF8.self))
    }

    init(tree: SyntaxTree, text: String) {
        self.text = text
        syntaxTree = tree
        truthTable = TruthTable(tree)
        program = Compiler.compile(tree)
    }

    /// The condition that is one topic.
    public init(topic: TopicName) {
        let text = "'\(topic)' in topics"
        let range = 0..<text.utf8.count
        let node = SyntaxTree.Node(
            kind: .topic(slot: 0), byteRange: range, isParenthesized: false, operatorRange: range)
        self.init(tree: SyntaxTree(nodes: [node], topics: [topic]), text: text)
    }

    /// The part of this condition under one node of its tree.
    public func part(at nodeIndex: Int) -> Condition {
        let tree = syntaxTree.subtree(at: nodeIndex)
        return Condition(tree: tree, text: tree.description)
    }

    /// Distinct topics in the order of their first mention; a slot is an index into this.
    public var topics: [TopicName] { syntaxTree.topics }

    /// Whether an instance without any subscription matches: then the universe of all registered
    /// instances is read too, as the slot `universeSlot`.
    public var selectsWithoutTopics: Bool { program.usesUniverse }

    /// The slot of the universe.
    public var universeSlot: Int { topics.count }

    /// Slots that are read: the topics, and the universe if need be.
    public var slotCount: Int { topics.count + (selectsWithoutTopics ? 1 : 0) }

    public static func == (a: Self, b: Self) -> Bool { a.text == b.text }

    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

extension Condition: CustomStringConvertible {
    public var description: String { syntaxTree.description }
}
