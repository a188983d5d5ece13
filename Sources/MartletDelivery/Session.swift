// SPDX-License-Identifier: Apache-2.0
//
// A connection as delivery sees it: owner, position and queue. A session is a plain value in a table, addressed by
// the connection's number: one cache line with all fields that a fanout looks at. Fields for the events of one
// device are in DeviceSession. Rests on MartletBase.

import MartletBase
import MartletEngine

/// The fields of a connection that a fanout needs, in 64 bytes.
struct Session {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// The session's number is in the ring of sessions with frames to send. The flag outlives the session.
        static let ready = Flags(rawValue: 1)
        /// The session is a device's: project and ordinal are set.
        static let device = Flags(rawValue: 2)
        /// The session reads its next messages from the mailbox, and live fanouts skip the session.
        static let behind = Flags(rawValue: 4)
        /// The session's number is in the `CatchUpQueue`. The flag outlives the session.
        static let catchingUp = Flags(rawValue: 8)
        /// The session's marks have risen and are not yet taken for the committer.
        static let acknowledged = Flags(rawValue: 16)
        /// The lanes have different positions, or some lanes are closed. The positions are in `DeviceSession`.
        static let split = Flags(rawValue: 32)
        /// The session is a device's, or was a device's until `detach`: the `DeviceSession` is set.
        static let known = Flags(rawValue: 64)
        /// A CONFIRMED frame goes with the session's next send.
        static let confirmable = Flags(rawValue: 128)
        /// Flags that belong to the number rather than to the session.
        static let rings: Flags = [.ready, .catchingUp]
        /// Flags of a session for which a fanout cannot simply queue its run.
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
    /// Bytes of the send in flight; 0: no send is in flight.
    var inFlightBytes: UInt32 = 0
    /// Each fanout in progress up to this arrival number was given to the session, or has skipped the session.
    var visitedThrough: UInt32 = 0
    /// Unless the session is split: each stored message up to this sequence was queued for the session, or is for
    /// other instances.
    var deliveredThrough: UInt64 = 0
    /// The highest stream ID queued on this connection.
    var highestDelivered: UInt64 = 0
    /// The project's last sequence when the device was attached. A message that is not stored and was accepted
    /// before may be meant for another holder of the ordinal.
    var attachedAt: UInt64 = 0
    /// COL-4: the instant at which the throttle's bucket is full again, in milliseconds.
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
    /// Raises the marks of all lanes outside the set.
    mutating func raise(allBut closed: LaneSet, to sequence: UInt64) {
        for number in 0..<UInt8(Lane.count) {
            let lane = Lane(rawValue: number)
            guard !closed.contains(lane), self[lane].rawValue < sequence else { continue }
            self[lane] = MessageSequence(sequence)
        }
    }
}
