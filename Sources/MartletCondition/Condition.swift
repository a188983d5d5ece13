// SPDX-License-Identifier: Apache-2.0
//
// A condition, ready for evaluation: `'A' in topics && ('B' in topics || 'C' in topics)`. `init` parses and
// compiles once; later uses only read. Rests on Parser, TruthTable and Compiler.

public import MartletBase

/// A parsed and compiled condition. Two conditions are equal if their texts are equal.
public struct Condition: Sendable, Hashable {
    /// The given text; for a part of another condition, the normal form.
    public let text: String
    /// The parsed text.
    public let syntaxTree: SyntaxTree
    /// The value for every combination of topics; nil for more than five topics.
    public let truthTable: TruthTable?
    /// The compiled code of the condition.
    public let program: Program

    /// - Parameter topicsMax: distinct topics allowed, at most 64.
    /// - Throws: `invalidArgument` with the byte at fault.
    public init(
        parsing text: String, topicsMax: Int = Limits.conditionTopicsMax
    ) throws(MartletError) {
        try self.init(bytes: [UInt8](text.utf8), text: text, topicsMax: topicsMax)
    }

    /// Parses bytes from a client, which need not be UTF-8.
    ///
    /// - Parameter topicsMax: distinct topics allowed, at most 64.
    /// - Throws: `invalidArgument` with the byte at fault.
    public init(
        parsing bytes: some Sequence<UInt8>, topicsMax: Int = Limits.conditionTopicsMax
    ) throws(MartletError) {
        try self.init(bytes: [UInt8](bytes), text: nil, topicsMax: topicsMax)
    }

    private init(bytes: [UInt8], text: String?, topicsMax: Int) throws(MartletError) {
        let tree = try Parser.parse(bytes, topicsMax: topicsMax)
        // The parser accepts ASCII only, so decoding cannot fail.
        self.init(tree: tree, text: text ?? String(decoding: bytes, as: UTF8.self))
    }

    init(tree: SyntaxTree, text: String) {
        self.text = text
        syntaxTree = tree
        truthTable = TruthTable(tree)
        program = Compiler.compile(tree)
    }

    /// The condition of a single topic.
    public init(topic: TopicName) {
        let text = "'\(topic)' in topics"
        let range = 0..<text.utf8.count
        let node = SyntaxTree.Node(
            kind: .topic(slot: 0), byteRange: range, isParenthesized: false, operatorRange: range)
        self.init(tree: SyntaxTree(nodes: [node], topics: [topic]), text: text)
    }

    /// The part of the condition under one node of its tree.
    public func part(at nodeIndex: Int) -> Condition {
        let tree = syntaxTree.subtree(at: nodeIndex)
        return Condition(tree: tree, text: tree.description)
    }

    /// Distinct topics in the order of their first mention; a slot is an index into the array.
    public var topics: [TopicName] { syntaxTree.topics }

    /// Whether an instance without any subscription matches. If so, the evaluator also reads the universe of all
    /// registered instances, as the slot behind the topics.
    public var selectsWithoutTopics: Bool { program.usesUniverse }

    /// Number of slots: the topics, and the universe if the condition reads it.
    public var slotCount: Int { topics.count + (selectsWithoutTopics ? 1 : 0) }

    /// Compares the texts only.
    public static func == (a: Self, b: Self) -> Bool { a.text == b.text }

    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

extension Condition: CustomStringConvertible {
    /// The condition in normal form, as `SyntaxTree.description` writes it.
    public var description: String { syntaxTree.description }
}
