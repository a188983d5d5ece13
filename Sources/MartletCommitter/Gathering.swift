// SPDX-License-Identifier: Apache-2.0
//
// Group commit. A sender with several outstanding messages sends again as soon as the last messages are
// accepted. A transaction that began right then would have some of the new messages, and the rest would wait
// for the whole transaction: two fsyncs where one is enough. So the committer waits for a moment, until as many
// commands have come as were just answered. If senders do not return so soon, the committer learns from the
// waits in vain and does not wait. Rests on no other type: the committer passes the time.

/// Decides when the next transaction begins.
package struct Gathering {
    /// Divisor of the last transaction's duration: the longest wait is half of the duration.
    private static let part: UInt64 = 2
    /// Longest wait after a long transaction: 1 ms.
    private static let nanosecondsMax: UInt64 = 1_000_000
    /// Highest `penalty`: the penalty is doubled with each wait in vain.
    private static let skippedMax = 64
    /// Fewest answered commands for which the committer waits. Fewer commands are rarely split over two
    /// transactions, and a lone message waits for no other.
    private static let answeredMin = 4

    /// Commands that were answered with the last transaction and not followed by new commands yet.
    private var expectedCount = 0
    private var end: UInt64 = 0
    private var hasWaited = false
    /// `penalty`: transactions without a wait after the next wait in vain. `skipped`: transactions without a
    /// wait that are left.
    private var penalty = 1
    private var skipped = 0

    package init() {}

    /// Notes the end of a transaction.
    /// - Parameters:
    ///   - answeredCount: answered commands of connections.
    ///   - nanoseconds: duration of the transaction.
    package mutating func published(_ answeredCount: Int, at now: UInt64, after nanoseconds: UInt64)
    {
        if hasWaited {
            if expectedCount > 0 {
                skipped = penalty
                penalty = min(2 * penalty, Self.skippedMax)
            } else {
                penalty = 1
            }
            hasWaited = false
        } else if skipped > 0 {
            skipped -= 1
        }
        expectedCount = answeredCount < Self.answeredMin ? 0 : answeredCount
        end = now + min(nanoseconds / Self.part, Self.nanosecondsMax)
    }

    package mutating func arrived(_ count: Int) { expectedCount = max(0, expectedCount - count) }

    /// - Returns: nanoseconds for which the next transaction waits for more commands; 0: the transaction
    ///   begins.
    package mutating func wait(at now: UInt64) -> UInt64 {
        guard expectedCount > 0, skipped == 0, now < end else { return 0 }
        hasWaited = true
        return end - now
    }
}
