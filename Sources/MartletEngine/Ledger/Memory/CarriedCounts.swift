// SPDX-License-Identifier: Apache-2.0
//
// Upper bounds for the messages of a log that count against the limit of stored messages (STO-1). Without a bound, the log of
// a device that connects often and never acknowledges would be read from the start for each absence. With the bound, a
// transaction adds the messages since the last look, and reads the whole log only if the bound is above the limit.
// Acknowledgements only lower the true number, so the bound holds without news of them. Rests on Absence.

import MartletBase
import MartletRows

/// The bounds of a store, for the writing transactions. A log without a bound is read from its start.
struct CarriedCounts {
    struct Count {
        let holder: Holder
        /// The beginning of the absence. Acknowledged messages behind it are in the bound too, because an absence
        /// counts them.
        let from: MessageSequence
        /// The last message included in the bound.
        var through: MessageSequence
        var countMax: Int
    }

    private struct Name: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// Instances whose bound is kept in memory. Past 1024, a new bound replaces an arbitrary other bound.
    private static let countsMax = 1024

    private var counts: [Name: Count] = [:]

    /// - Returns: the bound of an instance; nil if no bound holds for the absence.
    func count(_ instance: Taker, _ holder: Holder, before absence: Absence) -> Count? {
        guard let count = counts[Name(project: instance.project, ordinal: instance.ordinal)],
            count.holder == holder, count.from <= absence.from, count.through <= absence.through
        else { return nil }
        return count
    }

    mutating func keep(_ count: Count, of instance: Taker) {
        invariant(count.from <= count.through, "A bound covers an absence from its beginning.")
        invariant(count.countMax >= 0, "A bound of a count is not negative.")
        let name = Name(project: instance.project, ordinal: instance.ordinal)
        if counts.count >= Self.countsMax, counts[name] == nil {
            counts.remove(at: counts.startIndex)
        }
        counts[name] = count
        invariant(counts.count <= Self.countsMax, "The bounds kept in memory are bounded.")
    }

    mutating func forget() { counts = [:] }
}
