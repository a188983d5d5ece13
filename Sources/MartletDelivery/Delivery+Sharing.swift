// SPDX-License-Identifier: Apache-2.0
//
// Lets many devices read their mailboxes together. Devices that come back at the same time read the same messages of the
// project's log, in one snapshot. We encode a message for the first of them and hand the others a reference. Frames of
// consecutive messages lie next to each other in the arena, so each session's part is one segment and one send.
//
// Only plain readings are shared, those in which the mailbox rules change nothing: nothing is collapsible or discarded, no
// more is stored than an instance may have (STO-1), and all lanes are open. Any other reading is replayed on its own.
// Rests on MailboxReading and OutputQueues.

package import MartletBase
import MartletEngine
package import MartletRows

/// A message of a log, shared by the devices of one platform that read one snapshot.
package struct SharedMessage {
    /// What we know of the message's record.
    package enum State: UInt8 {
        /// Not read yet: no reader so far is a recipient.
        case unread
        /// There is no such message for this platform.
        case absent
        /// It is collapsible or was discarded, so the mailbox rules apply.
        case ruled
        /// Its body is gone: it counts as an entry and isn't delivered.
        case dropped
        /// It can be delivered.
        case plain
    }

    /// Position in the project's order of messages.
    package let sequence: MessageSequence
    /// What we know of its record so far.
    package var state = State.unread
    /// Whether the priority of the variant is high. Set once the record is read.
    package var isHigh = false
    /// Whether its frame is in the arena.
    package internal(set) var isEncoded = false
    /// End of the variant's time to live. Set once the record is read.
    package var expires = Instant(rawValue: .min)
    var frame = FrameReference(chunk: 0, offset: 0, length: 0)
    /// Sessions that it was queued for since the last count (REP-1).
    var sentCount = 0

    /// A message whose record hasn't been read yet.
    package init(_ sequence: MessageSequence) { self.sequence = sequence }

    /// The length of the frame, in bytes.
    package var byteCount: Int { Int(frame.length) }
}

/// The part of a log that a plain reading needs.
package struct SharedReading {
    /// Number of the session.
    package let index: UInt32
    /// The instance whose log is read.
    package let owner: MailboxOwner
    /// Only messages after this one are looked at.
    package let after: MessageSequence
    /// Messages up to their lane's mark count as entries, but aren't delivered.
    package let marks: LaneMarks
    /// The highest stream ID so far on the connection. A lower one would come late (TTL-4).
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
        // Delivered messages matter only for the limit of stored messages (STO-1), and only until the store has decided what
        // the absence discarded. After that we must skip them: a shared reading looks at a bounded number of entries, so with
        // more delivered ones than that it would never reach the end.
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

    /// Whether a plain reading's entries may be delivered: either the absence's discards are known, or the whole log has no
    /// more entries than an instance may store (STO-1).
    package func isCertain(_ reading: SharedReading, entries: Int, isWhole: Bool) -> Bool {
        let device = devices + Int(reading.index)
        guard limits.storedPerInstanceMax > 0 else { return true }
        return device.pointee.isDecided || isWhole && entries <= limits.storedPerInstanceMax
    }

    /// How many more bytes a session may get in this step of catching up.
    package func room(_ index: UInt32) -> Int {
        OutputBounds.catchUpBytes - Int(sessions[Int(index)].queuedBytes)
    }

    /// Makes the first `byteCount` bytes of the room that was reserved for a direct frame the message's frame for all readers.
    /// It stays until `releaseShared`.
    package mutating func share(_ message: inout SharedMessage, byteCount: Int) {
        invariant(!message.isEncoded, "A shared frame is written once.")
        message.frame = output.arena.take(byteCount, .direct)
        message.isEncoded = true
        guard sharedChunks.last != message.frame.chunk else { return }
        output.arena.retain(message.frame.chunk)
        sharedChunks.append(message.frame.chunk)
    }

    /// Queues encoded messages for a session, in order, while there is room.
    /// - Parameter selected: places in `messages`.
    /// - Returns: the number of queued messages.
    package mutating func give(
        _ selected: Slice<UnsafeBufferPointer<UInt32>>,
        of messages: UnsafeMutableBufferPointer<SharedMessage>, to index: UInt32
    ) -> Int {
        let session = sessions + Int(index)
        var at = selected.startIndex
        while at < selected.endIndex {
            // Frames next to each other are one segment.
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

    /// Ends a plain reading: each message was queued, or is gone.
    package mutating func caughtUp(
        _ reading: SharedReading, through: MessageSequence, isWhole: Bool
    ) {
        caughtUp(
            MailboxPlan(
                index: reading.index, owner: reading.owner, steps: [], overflow: nil,
                through: through, isWhole: isWhole))
    }

    /// Ends the sharing, and counts the sessions that each message was queued for (REP-1).
    package mutating func endSharing(
        _ messages: UnsafeMutableBufferPointer<SharedMessage>, of project: ProjectNumber
    ) {
        for at in messages.indices where messages[at].sentCount > 0 {
            count(messages[at].sequence, messages[at].sentCount, of: project)
            messages[at].sentCount = 0
        }
    }

    /// Releases this turn's shared frames. The arena keeps each one until every session has been sent its part.
    package mutating func releaseShared() {
        for chunk in sharedChunks { output.arena.release(chunk) }
        sharedChunks.removeAll(keepingCapacity: true)
    }
}
