// SPDX-License-Identifier: Apache-2.0
//
// The audience and the explanation of a condition, as a sender gets them (CON-8, CON-9). EXPLANATION has the condition
// as a tree of text: a line for each sub-expression, with two blanks for each level, an operator or a term, two
// blanks, and a count. The tree is read here. Rests on `Answers`.

public import MartletBase

/// CON-8: the exact number of instances selected by a condition.
public struct AudienceSummary: Sendable, Hashable {
    /// An app with at least one selected instance.
    public struct AppCount: Sendable, Hashable {
        /// Package name or bundle ID.
        public var app: String
        /// Platform of the app.
        public var platform: Platform
        /// Selected instances of the app, at least 1.
        public var count: UInt64

        package init(app: String, platform: Platform, count: UInt64) {
            self.app = app
            self.platform = platform
            self.count = count
        }
    }

    /// Selected instances over all apps.
    public var total: UInt64
    /// Selected instances of each platform; platforms without a selected instance are left out.
    public var perPlatform: [Platform: UInt64]
    /// Selected instances of each app; apps without a selected instance are left out.
    public var perApp: [AppCount]

    package init(_ result: AudienceResult) {
        total = result.total
        perPlatform = [.android: result.android, .apple: result.apple, .web: result.web]
            .filter { $0.value > 0 }
        perApp = result.apps
    }
}

/// CON-9: the parts of a condition.
public struct ConditionExplanation: Sendable, Hashable {
    /// A sub-expression of the condition with its audience.
    public struct Part: Sendable, Hashable {
        /// The sub-expression in normal form.
        public var text: String
        /// Range of the sub-expression in the UTF-8 bytes of the condition.
        public var byteRange: Range<Int>
        /// Depth below the whole condition, from 0.
        public var depth: Int
        /// Instances selected by the sub-expression.
        public var count: UInt64
    }

    /// A construct that is legal but probably a mistake, such as a topic without subscribers.
    public struct Advice: Sendable, Hashable {
        /// Place of the construct in the UTF-8 bytes of the condition, from 0.
        public var byteOffset: UInt32
        /// A sentence for people about the probable mistake.
        public var message: String
    }

    /// The condition with parentheses that show the order of evaluation.
    public var normalForm: String
    /// The sub-expressions, from the whole condition down.
    public var parts: [Part]
    /// Instructions of the compiled condition as text, one per element.
    public var bytecode: [String]
    /// Probable mistakes, in the order of their byte offsets; empty if none was found.
    public var advice: [Advice]

    package init(_ explanation: Explanation) {
        let tree = ExplanationTree(explanation.tree)
        let texts = tree.texts
        normalForm = texts.first ?? ""
        parts = zip(explanation.parts, zip(tree.lines, texts)).map { part, shown in
            let start = Int(part.start)
            return Part(
                text: shown.1, byteRange: start..<max(start, Int(part.end)),
                depth: shown.0.depth, count: part.count)
        }
        bytecode = explanation.bytecode.split(separator: "\n").map(String.init)
        advice = explanation.advice.map { Advice(byteOffset: $0.byteOffset, message: $0.text) }
    }
}

/// The tree of an EXPLANATION frame.
private struct ExplanationTree {
    struct Line {
        var depth: Int
        /// `&&`, `||`, `!`, or a term.
        var label: String
        var isBinary: Bool { label == "&&" || label == "||" }
    }

    let lines: [Line]

    init(_ text: String) {
        lines = text.split(separator: "\n").map { line in
            let label = line.drop { $0 == " " }
            let depth = (line.count - label.count) / 2
            let end = label.lastIndex(of: " ") ?? label.endIndex
            var term = label[..<end]
            while term.last == " " { term.removeLast() }
            return Line(depth: depth, label: String(term))
        }
    }

    /// The normal form of each line with the lines below: the text with the parentheses that show the order of
    /// evaluation.
    var texts: [String] {
        var texts = lines.map(\.label)
        // The lines are in the order operator, left operand, right operand. From the last line on, the operands of a
        // line are the last lines without an operator.
        var waiting: [Int] = []
        for index in lines.indices.reversed() {
            let label = lines[index].label
            if label == "!", let operand = waiting.popLast() {
                texts[index] =
                    lines[operand].label == "!" ? "!\(texts[operand])" : "!(\(texts[operand]))"
            } else if lines[index].isBinary, let left = waiting.popLast(),
                let right = waiting.popLast()
            {
                let opensLeft = lines[left].isBinary && lines[left].label != label
                texts[index] =
                    (opensLeft ? "(\(texts[left]))" : texts[left]) + " \(label) "
                    + (lines[right].isBinary ? "(\(texts[right]))" : texts[right])
            }
            waiting.append(index)
        }
        return texts
    }
}
