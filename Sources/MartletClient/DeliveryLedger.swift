// SPDX-License-Identifier: Apache-2.0
//
// What a device has been given, what its application has taken, and what of that the broker knows
// (DEV-3, TTL-4). Delivery is at least once, so a message may come again on a later connection; the
// application sees it once. Stream IDs need not rise: what a doze or a throttle held back comes later.
// So a duplicate is told by the set of IDs that were taken:
//
//     outstanding   given to the application, not taken yet
//     unconfirmed   taken; the broker has not said that its acknowledgement is on disk: HELLO's list
//     confirmed     everything up to here; such an ID is remembered no more
//
// An acknowledgement is cumulative for what came in the order of stream IDs and single for the rest: to
// the broker a cumulative one says nothing about what it delivers late. Pure.

import MartletBase

package struct DeliveryLedger: Sendable {
    /// Single stream IDs in one acknowledgement: far below what a frame holds.
    package static let singlesMax = 1000

    private struct Entry {
        var streamID: UInt64
        /// Whether it came on this connection, and then whether after a higher one.
        var isHere = true
        var isLate: Bool
    }

    /// Given and not taken, ascending.
    private var outstanding: [Entry] = []
    /// Taken and not confirmed, ascending.
    package private(set) var unconfirmed: [UInt64]
    private var confirmedThrough: UInt64 = 0
    /// Highest on this connection.
    private var deliveredThrough: UInt64 = 0
    /// To be acknowledged, ascending: what came in order, and what came late.
    private var unsent: [UInt64] = []
    private var unsentLate: [UInt64] = []

    package init(unconfirmed: some Sequence<UInt64> = []) {
        self.unconfirmed = Array(Set(unconfirmed)).sorted().suffix(Limits.unconfirmedStreamIDsMax)
    }

    /// Messages taken, or seen again after they were, since the last acknowledgement.
    package var unsentCount: Int { unsent.count + unsentLate.count }

    /// A connection opened; HELLO carried what is unconfirmed.
    package mutating func connected(acknowledgedThrough: UInt64) {
        deliveredThrough = 0
        unsent = []
        unsentLate = []
        for index in outstanding.indices { outstanding[index].isHere = false }
        confirmedThrough = 0
        confirm(through: acknowledgedThrough)
    }

    /// The broker will not deliver anything up to here again.
    package mutating func confirm(through: UInt64) {
        confirmedThrough = max(confirmedThrough, through)
        unconfirmed.removeFirst(Self.place(after: confirmedThrough, in: unconfirmed))
    }

    /// A stored message, or the notice that some were discarded, came. Says whether it is new to the
    /// application.
    package mutating func deliver(_ streamID: UInt64) -> Bool {
        let isLate = streamID < deliveredThrough
        deliveredThrough = max(deliveredThrough, streamID)
        if streamID <= confirmedThrough || Self.contains(streamID, in: unconfirmed) {
            acknowledgeSoon(streamID, isLate: isLate)
            return false
        }
        let index = place(of: streamID)
        if index < outstanding.count, outstanding[index].streamID == streamID {
            outstanding[index].isHere = true
            outstanding[index].isLate = isLate
            return false
        }
        outstanding.insert(Entry(streamID: streamID, isLate: isLate), at: index)
        return true
    }

    /// The application has taken a message.
    package mutating func take(_ streamID: UInt64) {
        let index = place(of: streamID)
        guard index < outstanding.count, outstanding[index].streamID == streamID else { return }
        let entry = outstanding.remove(at: index)
        Self.insert(streamID, into: &unconfirmed)
        if unconfirmed.count > Limits.unconfirmedStreamIDsMax { unconfirmed.removeFirst() }
        // What did not come on this connection cannot be acknowledged on it: it will come, or HELLO
        // tells it next time.
        if entry.isHere { acknowledgeSoon(streamID, isLate: entry.isLate) }
    }

    /// What could be acknowledged now, if anything.
    package var acknowledgement: (through: UInt64, single: [UInt64])? {
        guard unsentCount > 0 else { return nil }
        let held = outstanding.first { $0.isHere }?.streamID ?? .max
        let together = Self.place(after: held, in: unsent)
        let single = (unsent[together...] + unsentLate).prefix(Self.singlesMax)
        return (together > 0 ? unsent[together - 1] : 0, Array(single))
    }

    /// The acknowledgement went out.
    package mutating func acknowledged(through: UInt64, single: [UInt64]) {
        let single = Set(single)
        unsent.removeAll { $0 <= through || single.contains($0) }
        unsentLate.removeAll { single.contains($0) }
    }

    private mutating func acknowledgeSoon(_ streamID: UInt64, isLate: Bool) {
        if isLate {
            Self.insert(streamID, into: &unsentLate)
        } else {
            Self.insert(streamID, into: &unsent)
        }
    }

    // MARK: Ascending lists

    /// Where an outstanding stream ID is or would be. IDs mostly rise, so it is nearly always an end.
    private func place(of streamID: UInt64) -> Int {
        if let last = outstanding.last, last.streamID < streamID { return outstanding.count }
        var (low, high) = (0, outstanding.count)
        while low < high {
            let middle = (low + high) / 2
            if outstanding[middle].streamID < streamID { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Index of the first element above `value`.
    private static func place(after value: UInt64, in ascending: [UInt64]) -> Int {
        if let last = ascending.last, last <= value { return ascending.count }
        var (low, high) = (0, ascending.count)
        while low < high {
            let middle = (low + high) / 2
            if ascending[middle] <= value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private static func contains(_ value: UInt64, in ascending: [UInt64]) -> Bool {
        let place = place(after: value, in: ascending)
        return place > 0 && ascending[place - 1] == value
    }

    private static func insert(_ value: UInt64, into ascending: inout [UInt64]) {
        let place = place(after: value, in: ascending)
        if place == 0 || ascending[place - 1] != value { ascending.insert(value, at: place) }
    }
}
