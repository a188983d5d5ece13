// SPDX-License-Identifier: Apache-2.0
//
// Group commit. A sender that keeps some messages outstanding asks for the next ones as soon as the last
// ones are accepted. A transaction that began right then would have a part of them, and the rest would wait
// for the whole of it: two fsyncs for what one is enough for. So the committer waits for a moment until as
// many commands have come as were just answered. Where senders do not come back so soon, it learns that and
// does not wait. Rests on nothing: whoever commits tells it the time.

/// When the next transaction begins.
package struct Gathering {
    /// The longest wait, as a part of what the last transaction took.
    private static let part: UInt64 = 2
    private static let nanosecondsMax: UInt64 = 1_000_000
    /// Waits in vain after which so many transactions begin at once, doubled with each further one.
    private static let skippedMax = 64
    /// Fewer than these are hardly parted, and a lone message waits for nobody.
    private static let answeredMin = 4

    /// Commands that were answered with the last transaction and have not been followed by others yet.
    private var expectedCount = 0
    private var end: UInt64 = 0
    private var hasWaited = false
    /// Transactions that begin at once after the next wait in vain, and those that still do.
    private var penalty = 1
    private var skipped = 0

    package init() {}

    /// - Parameters:
    ///   - answeredCount: commands of connections that were answered.
    ///   - nanoseconds: what the transaction took.
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

    /// - Returns: how long the next transaction waits for further commands; 0: it begins.
    package mutating func wait(at now: UInt64) -> UInt64 {
        guard expectedCount > 0, skipped == 0, now < end else { return 0 }
        hasWaited = true
        return end - now
    }
}
