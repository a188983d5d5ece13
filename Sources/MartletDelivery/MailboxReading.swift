// SPDX-License-Identifier: Apache-2.0
//
// The reading of a session's mailbox and the result, as values that travel between delivery and its caller, because
// the caller has the store. A reading takes the instance's log entry by entry, over several turns for a long log. A
// plan, made from the reading, lists the messages to queue, in order. Rests on MailboxReplay.

package import MartletBase
import MartletEngine
package import MartletRows

/// A reading of a session's log, with the replay so far.
package struct MailboxReading: Sendable {
    /// Number of the session.
    package let index: UInt32
    /// Instance whose log is read.
    package let owner: MailboxOwner
    /// Holder of the ordinal on whose connection the log is read.
    package let holder: Holder
    /// The caller reads the log behind this sequence.
    package internal(set) var after: MessageSequence
    let connectionNumber: UInt64
    let acknowledged: LaneMarks
    let delivered: LaneMarks
    /// Stream IDs named by the device as taken.
    let taken: Set<UInt64>
    let awayFrom: MessageSequence
    /// STO-1: the last discarded message known at the beginning of the reading.
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
            // A delivered message that is not collapsible has no effect here, because without an absence there are
            // no discards.
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

/// The messages and notices for a session from its mailbox, in order.
package struct MailboxPlan: Sendable {
    /// An entry to deliver, or a notice of discarded messages.
    package enum Step: Sendable {
        case message(LogEntry)
        /// STO-1: a notice of `count` discarded messages, with the notice's stream ID.
        case deleted(through: MessageSequence, count: UInt64)
    }

    /// Number of the session.
    package let index: UInt32
    /// Instance whose log the plan is for.
    package let owner: MailboxOwner
    /// Messages and notices, in the order of delivery.
    package let steps: [Step]
    /// STO-1: the overflow of the replay (see `MailboxReplay`).
    let overflow: (count: UInt64, through: MessageSequence)?
    /// The sequence up to which all messages were considered.
    let through: MessageSequence
    /// Whether the plan covers the log to the end of the snapshot.
    let isWhole: Bool
    /// The first message held back in each closed lane.
    var heldFrom = LaneMarks(MessageSequence(.max))
    var heldLanes: LaneSet = []
    /// The number of messages that are not collapsible and wait for the end of a doze.
    var heldCount = 0
    /// The last message that is not collapsible and waits for the end of a doze.
    var heldThrough = MessageSequence.none
}

/// The answer to an offered message of a plan.
package enum MailboxOffer: Sendable {
    /// The message can be queued now.
    case open
    /// The message's lane is closed, so the session gets the message later.
    case held
    /// The session has enough bytes queued, and reads the mailbox again when the queue is empty.
    case full
}
