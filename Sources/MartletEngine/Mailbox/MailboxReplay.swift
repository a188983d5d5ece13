// SPDX-License-Identifier: Apache-2.0
//
// A mailbox's contents aren't kept but worked out whenever it is read: the replay goes through the instance's log in order and
// applies the rules of collapsing and storing. So accepting a message costs nothing per instance, even with ten million
// recipients, and reading costs some nanoseconds per entry.
//
// The rules, in the order in which they apply to a new entry:
//   - What has expired is no longer stored (TTL-3).
//   - A collapsible message replaces the stored one with the same key (COL-1). If there are too many keys, the one with the
//     oldest message goes (COL-3).
//   - Plain messages, those that aren't collapsible, count if they were accepted during the absence (STO-1). If as many as
//     allowed already wait to be acknowledged, another one discards everything stored, itself included. The device is told how
//     many were discarded, including those discarded for inactivity (STO-2). If an overflow follows discards for inactivity,
//     only the overflow's number is told.
//   - An opaque message replaces the stored opaque one with the same topic (MSG-11). If there are as many as STO-1 allows, the
//     oldest opaque one of the absence goes, and the device isn't told.
//
// What an absence stored is acknowledged on a later connection. When that connection begins, the discards of the absence are
// written down, so an acknowledgement doesn't change what becomes of other messages. With one exception: a device that
// acknowledges an entry with discards knows of all discards up to there. Rests on the records.

package import MartletBase
package import MartletRows

