// SPDX-License-Identifier: Apache-2.0
//
// A fanout in progress on a loop: its messages, their frames, its walk and its counts. Rests on FrameArena.

import MartletBase
package import MartletEngine
import MartletRows

/// A fanout in progress on a loop: one message, or several in a row with the same recipients. Their frames lie next to each
/// other, so each recipient is looked at once and gets one run of bytes.
struct FanoutWork {
    struct Part {
        var sequence: MessageSequence
        var lane: Lane
        var frameBytes: UInt32
        var expires: Instant
        var isExpired = false
        /// Sessions that the message was queued for on its own, outside a run.
        var sentAlone = 0
    }

    /// The first message's fanout. All messages have the same recipients and position.
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
    /// Stored collapsible messages: each takes a token of the throttle (COL-4).
    private(set) var tokenCount: Int64
    /// Each message by itself; empty while there is only one.
    private(set) var parts: [Part] = []
    /// Whether one of several messages has expired.
    private(set) var hasExpired = false
    /// When the next message expires.
    private var nextExpiry: Instant
    /// Each fanout of the project on this loop has a higher one.
    var arrival: UInt32
    /// No session has been visited for it yet, so more messages may join.
    var isUntouched = true
    /// The walk's block, an index in the recipients' directory; `nextStep` is the step in that block.
    var nextBlock = 0
    var nextStep: UInt32 = 0
    /// Messages queued.
    private var sentCount = 0
    /// Deliveries that the messages' progress doesn't show yet.
    private var untoldDeliveries = 0
    private var toldBlocks = 0
    /// Progress of the messages after the first.
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

    /// Cancels a message: it goes to no more sessions (MSG-10).
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

    /// Marks messages that have expired by `now`. A now-or-never one doesn't expire on its way.
    /// - Returns: whether all messages have expired.
    mutating func dropExpired(_ now: Instant) -> Bool {
        guard last.isStored, nextExpiry <= now else { return false }
        // Anything that joined now would miss the sessions that we have skipped because of this.
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

    /// Notes that the message at a place was queued on its own, for 0 or 1 sessions.
    mutating func noteEach(_ count: Int, _ place: Int) {
        invariant(count == 0 || count == 1, "A session gets a message once.")
        if count > 0 { parts[place].sentAlone += count }
    }

    /// Calls `body` with each message and how many sessions it was queued for.
    func forEachSent(_ body: (MessageSequence, Int) -> Void) {
        guard !parts.isEmpty else { return body(first, sentCount) }
        let inRuns = sentCount - parts.reduce(0) { $0 + $1.sentAlone }
        invariant(
            inRuns >= 0 && inRuns % parts.count == 0, "A run has each message of a work once.")
        let together = inRuns / parts.count
        for part in parts { body(part.sequence, together + part.sentAlone) }
    }

    // MARK: Progress (FAN-8)

    /// Adds what was walked and delivered since the last call to the messages' progress. Each message gets an equal part of the
    /// deliveries.
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

    /// Adds a message, if it can be delivered together with the others.
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
    /// The earliest instant there is: when a cancelled message expires.
    fileprivate static let longPast = Instant(rawValue: .min)
}

extension Recipients {
    /// Whether we can tell without looking at the members that the recipients are the same.
    fileprivate func isSame(as other: Recipients) -> Bool {
        switch (self, other) {
        case (.one(let mine), .one(let other)): mine == other
        case (.many(let mine), .many(let other)): mine === other
        default: false
        }
    }
}

extension Fanout {
    /// What kind of frame the fanout needs: a message for one instance has its own.
    package var frameKind: FrameKind {
        if case .one = recipients { .direct } else { .shared }
    }
}
