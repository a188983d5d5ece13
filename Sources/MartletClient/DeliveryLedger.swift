// SPDX-License-Identifier: Apache-2.0
//
// The messages that a device has received, that its application has taken, and that the broker knows to be taken
// (DEV-3, TTL-4). Delivery is at least once, so a message may come again on a later connection; the application
// sees the message once. Stream IDs need not rise, because messages held back by a doze or a throttle come later.
// So the ledger detects a duplicate with the set of taken IDs:
//
//     outstanding   given to the application, not yet taken
//     unconfirmed   taken, but the broker has not confirmed the acknowledgement; HELLO has the list
//     confirmed     all IDs up to a mark; the ledger does not remember them one by one
//
// The mark never falls. A broker never gives a stream ID twice, and a restored one leaves IDs out, so a WELCOME with
// a lower mark is that of a store without the latest acknowledgements: a node without news of the others,
// or a backup. What such a store delivers again up to the mark is acknowledged again, and the application does not see it.
//
// An acknowledgement is cumulative up to the first outstanding message. Messages above, and messages that came
// late, are acknowledged singly: to the broker, a cumulative acknowledgement does not cover messages delivered
// late. Pure.

import MartletBase

package struct DeliveryLedger: Sendable {
    /// Single stream IDs in one acknowledgement: far fewer than a frame can hold.
    package static let singlesMax = 1000

    private struct Entry {
        var streamID: UInt64
        /// `isHere`: the message came on this connection. `isLate`: it came after a message with a higher stream
        /// ID.
        var isHere = true
        var isLate: Bool
    }

    /// Messages given to the application and not yet taken, ascending.
    private var outstanding: [Entry] = []
    /// Messages taken and not confirmed, ascending.
    package private(set) var unconfirmed: [UInt64]
    private var confirmedThrough: UInt64 = 0
    /// Highest stream ID received on this connection.
    private var deliveredThrough: UInt64 = 0
    /// Stream IDs to acknowledge, ascending: `unsent` came in order, `unsentLate` came late.
    private var unsent: [UInt64] = []
    private var unsentLate: [UInt64] = []

    package init(unconfirmed: some Sequence<UInt64> = []) {
        self.unconfirmed = Array(Set(unconfirmed)).sorted().suffix(Limits.unconfirmedStreamIDsMax)
    }

    /// Messages to acknowledge: taken, or received again after being taken, since the last acknowledgement.
    package var unsentCount: Int { unsent.count + unsentLate.count }

    /// Call when a connection has opened. HELLO has already told the unconfirmed IDs.
    package mutating func connected(acknowledgedThrough: UInt64) {
        deliveredThrough = 0
        unsent = []
        unsentLate = []
        for index in outstanding.indices { outstanding[index].isHere = false }
        confirm(through: acknowledgedThrough)
    }

    /// Forgets the IDs up to `through`, because the broker will not deliver their messages again.
    package mutating func confirm(through: UInt64) {
        confirmedThrough = max(confirmedThrough, through)
        unconfirmed.removeFirst(Self.place(after: confirmedThrough, in: unconfirmed))
    }

    /// Whether the broker has confirmed the acknowledgement of a message, so that it delivers the message no more.
    package func isConfirmed(_ streamID: UInt64) -> Bool { streamID <= confirmedThrough }

    /// Records the arrival of a stored message, or of the notice of discarded messages.
    /// - Returns: true if the message is new to the application.
    package mutating func deliver(_ streamID: UInt64) -> Bool {
        let isLate = streamID < deliveredThrough
        deliveredThrough = max(deliveredThrough, streamID)
        if isConfirmed(streamID) || Self.contains(streamID, in: unconfirmed) {
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

    /// Records that the application has taken a message.
    package mutating func take(_ streamID: UInt64) {
        let index = place(of: streamID)
        guard index < outstanding.count, outstanding[index].streamID == streamID else { return }
        let entry = outstanding.remove(at: index)
        Self.insert(streamID, into: &unconfirmed)
        if unconfirmed.count > Limits.unconfirmedStreamIDsMax { unconfirmed.removeFirst() }
        // A message of an earlier connection cannot be acknowledged on this connection. Either the broker delivers
        // the message again, or the next HELLO has its ID.
        if entry.isHere { acknowledgeSoon(streamID, isLate: entry.isLate) }
    }

    /// The acknowledgement that can be sent now; nil if there is no message to acknowledge.
    package var acknowledgement: (through: UInt64, single: [UInt64])? {
        guard unsentCount > 0 else { return nil }
        let held = outstanding.first { $0.isHere }?.streamID ?? .max
        let together = Self.place(after: held, in: unsent)
        let single = (unsent[together...] + unsentLate).prefix(Self.singlesMax)
        return (together > 0 ? unsent[together - 1] : 0, Array(single))
    }

    /// Records that the acknowledgement was sent.
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

    /// Index of an outstanding stream ID, or the index at which to insert. IDs mostly rise, so the index is mostly
    /// an end.
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
