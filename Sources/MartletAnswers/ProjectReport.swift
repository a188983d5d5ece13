// SPDX-License-Identifier: Apache-2.0
//
// The counts of a project's messages over several days (REP-1). Pure.

package import Martlet

/// The counts of a project's messages over several days.
package struct ProjectReport: Sendable {
    package var project: String
    package var days: ClosedRange<Day>
    package var entries: [DailyCounts]

    package init(project: String, days: ClosedRange<Day>, entries: [DailyCounts]) {
        self.project = project
        self.days = days
        self.entries = entries
    }

    package var total: DeliveryCounts { entries.reduce(into: DeliveryCounts()) { $0 += $1.counts } }

    /// Sums of the entries with equal `key`, in the order in which keys first appear.
    package func sums<Key: Hashable>(
        by key: (DailyCounts) -> Key
    ) -> [(key: Key, counts: DeliveryCounts)] {
        var places: [Key: Int] = [:]
        var sums: [(key: Key, counts: DeliveryCounts)] = []
        for entry in entries {
            let key = key(entry)
            if let place = places[key] {
                sums[place].counts += entry.counts
            } else {
                places[key] = sums.count
                sums.append((key, entry.counts))
            }
        }
        return sums
    }
}
