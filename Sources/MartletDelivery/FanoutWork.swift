// SPDX-License-Identifier: Apache-2.0
//
// The work of a fanout in progress on a loop: messages, frame, walk and counts. Rests on FrameArena.

import MartletBase
package import MartletEngine
import MartletRows

/// A fanout in progress on a loop: a message, or several consecutive messages with the same recipients. The frames
/// of several messages are contiguous, so each recipient is looked at once and gets one run of bytes.
struct FanoutWork {
    struct Part {
        var sequence: MessageSequence
        var lane: Lane
        var frameBytes: UInt32
        var expires: Instant
        var isExpired = false
        /// Sessions for which the message was queued by itself, outside a run.
        var sentAlone = 0
    }

    /// The fanout of the first message. Recipients and position are equal for all messages.
    let fanout: Fanout
    /// The frames of all messages.
    private(set) var frame: FrameReference
    /// The sequence of the first message.
    let first: MessageSequence
    /// The sequence of the last message.
    private(set) var last: MessageSequence
    let position: MessageSequence
    /// The lane of the first message.
    let lane: Lane
    /// The number of stored collapsible messages: each takes a token of the throttle (COL-4).
    private(set) var tokenCount: Int64
    /// Each message by itself; empty while the work has only one message.
    private(set) var parts: [Part] = []
    /// Whether one of several messages has expired.
    private(set) var hasExpired = false
    /// The earliest expiry among the messages that have not expired.
    private var nextExpiry: Instant
    /// The arrival number, which rises with each fanout of the project on the loop.
    var arrival: UInt32
    /// No session counts as visited for the work yet, so further messages may join.
    var isUntouched = true
    /// The walk's block, as an index in the recipients' directory, and the step inside the block (`nextStep`).
    var nextBlock = 0
    var nextStep: UInt32 = 0
    /// Messages queued for sessions.
    private var sentCount = 0
    /// Deliveries not yet told to the progress of the messages.
    private var untoldDeliveries = 0
    private var toldBlocks = 0
    /// The progress of the messages behind the first.
    private var joinedProgress: [FanoutProgress] = []

    /// The longest run, in bytes: an eighth of a session's queue, so that a run seldom lacks room.
    static let frameBytesMax: UInt32 = 64 * 1024

    init(fanout: Fanout, frame: FrameReference, arrival: UInt32) {
        self.arrival = arrival
        self.fanout = fanout
        self.frame = frame
        first = fanout.header.sequence
        last = first
        position = fanout.position
        lane = fanout.header.lane
        tokenCount = lane.isCollapsible && first.isStored ? 1 : 0
        nextExpiry = fanout.header.expires
    }

    /// MSG-10: cancels a message, which then goes to no further session.
    mutating func cancel(_ sequence: MessageSequence) {
        if parts.isEmpty {
            if last == sequence { nextExpiry = .longPast }
            return
        }
        for index in parts.indices where parts[index].sequence == sequence {
            parts[index].expires = .longPast
            nextExpiry = .longPast
        }
    }

    /// Marks messages with an expiry up to `now`. A message that is not stored does not expire on its way.
    /// - Returns: whether all messages have expired.
    mutating func dropExpired(_ now: Instant) -> Bool {
        guard last.isStored, nextExpiry <= now else { return false }
        // A message that joined now would miss the sessions that were skipped because of the expiry.
        isUntouched = false
        guard !parts.isEmpty else { return true }
        hasExpired = true
        var left: Instant?
        for index in parts.indices {
            if parts[index].expires <= now {
                parts[index].isExpired = true
            } else {
                left = min(left ?? parts[index].expires, parts[index].expires)
            }
        }
        guard let left else { return true }
        nextExpiry = left
        return false
    }

    var messageCount: Int { max(parts.count, 1) }

    // MARK: Sent counts (REP-1)

    mutating func note(_ count: Int) {
        invariant(count >= 0, "A turn queues no fewer than no messages.")
        sentCount += count
        untoldDeliveries += count
    }

