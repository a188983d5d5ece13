// SPDX-License-Identifier: Apache-2.0
//
// How far a device's connection is in its mailbox: marks in the order of the project's stream IDs. Each lane has two of them
// for itself, because a doze and the throttle hold lanes back:
//
//             acknowledged            delivered
//   the device     │  sent, or queued      │  to come, from the mailbox
//   has these      │  for the connection   │  or a fanout
//  ────────────────┼───────────────────────┼──────────────────────────────────────► stream IDs of a lane
//
// The others hold for all lanes. The store decides what an absence or a doze discards, up to `discardedThrough`:
//
//         awayFrom   discardedThrough  awayThrough       dozingFrom   askedThrough
//             │  gone        │  to come     │  connected      │  held back  │
//  ───────────┼──────────────┼──────────────┼─────────────────┼─────────────┼─────► stream IDs of the project
//
// The device is told once what is gone, by a notice that has a stream ID: untold, then told, then taken.
// Rests on MailboxState.

import MartletBase
import MartletEngine
import MartletRows

/// The marks of a device's connection.
struct DeviceMarks {
    /// Each lane's position, while the session is split: every stored message up to there was queued, is for others, or is
    /// gone.
    var delivered: LaneMarks
    var acknowledged: LaneMarks
    /// Where the absence before the connection began (see `MailboxState`). `.max` after the first catch-up, because a connected
    /// instance isn't absent.
    var awayFrom: UInt64 = .max
    /// Where it ended (see `MailboxState`). Unused after the first catch-up.
    var awayThrough: UInt64 = 0
    /// The last discarded message; 0 if there is none (STO-1). The mailbox has nothing before it, and a cumulative
    /// acknowledgement below it has no effect.
    var discardedThrough: UInt64 = 0
    var discardedCount: UInt64 = 0
    /// Stream ID of the discard notice, as `MailboxState` has it (OPS-7).
    var noticeStreamID: UInt64 = 0
    /// Stream ID of the last notice on this connection; 0 if there was none (STO-1).
    var toldThrough: UInt64 = 0
    /// What `notice` was when DELETED was last queued (STO-1). Differs from `toldThrough` if DELETED had the stream ID of a
    /// message that was discarded for inactivity (STO-2).
    var toldNotice: UInt64 = 0
    /// The highest stream ID on the connection before a late notice; 0 if it wasn't late (TTL-4). A cumulative acknowledgement
    /// up to here may be older than the notice, so it doesn't acknowledge it.
    var toldBehind: UInt64 = 0
    /// Stream ID of the last notice that the device has acknowledged on this connection.
    var noticeTakenThrough: UInt64 = 0
    /// The project's last message when the doze began (STO-1).
    var dozingFrom: UInt64 = 0
    /// The project's last message when the session asked the store what the doze discards (STO-1).
    var askedThrough: UInt64 = 0
    /// How many messages that aren't collapsible the doze holds back, including those that have expired (STO-1).
    var heldCount = 0

    /// The marks of a session with one mark for all lanes, and nothing discarded.
    init(even mark: UInt64) {
        delivered = LaneMarks(MessageSequence(mark))
        acknowledged = delivered
    }

    /// The marks at the beginning of a connection.
    init(_ state: MailboxState, position: MessageSequence) {
        delivered = state.acknowledged
        acknowledged = state.acknowledged
        awayFrom = state.awayFrom.rawValue
        awayThrough = min(state.awayThrough, position).rawValue
        takeDiscards(of: state)
    }

    /// Takes over what the store has discarded.
    mutating func takeDiscards(of state: MailboxState) {
        discardedThrough = state.discardedThrough.rawValue
        discardedCount = state.discardedCount
        noticeStreamID = state.noticeStreamID.rawValue
    }

    /// Stream ID of the discard notice; 0 without discards (STO-1).
    var notice: UInt64 { discardedCount > 0 ? max(discardedThrough, noticeStreamID) : 0 }
    /// This connection has told all notices up to here (STO-1).
    var toldLast: UInt64 { max(toldThrough, toldNotice) }
    /// Stream ID of the discard notice while it is undelivered, otherwise `.max` (STO-1). The lowest mark must stay below it,
    /// because a client drops notices up to the lowest mark.
    var untoldFrom: UInt64 { notice > toldLast ? notice : .max }
    /// The discards whose notice isn't acknowledged. If the notice covers later discards too (STO-2) it comes after messages,
    /// so marks may pass the discards first.
    var discarded: (count: UInt64, through: MessageSequence)? {
        guard notice > noticeTakenThrough else { return nil }
        return (discardedCount, MessageSequence(discardedThrough))
    }
    /// The first catch-up is over.
    var isSettled: Bool { awayFrom == .max }
    /// One mark says it all: the lanes are even, no notice is open, and the first catch-up is over.
    var isFoldable: Bool {
        let mark = acknowledged.lowest.rawValue
        return isSettled && acknowledged.isEven && mark >= discardedThrough && mark >= toldThrough
            && discarded == nil && noticeTakenThrough >= toldThrough
    }

    /// Where the next reading starts. It skips what is acknowledged, what lies before the last discard, and what was delivered
    /// in every lane and doesn't count towards the limit of stored messages (STO-1).
    func readAfter(_ delivered: LaneMarks) -> MessageSequence {
        MessageSequence(
            max(
                acknowledged.lowest.rawValue, min(delivered.lowest.rawValue, awayFrom),
                discardedThrough))
    }
}
