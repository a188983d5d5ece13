// SPDX-License-Identifier: Apache-2.0
//
// Mailbox messages read by many devices at once. Devices that come back together read the same messages of the
// project's log, in one snapshot. A message's frame is encoded for the first of these devices, and the next devices
// get a reference to the frame. Frames of consecutive messages are contiguous in the arena, so a session's part is
// one segment and one send.
//
// Only a plain reading is shared, in which the mailbox rules change nothing: no message is collapsible or discarded, no more
// messages are stored than an instance may have (STO-1), and all lanes are open. Any other reading is replayed by itself.
// Rests on MailboxReading and OutputQueues.

package import MartletBase
import MartletEngine
package import MartletRows

/// A message of a log, shared by the devices of one platform that read one snapshot.
package struct SharedMessage {
    /// Result of the look at the message's record.
    package enum State: UInt8 {
        /// The record has not been read, because no reader so far is a recipient.
        case unread
        /// The message does not exist for the platform.
        case absent
        /// The mailbox rules apply, because the message is collapsible or was discarded.
        case ruled
        /// The body is gone. The message counts as an entry and is not delivered.
        case dropped
        /// The message can be delivered.
        case plain
    }

    /// Position in the project's order of messages.
    package let sequence: MessageSequence
    /// Result of the look at the message's record so far.
    package var state = State.unread
    /// Whether the priority of the variant is high. Set once the record is read.
    package var isHigh = false
    /// Whether the frame of the message is in the arena.
    package internal(set) var isEncoded = false
    /// End of the variant's time to live. Set once the record is read.
    package var expires = Instant(rawValue: .min)
    var frame = FrameReference(chunk: 0, offset: 0, length: 0)
    /// REP-1: sessions for which the message was queued since the last count.
    var sentCount = 0

    /// Makes a message of which the record has not been read.
    package init(_ sequence: MessageSequence) { self.sequence = sequence }

    /// The length of the frame, in bytes.
    package var byteCount: Int { Int(frame.length) }
}

/// The part of a log that a plain reading needs.
package struct SharedReading {
    /// Number of the session.
    package let index: UInt32
    /// Instance whose log is read.
    package let owner: MailboxOwner
    /// The reading looks at messages above this sequence.
    package let after: MessageSequence
    /// Messages up to the mark of their lane count as entries, and are not delivered.
    package let marks: LaneMarks
    /// The highest stream ID on the connection. A lower stream ID would come late (TTL-4).
    package let highest: MessageSequence

    package init(
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
    /// The reading in a shareable form; nil if the mailbox rules may change the result.
    package func shared(
        _ reading: borrowing MailboxReading, _ state: borrowing MailboxState
    ) -> SharedReading? {
        let index = reading.index
        let device = devices + Int(index)
        guard isReading(reading), reading.taken.isEmpty, reading.replay.isUntouched,
            device.pointee.closed.isEmpty
        else { return nil }
        // Delivered messages matter only to the limit of stored messages (STO-1), and only until the store has decided what
        // the absence discarded. A shared reading looks at a bounded number of entries. If each reading began with the
        // delivered messages, a mailbox with more delivered messages than the bound would never be read to its end.
        let isDecided = limits.storedPerInstanceMax == 0 || device.pointee.isDecided
        let after =
            isDecided ? max(reading.after, reading.delivered.lowest) : reading.after
        var marks = reading.delivered
        marks.formMaximum(reading.acknowledged)
        marks.formMaximum(state.acknowledged)
        return SharedReading(
            index: index, owner: reading.owner, after: max(after, state.discardedThrough),
            marks: marks, highest: MessageSequence(sessions[Int(index)].highestDelivered))
    }

    /// Whether the entries of a plain reading may be delivered. It may if the discards of the absence are known, or if a whole
    /// reading has found no more entries than an instance may store (STO-1).
    package func isCertain(_ reading: SharedReading, entries: Int, isWhole: Bool) -> Bool {
        let device = devices + Int(reading.index)
        guard limits.storedPerInstanceMax > 0 else { return true }
        return device.pointee.isDecided || isWhole && entries <= limits.storedPerInstanceMax
    }

    /// Bytes that may still be queued for a session in a step of catching up.
    package func room(_ index: UInt32) -> Int {
        OutputBounds.catchUpBytes - Int(sessions[Int(index)].queuedBytes)
    }

    /// Turns the first `byteCount` bytes of the room, reserved for a direct frame, into the message's frame for all
    /// readers. The frame stays until `releaseShared`.
    package mutating func share(_ message: inout SharedMessage, byteCount: Int) {
        invariant(!message.isEncoded, "A shared frame is written once.")
        message.frame = output.arena.take(byteCount, .direct)
        message.isEncoded = true
        guard sharedChunks.last != message.frame.chunk else { return }
        output.arena.retain(message.frame.chunk)
        sharedChunks.append(message.frame.chunk)
    }

    /// Queues encoded messages for a session, in order, as far as the queue has room.
    /// - Parameter selected: places in `messages`.
    /// - Returns: the number of queued messages.
    package mutating func give(
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
        invariant(
            last > session.pointee.highestDelivered,
            "A shared reading gives messages in the order of their sequences.")
        moveOn(index, to: last)
        session.pointee.highestDelivered = last
        counters.delivered &+= UInt64(count)
        countInTurn(count, session, index)
        endSentTurn(of: session.pointee.project)
        return count
    }

    /// Ends a plain reading: each message found was queued or does not exist any more.
    package mutating func caughtUp(
        _ reading: SharedReading, through: MessageSequence, isWhole: Bool
    ) {
        caughtUp(
            MailboxPlan(
                index: reading.index, owner: reading.owner, steps: [], overflow: nil,
                through: through, isWhole: isWhole))
    }

    /// REP-1: ends the sharing of messages, and counts the sessions that each message was queued for.
    package mutating func endSharing(
        _ messages: UnsafeMutableBufferPointer<SharedMessage>, of project: ProjectNumber
    ) {
        for at in messages.indices where messages[at].sentCount > 0 {
            count(messages[at].sequence, messages[at].sentCount, of: project)
            messages[at].sentCount = 0
        }
    }

    /// Releases the shared frames of the present turn. The arena keeps a frame as long as a session has to be sent
    /// a part of it.
    package mutating func releaseShared() {
        for chunk in sharedChunks { output.arena.release(chunk) }
        sharedChunks.removeAll(keepingCapacity: true)
    }
}
