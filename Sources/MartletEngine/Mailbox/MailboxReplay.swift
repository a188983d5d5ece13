// SPDX-License-Identifier: Apache-2.0
//
// What a mailbox holds is computed when it is read, not kept: the rules of collapsing and storing are
// applied to the instance's log, entry by entry as they were accepted. So accepting a message for ten
// million instances costs nothing per instance, whatever rules there are, and a mailbox costs its own
// reader some nanoseconds per entry.
//
// The rules, in the order in which they apply when an entry is accepted:
//   - what has expired by then is stored no more (TTL-3);
//   - a collapsible message replaces the one with its key (COL-1); if as many other keys as are allowed
//     are stored, the least recently written goes (COL-3);
//   - a message that is not collapsible and was accepted while the instance was away, while as many such
//     wait for an acknowledgement as may be stored, discards everything stored, itself included (STO-1).
//     What was discarded because the instance was inactive (STO-2) is told with it; an overflow behind
//     that leaves only its own number.
// An acknowledgement of what an absence found stored comes on a later connection, whose beginning writes
// down what the absence discarded: so no acknowledgement changes the outcome for other messages. Only that
// of an entry that discarded something says more: the device knows of everything discarded up to there.
// Rests on the records.

public import MartletBase
public import MartletRows

/// Replays one instance's log. Give it the entries in order, then ask what is left.
public struct MailboxReplay: Sendable {
    private let limits: MailboxLimits
    private let absence: Absence
    /// What is stored, not collapsible and was accepted in the absence, in the order of the sequences.
    private var counted: [LogEntry] = []
    /// When those expire that STO-1 counts too: not collapsible, and carried into the absence. Those that
    /// had expired before the latest entry of the absence are left out.
    private var carried: [Instant] = []
    /// When those expire that are on their way: not collapsible, not acknowledged and not counted.
    private var underway: [Instant] = []
    /// The same, of what is not counted. It may be long, and what of it has expired changes nothing: it
    /// is left out when somebody asks.
    private var uncounted: [LogEntry] = []
    private let keepsUncounted: Bool
    /// What is stored and collapsible; the least recently written key first.
    private var collapsible: [LogEntry] = []
    /// When the first of what is counted or collapsible expires: most entries need not look for what has.
    private var nextExpiry: Instant?
    /// STO-1: the last entry that discarded everything before it, and how many were discarded by then.
    public private(set) var overflow: (count: UInt64, through: MessageSequence)?
    /// STO-2: those discarded since, and the last of them.
    private var inactive: (count: UInt64, through: MessageSequence) = (0, .none)
    /// Entries that were replaced, or pushed out, while they were stored; kept if asked for.
    public private(set) var replaced: Set<MessageSequence> = []
    /// STO-1: every entry that discarded everything before it, and when that was accepted; the same.
    private var overflows: [(through: MessageSequence, at: Instant)] = []
    private let keepsReplaced: Bool
    /// The last entry that was replaced, pushed out or discarded (STO-1) without having been acknowledged,
    /// or given to a connection, which `delivered` says.
    package private(set) var droppedThrough: MessageSequence = .none
    private let delivered: LaneMarks
    /// The last entry that was added, or up to which there was none.
    public private(set) var through: MessageSequence

    /// - Parameters:
    ///   - after: the entries begin behind this.
    ///   - discarded: what is known to be discarded (STO-1), and not acknowledged.
    public init(
        limits: MailboxLimits, after: MessageSequence, absence: Absence,
        discarded: (count: UInt64, through: MessageSequence)? = nil, keepsUncounted: Bool = true,
        keepsReplaced: Bool = false, delivered: LaneMarks = LaneMarks(.none)
    ) {
        self.keepsUncounted = keepsUncounted
        self.keepsReplaced = keepsReplaced
        self.delivered = delivered
        self.limits = limits
        self.absence = absence
        through = after
        overflow = discarded
    }

