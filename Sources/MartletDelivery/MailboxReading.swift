// SPDX-License-Identifier: Apache-2.0
//
// A reading of a session's mailbox, and the plan that comes of it. Both are values that travel between delivery and its
// caller, because the caller has the store. A reading goes through the instance's log entry by entry, a long one in several
// turns. The plan lists what to queue, in order. Rests on MailboxReplay.

package import MartletBase
import MartletEngine
package import MartletRows

/// A reading of a session's log, and its replay so far.
package struct MailboxReading: Sendable {
    /// Number of the session.
    package let index: UInt32
    /// Instance whose log is read.
    package let owner: MailboxOwner
    /// The ordinal's holder on whose connection the log is read.
    package let holder: Holder
    /// The caller goes on reading after this sequence.
    package internal(set) var after: MessageSequence
    let connectionNumber: UInt64
    let acknowledged: LaneMarks
    let delivered: LaneMarks
    /// Stream IDs that the device has named as taken.
    let taken: Set<UInt64>
    let awayFrom: MessageSequence
    /// The last discarded message that was known when the reading began (STO-1).
    let discardedThrough: UInt64
    var replay: MailboxReplay
    var addedCount = 0

    /// Adds the next entry of the log.
    package mutating func add(_ entry: LogEntry) {
        invariant(entry.sequence > after, "A log is read forward.")
        after = entry.sequence
        let lane = entry.lane
        if entry.content == .message(collapse: nil), entry.sequence <= delivered[lane],
            awayFrom.rawValue == .max
        {
            // It was delivered and isn't collapsible. Without an absence nothing is discarded, so it has no effect.
            return
        }
        var entry = entry
        if entry.sequence <= acknowledged[lane] || taken.contains(entry.sequence.rawValue) {
            entry.isAcknowledged = true
        }
        replay.add(entry)
        addedCount += 1
    }
}

/// What a session gets from its mailbox, in order.
package struct MailboxPlan: Sendable {
    /// An entry to deliver, or a notice of discarded messages.
    package enum Step: Sendable {
        case message(LogEntry)
        /// A notice that `count` messages were discarded, with its stream ID (STO-1).
        case deleted(through: MessageSequence, count: UInt64)
    }

    /// Number of the session.
    package let index: UInt32
    /// Instance whose log the plan is for.
    package let owner: MailboxOwner
    /// Messages and notices, in order of delivery.
    package let steps: [Step]
    /// The replay's overflow (STO-1, see `MailboxReplay`).
    let overflow: (count: UInt64, through: MessageSequence)?
    /// Everything up to here has been considered.
    let through: MessageSequence
    /// Whether the plan covers the log to the end of the snapshot.
    let isWhole: Bool
    /// The first message that each closed lane holds back.
    var heldFrom = LaneMarks(MessageSequence(.max))
    var heldLanes: LaneSet = []
    /// How many messages that aren't collapsible wait for the end of a doze.
    var heldCount = 0
    /// The last of them.
    var heldThrough = MessageSequence.none
}

/// The answer to a plan's message.
package enum MailboxOffer: Sendable {
    /// Queue it now.
    case open
    /// Its lane is closed, so the session gets it later.
    case held
    /// The session has enough queued, and reads on when its queue is empty.
    case full
}
