// SPDX-License-Identifier: Apache-2.0
//
// Reads the tree of an EXPLANATION frame. The tree is text: a line for each sub-expression, with two blanks for each
// level, an operator or a term, two blanks, and a count. Pure.

struct ExplanationTree {
    struct Line {
        var depth: Int
        /// `&&`, `||`, `!`, or a term.
        var label: String
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

    /// The condition with the parentheses that show how it is read.
    var normalForm: String {
        var rest = lines[...]
        return Self.text(&rest)?.text ?? ""
    }

    private static func text(_ rest: inout ArraySlice<Line>) -> (text: String, label: String)? {
        guard let line = rest.popFirst() else { return nil }
        switch line.label {
        case "!":
            guard let operand = text(&rest) else { return nil }
            return (operand.label == "!" ? "!\(operand.text)" : "!(\(operand.text))", "!")
        case "&&", "||":
            guard let left = text(&rest), let right = text(&rest) else { return nil }
            let first = isBinary(left.label) && left.label != line.label
            let second = isBinary(right.label)
            return (
                (first ? "(\(left.text))" : left.text) + " \(line.label) "
                    + (second ? "(\(right.text))" : right.text), line.label
            )
        default: return (line.label, line.label)
        }
    }

    private static func isBinary(_ label: String) -> Bool { label == "&&" || label == "||" }
}
