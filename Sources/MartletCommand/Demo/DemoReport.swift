// SPDX-License-Identifier: Apache-2.0
//
// The results of the demo: a line for each send, and a count of all faults. Pure.

struct DemoReport {
    /// The results of a send. Property names are the names in the JSON output.
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
        /// Expected messages that did not come, summed over devices.
        var missing = 0
        /// Messages that came to devices outside the audience, summed over devices.
        var extra = 0
        /// Messages that came more than once, summed over devices.
        var twice = 0
        /// Arrivals of messages from outside the demo.
        var unknown = 0
        /// Devices whose connection ended for good.
        var failed = 0
        /// Sends with a wrong number of accepted or acknowledged messages.
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

    /// A sentence about times of a program that nobody should judge speed by.
    private static var build: String {
        #if DEBUG
            "\nThe program is not optimised, to be built soon. `make bench` measures speed."
        #else
            ""
        #endif
    }

    static func text(_ check: Check) -> String {
        if check.isRight {
            return "Right: everybody got what they should, once, and nobody anything else." + build
        }
        return """
            WRONG: \(check.missing) missing, \(check.extra) to somebody who should not get it, \
            \(check.twice) twice, \(check.unknown) unknown, \(check.failed) devices failed, \
            \(check.miscounted) sends miscounted.
            """
    }
}

extension Duration {
    /// Milliseconds, rounded to a tenth.
    var milliseconds: Double {
        let (seconds, attoseconds) = components
        return ((Double(seconds) * 1000 + Double(attoseconds) / 1e15) * 10).rounded() / 10
    }

    /// Seconds, rounded to a tenth, with the unit.
    var secondsText: String { "\((milliseconds / 100).rounded() / 10) s" }
}
