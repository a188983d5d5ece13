// SPDX-License-Identifier: Apache-2.0
//
// Aligned columns for people. Widths are counted in characters. Pure.

/// A table for printing when all rows are known.
package struct Table {
    package enum Alignment: Sendable {
        case left, right
    }

    private let titles: [String]
    private let alignments: [Alignment]
    private var rows: [[String]] = []

    init(_ columns: (title: String, alignment: Alignment)...) { self.init(columns: columns) }

    package init(columns: [(title: String, alignment: Alignment)]) {
        titles = columns.map(\.title)
        alignments = columns.map(\.alignment)
    }

    mutating func add(_ cells: String...) { add(row: cells) }

    /// Adds a row. A cell may be a foreign text, so control characters become blanks.
    package mutating func add(row cells: [String]) {
        precondition(cells.count == titles.count, "A row has as many cells as the table columns.")
        rows.append(cells.map(\.withoutControls))
    }

    package var text: String {
        let widths = titles.indices.map { column in
            ([titles] + rows).map { $0[column].count }.max() ?? 0
        }
        return ([titles] + rows).map { Self.line($0, widths, alignments) }
            .joined(separator: "\n")
    }

    /// A line of a table with known column widths.
    static func line(_ cells: [String], _ widths: [Int], _ alignments: [Alignment]) -> String {
        var line = ""
        for (index, cell) in cells.enumerated() {
            let padding = String(repeating: " ", count: max(0, widths[index] - cell.count))
            if index > 0 { line += "  " }
            line += alignments[index] == .left ? cell + padding : padding + cell
        }
        while line.last == " " { line.removeLast() }
        return line
    }
}