    /// Begins where the instance is: behind `state.logStart`, with what is known to be discarded.
    /// - Parameters:
    ///   - keepsUncounted: false where only `isStored` is asked: then it holds no more than STO-1 and
    ///     COL-3 let an instance have.
    ///   - keepsReplaced: what was replaced is asked.
    public init(
        limits: MailboxLimits, state: MailboxState, keepsUncounted: Bool = true,
        keepsReplaced: Bool = false
    ) {
        self.init(
            limits: limits, after: state.logStart, absence: state.absence,
            discarded: state.discardedCount > 0
                ? (state.discardedCount, state.discardedThrough) : nil,
            keepsUncounted: keepsUncounted, keepsReplaced: keepsReplaced)
    }

    /// How many messages were discarded (STO-1, STO-2) that the device does not know of.
    public var discardedCount: UInt64 { (overflow?.count ?? 0) + inactive.count }
    /// The last entry that discarded any of them.
    public var discardedThrough: MessageSequence {
        if inactive.count > 0 { return inactive.through }
        return discardedCount > 0 ? overflow!.through : .none
    }

    /// Nothing was added that is stored, and nothing is known to be discarded.
    package var isUntouched: Bool {
        counted.isEmpty && uncounted.isEmpty && collapsible.isEmpty && discardedCount == 0
            && droppedThrough == .none
    }

    /// Whether anything is stored that a later entry may replace.
    package var hasCollapsible: Bool { !collapsible.isEmpty }

    public mutating func add(_ entry: LogEntry) {
        precondition(entry.sequence > through, "A log is replayed in its order.")
        through = entry.sequence
        expire(entry.accepted)
        switch entry.content {
        case .discarded:
            inactive = (inactive.count + 1, entry.sequence)
            if entry.isAcknowledged { forgetDiscarded() }
        case .message(let key?): addCollapsible(entry, key)
        case .message(nil): addPlain(entry)
        }
    }

    /// What is stored at `now`, also what is acknowledged out of order, in no order.
    public mutating func stored(at now: Instant) -> [LogEntry] {
        expire(now)
        return uncounted.filter { $0.expires > now } + counted + collapsible
    }

    /// Whether an entry that was added is stored at `now`.
    public func isStored(_ entry: LogEntry, at now: Instant) -> Bool {
        guard entry.expires > now else { return false }
        switch entry.content {
        case .discarded: return true
        case .message(.some):
            return collapsible.contains { $0.sequence == entry.sequence }
        case .message(nil):
            guard isCounted(entry) else { return entry.sequence > overflow?.through ?? .none }
            return counted.contains { $0.sequence == entry.sequence }
        }
    }

    /// STO-1: whether there is so much that some absence may have discarded it.
    package var mayHaveDiscarded: Bool {
        limits.storedPerInstanceMax > 0
            && counted.count + uncounted.count > limits.storedPerInstanceMax
    }

    /// STO-1: whether an entry, which was not replaced, was discarded before its time was over.
    public func isDiscarded(_ entry: LogEntry) -> Bool {
        overflows.first { $0.through >= entry.sequence }.map { entry.expires > $0.at } ?? false
    }

    /// What is left to be delivered at `now`, in the order of the sequences.
    public mutating func left(at now: Instant) -> [LogEntry] {
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
                + collapsible.count { !$0.isAcknowledged } + 1
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
            nextExpiry = nil
            return
        }
        counted.append(entry)
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
        note(entry.expires)
    }

    private mutating func drop(_ entry: LogEntry) {
        if keepsReplaced { replaced.insert(entry.sequence) }
        guard !entry.isAcknowledged, entry.sequence > delivered[entry.lane] else { return }
        droppedThrough = max(droppedThrough, entry.sequence)
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

    /// The device knows.
    private mutating func forgetDiscarded() {
        overflow?.count = 0
        inactive.count = 0
    }
}
