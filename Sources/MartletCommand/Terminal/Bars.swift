// SPDX-License-Identifier: Apache-2.0
//
// Shares and courses as blocks of Unicode, for terminals. Pure.

enum Bars {
    private static let eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]
    private static let heights: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

    /// A bar that fills all cells when `part` equals `whole`. Any part above 0 can be seen.
    static func bar(_ part: UInt64, of whole: UInt64, cells: Int) -> String {
        guard part > 0, whole > 0 else { return "" }
        let share = min(Double(part) / Double(whole), 1)
        let filled = max(1, Int((share * Double(cells * 8)).rounded()))
        return String(repeating: "█", count: filled / 8) + eighths[filled % 8]
    }

    /// A line with a character for each value. The character's height is the value's part of the largest value; a dot
    /// stands for 0.
    static func course(_ values: [UInt64]) -> String {
        let top = Double(values.max() ?? 0)
        return String(
            values.map { value in
                guard value > 0 else { return "·" }
                return heights[min(7, Int(Double(value) / top * 8))]
            })
    }

    /// Sums neighbours, so that the values fit into `cells`.
    /// - Returns: the sums, and the number of values in each sum.
    static func grouped(_ values: [UInt64], cells: Int) -> (values: [UInt64], each: Int) {
        let each = max(1, (values.count + cells - 1) / cells)
        let starts = stride(from: 0, to: values.count, by: each)
        return (starts.map { values[$0..<min($0 + each, values.count)].reduce(0, +) }, each)
    }
}
