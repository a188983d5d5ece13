// SPDX-License-Identifier: Apache-2.0
//
// How a session's mailbox is read and what comes of that, as values that travel between delivery and
// its caller, who has the store: a reading takes the instance's log entry by entry, over several turns
// if it is long; the plan made of it says what to queue, in order. Rests on MailboxReplay.

public import MartletBase
public import MartletRows

/// A session's log on its way through the replay.
public struct MailboxReading: Sendable {
    public let index: UInt32
    public let owner: MailboxOwner
    public let holder: Holder
    /// The state in the store is to be read too, and told by `refresh`: it may have changed.
    public let isStale: Bool
    /// The log is to be read behind this.
    public internal(set) var after: MessageSequence
    let connectionNumber: UInt64
    let acknowledged: LaneMarks
    let delivered: LaneMarks
    /// What the device said it has taken.
    let taken: Set<UInt64>
    let awayFrom: MessageSequence
    /// STO-1: what was known to be discarded when the reading began.
    let discardedThrough: UInt64
    var replay: MailboxReplay
    var addedCount = 0

    public mutating func add(_ entry: LogEntry) {
        after = entry.sequence
        let lane = entry.lane
        if entry.content == .message(collapse: nil), entry.sequence <= delivered[lane],
            awayFrom.rawValue == .max
        {
            // It is not to be delivered, and nothing can be discarded: it matters for nothing.
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

/// What a session is to be given of its mailbox, in order.
public struct MailboxPlan: Sendable {
    public enum Step: Sendable {
        case message(LogEntry)
        /// STO-1: so many messages were discarded, the last of them this one.
        case deleted(through: MessageSequence, count: UInt64)
    }

    public let index: UInt32
    public let owner: MailboxOwner
    public let steps: [Step]
    /// STO-1: see `MailboxReplay`.
    let overflow: (count: UInt64, through: MessageSequence)?
    /// Everything up to here was considered.
    let through: MessageSequence
    /// That is everything there is.
    let isWhole: Bool
    /// Where a closed lane's first message is, that has to wait.
    var heldFrom = LaneMarks(MessageSequence(.max))
    var heldLanes: LaneSet = []
    /// Of those not collapsible that wait for the end of a doze: how many, and the last.
    var heldCount = 0
    var heldThrough = MessageSequence.none
}

/// Whether a message of a plan can be queued now.
public enum MailboxOffer: Sendable {
    case open
    /// Its lane is closed: the session gets it later.
    case held
    /// The session has enough for now: it reads its mailbox again when that has left.
    case full
}