/// Replays an instance's log. Add the entries in order, then ask what is left.
package struct MailboxReplay: Sendable {
    private let limits: BrokerLimits
    private let absence: Absence
    /// Stored plain messages accepted in the absence, in order.
    private var counted: [LogEntry] = []
    /// When plain messages expire that were carried into the absence and count too (STO-1). Without those that expired
    /// before the absence's latest entry.
    private var carried: [Instant] = []
    /// When messages in delivery expire: plain, unacknowledged, and outside the limit of stored messages (STO-1).
    private var underway: [Instant] = []
    /// Stored plain messages that don't count against the limit (STO-1), in order; perhaps many. Expired ones change no
    /// decision, so only `stored(at:)` leaves them out.
    private var uncounted: [LogEntry] = []
    private let keepsUncounted: Bool
    /// Stored collapsible messages, the oldest write first.
    private var collapsible: [LogEntry] = []
    /// Stored opaque messages, in order (MSG-11). Only `stored(at:)` leaves out expired ones.
    private var opaque: [LogEntry] = []
    /// Opaque messages that went for want of a place (MSG-11).
    package private(set) var pushedOut: Set<MessageSequence> = []
    /// The earliest expiry in `counted` and `collapsible`, so most entries need no search for expired messages.
    private var nextExpiry: Instant?
    /// The last entry that discarded everything before it, and how many messages were discarded until then (STO-1).
    package private(set) var overflow: (count: UInt64, through: MessageSequence)?
    /// Messages discarded for inactivity since the overflow: how many, and the last one (STO-2).
    private var inactive: (count: UInt64, through: MessageSequence) = (0, .none)
    /// Entries replaced or pushed out while stored; empty unless `keepsReplaced`.
    package private(set) var replaced: Set<MessageSequence> = []
    /// Each entry that discarded everything before it, and when it was accepted (STO-1); empty unless `keepsReplaced`.
    private var overflows: [(through: MessageSequence, at: Instant)] = []
    private let keepsReplaced: Bool
    /// The last dropped entry: replaced, pushed out, or discarded (STO-1). Replaced and pushed-out ones don't count if
    /// they are acknowledged, or up to `delivered`, because a connection has got them.
    package private(set) var droppedThrough: MessageSequence = .none
    private let delivered: LaneMarks
    /// The last added entry's sequence; before the first, `after`.
    package private(set) var through: MessageSequence

    /// - Parameters:
    ///   - after: the log's entries have higher sequences.
    ///   - discarded: unacknowledged discards known from the store (STO-1).
    ///   - keepsUncounted: false if only `isStored` is asked. The replay then holds no more entries than STO-1 and
    ///     COL-3 allow an instance.
    ///   - keepsReplaced: whether `replaced` and `isDiscarded` are asked.
    ///   - delivered: by lane, the last sequence given to a connection.
    package init(
        limits: BrokerLimits, after: MessageSequence, absence: Absence,
        discarded: (count: UInt64, through: MessageSequence)? = nil, keepsUncounted: Bool = true,
        keepsReplaced: Bool = false, delivered: LaneMarks = LaneMarks(.none)
    ) {
        self.keepsUncounted = keepsUncounted
        self.keepsReplaced = keepsReplaced
        self.delivered = delivered
        self.limits = limits
        self.absence = absence
        invariant(
            discarded.map { $0.through <= after } ?? true, "Known discards lie before the log.")
        through = after
        overflow = discarded
    }

    /// Begins at the start of an instance's log (`state.logStart`), with the discards known from the store.
    /// - Parameters:
    ///   - keepsUncounted: false if only `isStored` is asked. The replay then holds no more entries than STO-1 and
    ///     COL-3 allow an instance.
    ///   - keepsReplaced: whether `replaced` and `isDiscarded` are asked.
    package init(
        limits: BrokerLimits, state: MailboxState, keepsUncounted: Bool = true,
        keepsReplaced: Bool = false
    ) {
        self.init(
            limits: limits, after: state.logStart, absence: state.absence,
            discarded: state.discardedCount > 0
                ? (state.discardedCount, state.discardedThrough) : nil,
            keepsUncounted: keepsUncounted, keepsReplaced: keepsReplaced)
    }

    /// How many discarded messages the device doesn't know of (STO-1, STO-2).
    package var discardedCount: UInt64 { (overflow?.count ?? 0) + inactive.count }
    /// The last entry with discards that the device doesn't know of.
    package var discardedThrough: MessageSequence {
        if inactive.count > 0 { return inactive.through }
        return discardedCount > 0 ? overflow!.through : .none
    }

    /// Whether no added entry is stored or dropped, and no discards are known.
    package var isUntouched: Bool {
        counted.isEmpty && uncounted.isEmpty && collapsible.isEmpty && opaque.isEmpty
            && discardedCount == 0
            && droppedThrough == .none
    }

    /// Whether a later entry can replace a stored message.
    package var hasCollapsible: Bool {
        !collapsible.isEmpty || opaque.contains { $0.content != .opaque(topic: nil) }
    }

    /// Adds the next entry of the log. Sequences must rise.
    package mutating func add(_ entry: LogEntry) {
        invariant(entry.sequence > through, "A log is replayed in its order.")
        through = entry.sequence
        expire(entry.accepted)
        switch entry.content {
        case .discarded:
            inactive = (inactive.count + 1, entry.sequence)
            if entry.isAcknowledged { forgetDiscarded() }
        case .message(let key?): addCollapsible(entry, key)
        case .message(nil): addPlain(entry)
        case .opaque(let topic): addOpaque(entry, topic)
        }
    }

    /// Messages stored at `now`, in no order, including those acknowledged out of order.
    package mutating func stored(at now: Instant) -> [LogEntry] {
        expire(now)
        return uncounted.filter { $0.expires > now } + counted + collapsible
            + opaque.filter { $0.expires > now }
    }

    /// Whether an added entry is stored at `now`.
    package func isStored(_ entry: LogEntry, at now: Instant) -> Bool {
        guard entry.expires > now else { return false }
        switch entry.content {
        case .discarded: return true
        case .message(.some):
            return collapsible.contains { $0.sequence == entry.sequence }
        case .message(nil):
            guard isCounted(entry) else { return entry.sequence > overflow?.through ?? .none }
            return counted.contains { $0.sequence == entry.sequence }
        case .opaque: return place(ofOpaque: entry.sequence) != nil
        }
    }

    /// Whether an absence may have discarded messages, judging by the number of plain ones (STO-1).
    package var mayHaveDiscarded: Bool {
        limits.storedPerInstanceMax > 0
            && (counted.count + uncounted.count + opaque.count > limits.storedPerInstanceMax
                || !pushedOut.isEmpty)
    }

    /// Whether an entry was discarded before its expiry, if it was not replaced (STO-1). Needs `keepsReplaced`.
    package func isDiscarded(_ entry: LogEntry) -> Bool {
        overflows.first { $0.through >= entry.sequence }.map { entry.expires > $0.at } ?? false
    }

    /// Messages to deliver at `now`, in order.
    package mutating func left(at now: Instant) -> [LogEntry] {
        var left = stored(at: now).filter { !$0.isAcknowledged }
        left.sort { $0.sequence < $1.sequence }
        return left
    }

    private mutating func addPlain(_ entry: LogEntry) {
        guard isCounted(entry) else {
            if limits.storedPerInstanceMax > 0, entry.sequence <= absence.through,
                !entry.isAcknowledged
            {
                if absence.carries(entry) {
                    carried.append(entry.expires)
                } else {
                    underway.append(entry.expires)
                }
            }
            if keepsUncounted { uncounted.append(entry) }
            return
        }
        carried.removeAll { $0 <= entry.accepted }
        if carried.count + counted.count >= limits.storedPerInstanceMax {
            let count =
                carried.count + counted.count + underway.count { $0 > entry.accepted }
                + (collapsible + opaque).count { !$0.isAcknowledged } + 1
            overflow = ((overflow?.count ?? 0) + UInt64(count), entry.sequence)
            if keepsReplaced { overflows.append((entry.sequence, entry.accepted)) }
            droppedThrough = entry.sequence
            inactive.count = 0
            if entry.isAcknowledged { forgetDiscarded() }
            carried.removeAll()
            underway.removeAll()
            counted.removeAll()
            uncounted.removeAll()
            collapsible.removeAll()
            opaque.removeAll()
            nextExpiry = nil
            return
        }
        counted.append(entry)
        invariant(
            counted.count <= limits.storedPerInstanceMax,
            "STO-1: a mailbox counts no more messages than it may store.")
        note(entry.expires)
    }

    private mutating func addCollapsible(_ entry: LogEntry, _ key: CollapseDigest) {
        if let index = collapsible.firstIndex(where: { $0.content == .message(collapse: key) }) {
            drop(collapsible.remove(at: index))
        }
        if limits.collapseKeysPerInstanceMax > 0,
            collapsible.count >= limits.collapseKeysPerInstanceMax
        {
            drop(collapsible.removeFirst())
        }
        collapsible.append(entry)
        invariant(
            limits.collapseKeysPerInstanceMax <= 0
                || collapsible.count <= limits.collapseKeysPerInstanceMax,
            "COL-3: a mailbox stores no more collapsible messages than it may.")
        note(entry.expires)
    }

    private mutating func addOpaque(_ entry: LogEntry, _ topic: CollapseDigest?) {
        if let topic,
            let index = opaque.lastIndex(where: {
                $0.content == .opaque(topic: topic) && $0.expires > entry.accepted
            })
        {
            drop(opaque.remove(at: index))
        }
        if isCounted(entry) {
            let held = opaque.indices.filter {
                let other = opaque[$0]
                return other.expires > entry.accepted
                    && (absence.counts(other) || absence.carries(other))
            }
            if held.count >= limits.storedPerInstanceMax, let oldest = held.first {
                pushedOut.insert(opaque[oldest].sequence)
                drop(opaque.remove(at: oldest))
            }
        }
        opaque.append(entry)
    }

    private func place(ofOpaque sequence: MessageSequence) -> Int? {
        var (low, high) = (0, opaque.count)
        while low < high {
            let middle = (low + high) / 2
            if opaque[middle].sequence < sequence { low = middle + 1 } else { high = middle }
        }
        return low < opaque.count && opaque[low].sequence == sequence ? low : nil
    }

    private mutating func drop(_ entry: LogEntry) {
        if keepsReplaced { replaced.insert(entry.sequence) }
        guard !entry.isAcknowledged, entry.sequence > delivered[entry.lane] else { return }
        droppedThrough = max(droppedThrough, entry.sequence)
        invariant(droppedThrough <= through, "A replay drops entries that it has read.")
    }

    private mutating func note(_ expires: Instant) {
        nextExpiry = min(nextExpiry ?? expires, expires)
    }

    private mutating func expire(_ now: Instant) {
        guard let nextExpiry, nextExpiry <= now else { return }
        counted.removeAll { $0.expires <= now }
        collapsible.removeAll { $0.expires <= now }
        self.nextExpiry = (counted + collapsible).map(\.expires).min()
    }

    private func isCounted(_ entry: LogEntry) -> Bool {
        limits.storedPerInstanceMax > 0 && absence.counts(entry)
    }

    /// The device knows of all discards so far.
    private mutating func forgetDiscarded() {
        overflow?.count = 0
        inactive.count = 0
    }
}
