// SPDX-License-Identifier: Apache-2.0
//
// One connection as delivery sees it: whose it is, how far it is, what waits for it. A plain value
// in a slab, addressed by the connection's number, so that reaching it is one indexed load.
// Rests on MartletBase.

import MartletBase

/// What delivery knows of one connection. 72 bytes.
struct Session {
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// Its number is in the ring of sessions with something to send. Outlives the session.
        static let ready = Flags(rawValue: 1)
        /// A device's session: project and ordinal are set.
        static let device = Flags(rawValue: 2)
        /// Has to read its next messages from its mailbox; live fanouts pass it by.
        static let behind = Flags(rawValue: 4)
        /// Its number is in the ring of sessions to catch up. Outlives the session.
        static let catchingUp = Flags(rawValue: 8)
        /// Acknowledged something that the committer has not been told of.
        static let acknowledged = Flags(rawValue: 16)
        /// What belongs to the number rather than to the session.
        static let rings: Flags = [.ready, .catchingUp]
    }

    var flags: Flags = []
    var project = ProjectNumber(0)
    var ordinal = Ordinal(0)
    /// Every stored message up to here was queued for it, or is none of its.
    var deliveredThrough: UInt64 = 0
    /// The highest stream ID queued on this connection or acknowledged before it.
    var highestDelivered: UInt64 = 0
    var acknowledgedThrough: UInt64 = 0
    /// Rises with every connection of the broker: of two of one instance the higher stays (NET-4).
    var connectionNumber: UInt64 = 0
    var head: UInt32 = .nothing
    var tail: UInt32 = .nothing
    var queuedBytes: UInt32 = 0
    /// Bytes of the send in flight; 0: none is.
    var inFlightBytes: UInt32 = 0
    var segmentCount = 0
}
