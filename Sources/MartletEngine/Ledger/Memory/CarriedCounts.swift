// SPDX-License-Identifier: Apache-2.0
//
// Upper bounds for how many of a log's messages count towards the limit of stored messages (STO-1). If a device connects often
// and never acknowledges, we would have to read its log from the start for every absence. With a bound, a transaction just
// adds the messages since the last look, and reads the whole log only if the bound exceeds the limit. Acknowledgements only
// lower the true number, so the bound holds without hearing of them. Rests on Absence.

import MartletBase
import MartletRows

/// A store's bounds, for its writing transactions. A log without one is read from its start.
struct CarriedCounts {
    struct Count {
        let holder: Holder
        /// Where the absence began. The bound includes acknowledged messages after it, because an absence counts them.
        let from: MessageSequence
        /// The last message that the bound includes.
        var through: MessageSequence
        var countMax: Int
    }

    private struct Name: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// Most bounds to keep. Past that, a new one replaces any other.
    private static let countsMax = 1024

    private var counts: [Name: Count] = [:]

    /// - Returns: the instance's bound; nil if there is none for this absence.
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
