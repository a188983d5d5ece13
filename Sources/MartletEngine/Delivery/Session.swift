// SPDX-License-Identifier: Apache-2.0
//
// One connection as delivery sees it: whose it is, how far it is, what waits for it. Two plain values
// in slabs, addressed by the connection's number: one cache line for what every fanout looks at, and
// beside it what matters when something happens to one device. Rests on MartletBase.

import MartletBase

/// What a fanout needs to know of one connection. 64 bytes.
struct Session {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// Its number is in the ring of sessions with something to send. Outlives the session.
        static let ready = Flags(rawValue: 1)
        /// A device's session: project and ordinal are set.
        static let device = Flags(rawValue: 2)
        /// Has to read its next messages from its mailbox; live fanouts pass it by.
        static let behind = Flags(rawValue: 4)
        /// Its number is in a ring of sessions to catch up. Outlives the session.
        static let catchingUp = Flags(rawValue: 8)
        /// Acknowledged something that the committer has not been told of.
        static let acknowledged = Flags(rawValue: 16)
        /// Its lanes are not equally far, or some are closed: how far they are is in `DeviceSession`.
        static let split = Flags(rawValue: 32)
        /// What belongs to the number rather than to the session.
        static let rings: Flags = [.ready, .catchingUp]
        /// What a fanout can not simply queue for.
        static let special: Flags = [.behind, .split]
    }

    var flags: Flags = []
    /// The instance's app, or the highest number there is where that is higher.
    var app: UInt8 = 0
    var segmentCount: UInt16 = 0
    var project = ProjectNumber(0)
    var ordinal = Ordinal(0)
    var head: UInt32 = .nothing
    var tail: UInt32 = .nothing
    var queuedBytes: UInt32 = 0
    /// Bytes of the send in flight; 0: none is.
    var inFlightBytes: UInt32 = 0
    /// Every fanout in progress that arrived up to here was given to it, or has passed it by.
    var visitedThrough: UInt32 = 0
    /// Unless it is split: every stored message up to here was queued for it, or is none of its.
    var deliveredThrough: UInt64 = 0
    /// The highest stream ID queued on this connection.
    var highestDelivered: UInt64 = 0
    /// The project's last sequence when it was attached. Messages that are not stored and were
    /// accepted before may be meant for another holder of the ordinal.
    var attachedAt: UInt64 = 0
    /// COL-4: when the throttle's bucket is full again.
    var throttleFull: Int64 = 0
}

/// Lanes as a set.
struct LaneSet: OptionSet, Sendable {
    let rawValue: UInt8
    init(rawValue: UInt8) { self.rawValue = rawValue }
    init(_ lane: Lane) { rawValue = 1 << lane.rawValue }

    /// What a doze holds back (PRI-1).
    static let normal = LaneSet(rawValue: 0b0101)
    /// What the throttle holds back (COL-4).
    static let collapsible = LaneSet(rawValue: 0b1100)

    func contains(_ lane: Lane) -> Bool { contains(LaneSet(lane)) }
}

extension LaneMarks {
    /// Raises the marks of all lanes that are not in the set.
    mutating func raise(allBut closed: LaneSet, to sequence: UInt64) {
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            guard !closed.contains(lane), self[lane].rawValue < sequence else { continue }
            self[lane] = MessageSequence(sequence)
        }
    }
}

/// What else delivery knows of a device's connection. Set when it is attached.
struct DeviceSession {
    var owner: MailboxOwner
    var app: AppNumber
    var holder: Holder
    /// Rises with every connection of the broker: of two of one instance the higher stays (NET-4).
    var connectionNumber: UInt64
    /// While the session is split: in each lane every stored message up to here was queued for it, or
    /// is none of its, or is gone.
    var delivered: LaneMarks
    var acknowledged: LaneMarks
    /// The highest cumulative acknowledgement, or what was acknowledged before this connection.
    var acknowledgedThrough: UInt64
    /// See `MailboxState`; everything from the end of the first catch-up on: nothing is discarded then.
    var awayFrom: UInt64
    var awayThrough: UInt64
    /// STO-1: nothing is stored from before; nothing up to here is acknowledged alone. See
    /// `MailboxState`.
    var discardedThrough: UInt64
    var discardedCount: UInt64
    /// The last discarded message that the device was told of on this connection (STO-1).
    var toldThrough: UInt64 = 0
    /// Closed for a doze, for want of a token, or for both.
    var isDozing = false
    var isThrottled = false
    /// The store knows of this connection, and with it of everything that its predecessors left.
    var isStored = false
    /// Waits for that.
    var waitsForStore = false
    /// The state in the store is to be read with the log: what is there goes before what was known when
    /// the session was attached.
    var isStale = true
    /// An estimate of the messages acknowledged since the device was last told what is durable.
    var unconfirmedCount: UInt8 = 0
    var confirmedThrough: UInt64

    var closed: LaneSet {
        (isDozing ? .normal : LaneSet()).union(isThrottled ? .collapsible : LaneSet())
    }
    /// It has caught up on this connection once.
    var isSettled: Bool { awayFrom == .max }

    /// Behind this its mailbox is read. What every lane was delivered, and STO-1 does not count,
    /// matters for nothing that comes later; nothing at all is stored from before what was discarded
    /// last.
    func readAfter(_ delivered: LaneMarks) -> MessageSequence {
        MessageSequence(
            max(
                acknowledged.lowest.rawValue, min(delivered.lowest.rawValue, awayFrom),
                discardedThrough))
    }

    /// What is known to be discarded, unless the device has acknowledged that.
    var discarded: (count: UInt64, through: MessageSequence)? {
        guard discardedCount > 0, discardedThrough > acknowledged.lowest.rawValue else {
            return nil
        }
        return (discardedCount, MessageSequence(discardedThrough))
    }
}
