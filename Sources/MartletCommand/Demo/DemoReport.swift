// SPDX-License-Identifier: Apache-2.0
//
// What the demo saw, a line for each send, and what was wrong with it. Pure.

struct DemoReport {
    /// One send. The property names are those of the JSON output.
    struct Line: Encodable {
        var target: String
        var expected: Int
        var accepted: UInt64
        var delivered: Int
        var acknowledged: UInt64
        var firstMilliseconds: Double?
        var lastMilliseconds: Double?
    }

    struct Check: Encodable {
        /// Devices that should have got a message and did not.
        var missing = 0
        /// Devices that got a message that they should not.
        var extra = 0
        /// Devices that got a message twice.
        var twice = 0
        /// Messages that nobody sent.
        var unknown = 0
        /// Devices whose connection ended for good.
        var failed = 0
        /// Sends whose accepted or acknowledged number is wrong.
        var miscounted = 0

        var isRight: Bool {
            missing + extra + twice + unknown + failed + miscounted == 0
        }
    }

    private static let alignments: [Table.Alignment] = [
        .left, .right, .right, .right, .right, .right,
    ]
    private let widths: [Int]

    init(labels: [String]) {
        widths = [labels.map(\.count).max() ?? 0, 8, 9, 12, 8, 8]
    }

    var head: String {
        Table.line(
            ["TARGET", "EXPECTED", "DELIVERED", "ACKNOWLEDGED", "FIRST ms", "LAST ms"], widths,
            Self.alignments)
    }

    func text(_ line: Line) -> String {
        Table.line(
            [
                line.target, "\(line.expected)", "\(line.delivered)", "\(line.acknowledged)",
                Self.milliseconds(line.firstMilliseconds), Self.milliseconds(line.lastMilliseconds),
            ], widths, Self.alignments)
    }

    private static func milliseconds(_ value: Double?) -> String { value.map { "\($0)" } ?? "–" }

    static func text(_ check: Check) -> String {
        if check.isRight {
            return "Right: everybody got what they should, once, and nobody anything else."
        }
        return """
            WRONG: \(check.missing) missing, \(check.extra) to somebody who should not get it, \
            \(check.twice) twice, \(check.unknown) unknown, \(check.failed) devices failed, \
            \(check.miscounted) sends miscounted.
            """
    }
}

extension Duration {
    /// To a tenth.
    var milliseconds: Double {
        let (seconds, attoseconds) = components
        return ((Double(seconds) * 1000 + Double(attoseconds) / 1e15) * 10).rounded() / 10
    }

    /// To a tenth.
    var secondsText: String { "\((milliseconds / 100).rounded() / 10) s" }
}
