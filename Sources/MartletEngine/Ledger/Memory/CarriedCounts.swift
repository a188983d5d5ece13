// SPDX-License-Identifier: Apache-2.0
//
// An upper bound for the messages of an instance's log that STO-1 counts. A device without a first
// acknowledgement and with many connections would have the log read from its start for each absence. With the
// bound, a transaction adds the messages since the last look, and reads the whole log only for a bound above
// the limit. Acknowledgements lower the true number alone, so the bound holds without news of them. Rests on
// Absence.

import MartletBase
import MartletRows

/// One per store, for its writing transactions. A log without a bound is read from its start.
struct CarriedCounts {
    struct Count {
        let holder: Holder
        /// Acknowledged messages behind this sequence are counted too: an absence counts them.
        let from: MessageSequence
        /// The last message that was looked at.
        var through: MessageSequence
        var countMax: Int
    }

    private struct Name: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// Instances whose bound is kept in memory. Above that a new bound takes the place of any other.
    private static let countsMax = 1024

    private var counts: [Name: Count] = [:]

    /// - Returns: the bound, if it holds for an absence.
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