    /// Notes for how many sessions, 0 or 1, the message at a place was queued by itself.
    mutating func noteEach(_ count: Int, _ place: Int) {
        invariant(count == 0 || count == 1, "A session gets a message once.")
        if count > 0 { parts[place].sentAlone += count }
    }

    /// Calls `body` with each message and the number of sessions that the message was queued for.
    func forEachSent(_ body: (MessageSequence, Int) -> Void) {
        guard !parts.isEmpty else { return body(first, sentCount) }
        let inRuns = sentCount - parts.reduce(0) { $0 + $1.sentAlone }
        invariant(
            inRuns >= 0 && inRuns % parts.count == 0, "A run has each message of a work once.")
        let together = inRuns / parts.count
        for part in parts { body(part.sequence, together + part.sentAlone) }
    }

    // MARK: Progress (FAN-8)

    /// Adds the walked blocks and the deliveries since the last call to the progress of the messages. Each message
    /// counts an equal part of the deliveries.
    mutating func tellProgress() {
        let blocks = nextBlock - toldBlocks
        invariant(blocks >= 0 && untoldDeliveries >= 0, "A walk goes forward.")
        let share = untoldDeliveries / messageCount
        guard blocks > 0 || share > 0 else { return }
        toldBlocks = nextBlock
        untoldDeliveries -= share * messageCount
        fanout.progress?.add(delivered: share, blocks: blocks)
        for progress in joinedProgress { progress.add(delivered: share, blocks: blocks) }
    }

    /// Ends the work on the loop.
    mutating func end(_ now: Instant) {
        tellProgress()
        fanout.progress?.add(delivered: untoldDeliveries, blocks: 0)
        fanout.progress?.endPart(at: now)
        for progress in joinedProgress { progress.endPart(at: now) }
    }

    // MARK: Several messages

    /// Adds a message if the message can be delivered together with the messages of the work.
    mutating func join(_ next: Fanout, _ nextFrame: FrameReference) -> Bool {
        guard isUntouched, next.recipients.isSame(as: fanout.recipients),
            frame.chunk == nextFrame.chunk, frame.offset &+ frame.length == nextFrame.offset,
            frame.length &+ nextFrame.length <= Self.frameBytesMax
        else { return false }
        let sequence = next.header.sequence
        if last.isStored {
            guard sequence.isStored, sequence > last else { return false }
        } else {
            guard !sequence.isStored, next.position == position else { return false }
        }
        if parts.isEmpty {
            parts.append(
                Part(
                    sequence: last, lane: lane, frameBytes: frame.length, expires: nextExpiry))
        }
        let lane = next.header.lane
        parts.append(
            Part(
                sequence: sequence, lane: lane, frameBytes: nextFrame.length,
                expires: next.header.expires))
        if lane.isCollapsible, sequence.isStored { tokenCount += 1 }
        if let progress = next.progress { joinedProgress.append(progress) }
        nextExpiry = min(nextExpiry, next.header.expires)
        frame.length &+= nextFrame.length
        assert(
            parts.reduce(0) { $0 + $1.frameBytes } == frame.length,
            "The frame of a work has the frames of its messages.")
        last = sequence
        return true
    }
}

extension Instant {
    /// The earliest instant: the expiry of a cancelled message.
    fileprivate static let longPast = Instant(rawValue: .min)
}

extension Recipients {
    /// Whether two values are known to have equal recipients without a look at the members.
    fileprivate func isSame(as other: Recipients) -> Bool {
        switch (self, other) {
        case (.one(let mine), .one(let other)): mine == other
        case (.many(let mine), .many(let other)): mine === other
        default: false
        }
    }
}

extension Fanout {
    /// The kind of the fanout's frame: a message to one instance has a frame of its own.
    package var frameKind: FrameKind {
        if case .one = recipients { .direct } else { .shared }
    }
}
