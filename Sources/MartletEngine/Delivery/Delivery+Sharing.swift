// SPDX-License-Identifier: Apache-2.0
//
// What many devices find in their mailboxes at once. Devices that come back together read the same
// messages of their project's log, in the same snapshot: a message's frame is then encoded for the first
// of these devices, and the next devices get a reference to the frame. Frames of consecutive messages are
// contiguous in the arena, so a session's part is one segment and one send.
//
// Only a plain reading is shared: no mailbox rule has a say in what the device is given, because nothing
// of it is collapsible or discarded, no more messages are stored than STO-1 allows, and all lanes are
// open. Any other reading is replayed by itself. Rests on MailboxReading and OutputQueues.

public import MartletBase
public import MartletRows

/// A message of a log, as the devices of one platform that read it in one snapshot share it.
public struct SharedMessage {
    public enum State: UInt8 {
        /// The record has not been looked at: the message is nobody's so far.
        case unread
        /// There is no such message for the platform.
        case absent
        /// The mailbox rules have a say: it is collapsible, or was discarded.
        case ruled
        /// Its body is gone: it counts as an entry and is given to nobody.
        case dropped
        case plain
    }

    public let sequence: MessageSequence
    public var state = State.unread
    public var isHigh = false
    public internal(set) var isEncoded = false
    public var expires = Instant(rawValue: .min)
    var frame = FrameReference(chunk: 0, offset: 0, length: 0)
    /// REP-1: sessions it was queued for that are not counted yet.
    var sentCount = 0

    public init(_ sequence: MessageSequence) { self.sequence = sequence }

    /// Of the frame.
    public var byteCount: Int { Int(frame.length) }
}

/// What a plain reading asks of the log.
public struct SharedReading {
    public let index: UInt32
    public let owner: MailboxOwner
    /// Messages behind this are looked at.
    public let after: MessageSequence
    /// Messages up to the mark of their lane are entries, and not to be given.
    public let marks: LaneMarks
    /// The highest stream ID that the connection has: a lower one would come late (TTL-4).
    public let highest: MessageSequence

    public init(
        index: UInt32, owner: MailboxOwner, after: MessageSequence, marks: LaneMarks,
        highest: MessageSequence
    ) {
        self.index = index
        self.owner = owner
        self.after = after
        self.marks = marks
        self.highest = highest
    }
}

extension Delivery {
    /// The reading as far as it can be shared; nil if the mailbox rules may have a say in it.
    public func shared(
        _ reading: borrowing MailboxReading, _ state: borrowing MailboxState
    ) -> SharedReading? {
        let index = reading.index
        let device = devices + Int(index)
        guard isReading(reading), reading.taken.isEmpty, reading.replay.isUntouched,
            device.pointee.closed.isEmpty
        else { return nil }
        // Delivered messages count for STO-1 alone, and no longer after the store's decision on the absence. A
        // shared reading looks at a bounded number of entries. If each began with the delivered messages, no
        // reading would come to the end of a mailbox in which they are more than that number.
        let isDecided = limits.storedPerInstanceMax == 0 || device.pointee.isStored
        let after =
            isDecided ? max(reading.after, reading.delivered.lowest) : reading.after
        var marks = reading.delivered
        marks.formMaximum(reading.acknowledged)
        marks.formMaximum(state.acknowledged)
        return SharedReading(
            index: index, owner: reading.owner, after: max(after, state.discardedThrough),
            marks: marks, highest: MessageSequence(sessions[Int(index)].highestDelivered))
    }

    /// Whether a plain reading that has found so many entries may be given what it found: the store has
    /// seen to what the absence discarded (STO-1), or it is too little for that.
    public func isCertain(_ reading: SharedReading, entries: Int, isWhole: Bool) -> Bool {
        let device = devices + Int(reading.index)
        guard limits.storedPerInstanceMax > 0 else { return true }
        return device.pointee.isStored || isWhole && entries <= limits.storedPerInstanceMax
    }

    /// Bytes that may be queued for a session before it has enough for now.
    public func room(_ index: UInt32) -> Int {
        OutputBounds.catchUpBytes - Int(sessions[Int(index)].queuedBytes)
    }

    /// The first `byteCount` bytes of what was reserved, a direct frame, are the message's for all who
    /// read it. They are kept until `endSharing`.
    public mutating func share(_ message: inout SharedMessage, byteCount: Int) {
        message.frame = output.arena.take(byteCount, .direct)
        message.isEncoded = true
        guard sharedChunks.last != message.frame.chunk else { return }
        output.arena.retain(message.frame.chunk)
        sharedChunks.append(message.frame.chunk)
    }

    /// Queues encoded messages for a session, in their order, as far as its queue takes them.
    /// - Returns: how many were queued.
    public mutating func give(
        _ selected: Slice<UnsafeBufferPointer<UInt32>>,
        of messages: UnsafeMutableBufferPointer<SharedMessage>, to index: UInt32
    ) -> Int {
        let session = sessions + Int(index)
        var at = selected.startIndex
        while at < selected.endIndex {
            // Contiguous frames are one segment.
            var run = messages[Int(selected.base[at])].frame
            var end = at + 1
            while end < selected.endIndex {
                let next = messages[Int(selected.base[end])].frame
                guard next.chunk == run.chunk, next.offset == run.offset &+ run.length else {
                    break
                }
                run.length &+= next.length
                end += 1
            }
            guard output.append(run, to: index) == .queued else { break }
            for place in at..<end { messages[Int(selected.base[place])].sentCount &+= 1 }
            at = end
        }
        let count = at - selected.startIndex
        guard count > 0 else { return 0 }
        let last = messages[Int(selected.base[at - 1])].sequence.rawValue
        moveOn(index, to: last)
        session.pointee.highestDelivered = last
        counters.delivered &+= UInt64(count)
        countInTurn(count, session, index)
        endSentTurn(of: session.pointee.project)
        return count
    }

    /// Everything that a plain reading found was queued, or is there no more.
    public mutating func caughtUp(
        _ reading: SharedReading, through: MessageSequence, isWhole: Bool
    ) {
        caughtUp(
            MailboxPlan(
                index: reading.index, owner: reading.owner, steps: [], overflow: nil,
                through: through, isWhole: isWhole))
    }

    /// The messages are shared no more: counts what of them was queued.
    public mutating func endSharing(
        _ messages: UnsafeMutableBufferPointer<SharedMessage>, of project: ProjectNumber
    ) {
        for at in messages.indices where messages[at].sentCount > 0 {
            count(messages[at].sequence, messages[at].sentCount, of: project)
            messages[at].sentCount = 0
        }
    }

    /// Frames that were encoded to be shared stay as long as somebody is still to be sent them.
    public mutating func releaseShared() {
        for chunk in sharedChunks { output.arena.release(chunk) }
        sharedChunks.removeAll(keepingCapacity: true)
    }
}
