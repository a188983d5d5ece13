// SPDX-License-Identifier: Apache-2.0
//
// One connection as delivery sees it: whose it is, how far it is, what waits for it. A plain value in a
// table, addressed by the connection's number: one cache line, with everything that a fanout looks at.
// What matters when something happens to one device is in DeviceSession. Rests on MartletBase.

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
        /// A device's session, or was one until it was detached: its `DeviceSession` is set.
        static let known = Flags(rawValue: 64)
        /// A CONFIRMED frame goes with what it is sent next.
        static let confirmable = Flags(rawValue: 128)
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
