// SPDX-License-Identifier: Apache-2.0
//
// What a device has been given, what its application has taken, and what of that the broker knows
// (DEV-3, TTL-4). Delivery is at least once, so a message may come again on a later connection; the
// application sees it once. Three marks rise through the stream IDs:
//
//     seen ≤ floor … recent   a stream ID at or below the floor, or in `recent`, is a duplicate
//     takenThrough            every message delivered up to here was taken: HELLO's received-through
//     deliveredThrough        highest on this connection: no acknowledgement may pass it
//
// An acknowledgement is cumulative: min(takenThrough, deliveredThrough). Pure.

package struct DeliveryLedger: Sendable {
    /// Stream IDs above the floor that are remembered one by one.
    package static let recentMax = 1024

    private struct Entry {
        var streamID: UInt64
        var isTaken: Bool
    }

    /// Every message delivered up to here has been taken by the application.
    package private(set) var takenThrough: UInt64
    private var floor: UInt64
    /// Seen above the floor, ascending.
    private var recent: [UInt64] = []
    /// Delivered and above `takenThrough`, ascending.
    private var outstanding: [Entry] = []
    private var deliveredThrough: UInt64 = 0
    private var sentThrough: UInt64 = 0
    /// Messages taken, or seen again after they were, since the last acknowledgement.
    package private(set) var unsentCount = 0

    package init(receivedThrough: UInt64) {
        takenThrough = receivedThrough
        floor = receivedThrough
    }

    /// A connection opened; HELLO carried `receivedThrough`.
    package mutating func connected(receivedThrough: UInt64, acknowledgedThrough: UInt64) {
        deliveredThrough = 0
        sentThrough = max(receivedThrough, acknowledgedThrough)
        unsentCount = 0
        if outstanding.isEmpty { takenThrough = max(takenThrough, acknowledgedThrough) }
    }

    /// A stored message came. Says whether it is new to the application.
    package mutating func deliver(_ streamID: UInt64) -> Bool {
        deliveredThrough = max(deliveredThrough, streamID)
        if hasSeen(streamID) {
            if streamID <= takenThrough { unsentCount += 1 }
            return false
        }
        recent.insert(streamID, at: Self.place(of: streamID, in: recent))
        if recent.count > Self.recentMax {
            let evicted = Self.recentMax / 2
            floor = recent[evicted - 1]
            recent.removeFirst(evicted)
        }
        let index = outstanding.lastIndex { $0.streamID < streamID }.map { $0 + 1 } ?? 0
        outstanding.insert(Entry(streamID: streamID, isTaken: false), at: index)
        return true
    }

    /// The application has taken a message.
    package mutating func take(_ streamID: UInt64) {
        guard
            let index = outstanding.firstIndex(where: { $0.streamID == streamID && !$0.isTaken })
        else { return }
        outstanding[index].isTaken = true
        unsentCount += 1
        let taken = outstanding.prefix { $0.isTaken }.count
        guard taken > 0 else { return }
        takenThrough = max(takenThrough, outstanding[taken - 1].streamID)
        outstanding.removeFirst(taken)
    }

    /// What could be acknowledged now, if anything.
    package var acknowledgement: UInt64? {
        let through = min(takenThrough, deliveredThrough)
        return through > sentThrough ? through : nil
    }

    /// The acknowledgement went out.
    package mutating func acknowledged(through: UInt64) {
        sentThrough = max(sentThrough, through)
        unsentCount = 0
    }

    private func hasSeen(_ streamID: UInt64) -> Bool {
        guard streamID > floor else { return true }
        let place = Self.place(of: streamID, in: recent)
        return place < recent.count && recent[place] == streamID
    }

    /// Index of the first element not below `value`. IDs rise, so it is nearly always the end.
    private static func place(of value: UInt64, in ascending: [UInt64]) -> Int {
        if let last = ascending.last, last < value { return ascending.count }
        var (low, high) = (0, ascending.count)
        while low < high {
            let middle = (low + high) / 2
            if ascending[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
