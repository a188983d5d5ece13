// SPDX-License-Identifier: Apache-2.0
//
// How many messages an instance's log can have at most that take a place of those that may be stored
// (STO-1), as far as the log was read. A device that never acknowledges its first message and comes back
// again and again would have its log read from there each time: what has come since is added instead, and
// the log is read again only where it may be too much. Acknowledgements only take from the count, so it
// stays a bound without hearing of them. Rests on nothing.

import MartletBase
import MartletEngine

/// One per store, for its writing transactions. A log that is not known is read again.
struct CarriedCounts {
    struct Count {
        let holder: Holder
        /// Acknowledged messages behind this are counted too, as an absence from here on does.
        let from: MessageSequence
        /// The last message that was looked at.
        var through: MessageSequence
        var countMax: Int
    }

    private struct Name: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// Past so many any of them gives way.
    private static let countsMax = 1024

    private var counts: [Name: Count] = [:]

    /// - Returns: what is known, if it says something of an absence.
    func count(_ instance: Taker, _ holder: Holder, before absence: Absence) -> Count? {
        guard let count = counts[Name(project: instance.project, ordinal: instance.ordinal)],
            count.holder == holder, count.from <= absence.from, count.through <= absence.through
        else { return nil }
        return count
    }

    mutating func keep(_ count: Count, of instance: Taker) {
        let name = Name(project: instance.project, ordinal: instance.ordinal)
        if counts.count >= Self.countsMax, counts[name] == nil {
            counts.remove(at: counts.startIndex)
        }
        counts[name] = count
    }

    mutating func forget() { counts = [:] }
}
