// SPDX-License-Identifier: Apache-2.0
//
// A connection as delivery sees it: owner, position and queue. A plain value in a table, found by the connection's number:
// one cache line with everything that a fanout looks at. What only one device's own events need is in DeviceSession. Rests
// on MartletBase.

import MartletBase
import MartletEngine

/// The fields of a connection that a fanout needs, in 64 bytes.
struct Session {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// The number is in the ring of sessions that have frames to send. Outlives the session.
        static let ready = Flags(rawValue: 1)
        /// A device's session: project and ordinal are set.
        static let device = Flags(rawValue: 2)
        /// The next messages come from the mailbox; live fanouts skip the session.
        static let behind = Flags(rawValue: 4)
        /// The number is in the `CatchUpQueue`. Outlives the session.
        static let catchingUp = Flags(rawValue: 8)
        /// The marks have risen, and the committer hasn't been told.
        static let acknowledged = Flags(rawValue: 16)
        /// Lanes have different positions, or some are closed. The positions are in `DeviceSession`.
        static let split = Flags(rawValue: 32)
        /// Is a device's session, or was until `detach`: the `DeviceSession` is set.
        static let known = Flags(rawValue: 64)
        /// The next send takes a CONFIRMED frame along.
        static let confirmable = Flags(rawValue: 128)
        /// Flags that belong to the number rather than to the session.
        static let rings: Flags = [.ready, .catchingUp]
        /// With one of these a fanout can't just queue its run.
        static let special: Flags = [.behind, .split]
    }

    var flags: Flags = []
    /// The instance's app number, or 255 for all numbers from 255 on.
    var app: UInt8 = 0
    var segmentCount: UInt16 = 0
    var project = ProjectNumber(0)
    var ordinal = Ordinal(0)
    var head: UInt32 = .nothing
    var tail: UInt32 = .nothing
    var queuedBytes: UInt32 = 0
    /// Bytes of the send in flight; 0 if there is none.
    var inFlightBytes: UInt32 = 0
    /// Fanouts in progress up to this arrival number have been here, or have skipped the session.
    var visitedThrough: UInt32 = 0
    /// Unless the session is split: every stored message up to here was queued for it, or is for others.
    var deliveredThrough: UInt64 = 0
    /// The highest stream ID that was queued on this connection.
    var highestDelivered: UInt64 = 0
    /// The project's last sequence when the device was attached. If a now-or-never message was accepted earlier, it may be
    /// for another holder of the ordinal.
    var attachedAt: UInt64 = 0
    /// When the throttle's bucket is full again, in milliseconds (COL-4).
    var throttleFull: Int64 = 0
}

/// A set of lanes.
struct LaneSet: OptionSet, Sendable {
    let rawValue: UInt8
    init(rawValue: UInt8) { self.rawValue = rawValue }
    init(_ lane: Lane) { rawValue = 1 << lane.rawValue }

    /// The lanes that a doze holds back (PRI-1).
    static let normal = LaneSet(rawValue: 0b0101)
    /// The lanes that the throttle holds back (COL-4).
    static let collapsible = LaneSet(rawValue: 0b1100)

    func contains(_ lane: Lane) -> Bool { contains(LaneSet(lane)) }
}

extension LaneMarks {
    /// Raises the marks of all lanes that aren't in the set.
    mutating func raise(allBut closed: LaneSet, to sequence: UInt64) {
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            guard !closed.contains(lane), self[lane].rawValue < sequence else { continue }
            self[lane] = MessageSequence(sequence)
        }
    }
}
