// SPDX-License-Identifier: Apache-2.0
//
// Counts now-or-never messages (REP-1, TTL-2). They have no rows, so their counts gather in memory until the committer's
// next transaction, at most a second later. A crash loses what has gathered. Rests on ReportCounts.

package import MartletBase
package import MartletRows
import Synchronization

/// Counts of a day's messages for the instances of an app.
package struct DayCount: Sendable, Hashable {
    /// Project of the messages.
    package var project: ProjectNumber
    /// Days since 1970-01-01, UTC.
    package var day: UInt32
    /// App of the instances.
    package var app: AppNumber
    /// Numbers of the day's messages by event.
    package var counts: ReportCounts

    package init(project: ProjectNumber, day: UInt32, app: AppNumber, counts: ReportCounts) {
        self.project = project
        self.day = day
        self.app = app
        self.counts = counts
    }
}

/// Unwritten counts of a broker. The lock is taken once for a message and once for a transaction.
package final class NowOrNeverCounts: Sendable {
    private struct Key: Hashable {
        var project: ProjectNumber
        var day: UInt32
        var app: AppNumber
    }

    private let counts = Mutex<[Key: ReportCounts]>([:])

    /// Makes an empty table.
    package init() {}

    /// Counts an accepted now-or-never message.
    /// - Parameter shares: the number of recipients by app.
    func add(_ shares: [AppNumber: UInt64], of project: ProjectNumber, at now: Instant) {
        counts.withLock { counts in
            for (app, number) in shares {
                Self.add(number, to: Key(project: project, day: now.day, app: app), in: &counts)
            }
        }
    }

    /// Counts an accepted now-or-never message whose recipients all have one app.
    func add(_ number: UInt64, of app: AppNumber, in project: ProjectNumber, at now: Instant) {
        let key = Key(project: project, day: now.day, app: app)
        counts.withLock { Self.add(number, to: key, in: &$0) }
    }

    private static func add(
        _ number: UInt64, to key: Key, in counts: inout [Key: ReportCounts]
    ) {
        var count = ReportCounts()
        count[.targeted] = number
        count[.nowOrNever] = number
        assert(count.isConsistent, "A recipient has one outcome of a message.")
        counts[key, default: ReportCounts()] += count
    }

    /// Adds counts again after a transaction could not write them.
    package func giveBack(_ days: [DayCount]) {
        counts.withLock { counts in
            for one in days {
                counts[
                    Key(project: one.project, day: one.day, app: one.app), default: ReportCounts()] +=
                    one.counts
            }
        }
    }

    /// Removes and returns all counts gathered since the last call.
    package func take() -> [DayCount] {
        let taken = counts.withLock { counts in
            var taken: [Key: ReportCounts] = [:]
            swap(&taken, &counts)
            return taken
        }
        return taken.map {
            DayCount(project: $0.key.project, day: $0.key.day, app: $0.key.app, counts: $0.value)
        }
    }

    /// Whether no counts wait to be written.
    package var isEmpty: Bool { counts.withLock { $0.isEmpty } }
}
