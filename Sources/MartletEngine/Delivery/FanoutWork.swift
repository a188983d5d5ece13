// SPDX-License-Identifier: Apache-2.0
//
// A fanout in progress on one loop. Rests on FrameArena.

import MartletBase
import MartletRows

/// A fanout in progress on one loop: of one message, or of several that follow each other and have
/// the same recipients. Their frames lie behind each other, so each recipient gets one run of bytes
/// and is looked at once, however many messages there are.
struct FanoutWork {
    struct Part {
        var sequence: MessageSequence
        var lane: Lane
        var frameBytes: UInt32
        var expires: Instant
        var isExpired = false
        /// Sessions that it was queued for by itself.
        var sentAlone = 0
    }

    /// Of the first message; recipients and position are those of all.
    let fanout: Fanout
    /// The frames of all messages.
    private(set) var frame: FrameReference
    /// Of the first message, and of the last.
    let first: MessageSequence
    private(set) var last: MessageSequence
    let position: MessageSequence
    /// Of the first message.
    let lane: Lane
    /// Stored messages that take a token of the throttle (COL-4).
    private(set) var tokenCount: Int64
    /// Each message by itself; empty as long as there is only one.
    private(set) var parts: [Part] = []
    /// Whether any of several messages has expired.
    private(set) var hasExpired = false
    /// When the first of them does.
    private var nextExpiry: Instant
    /// Rises with each fanout of the project on this loop.
    var arrival: UInt32
    /// Nobody was given any of it: others may be put together with it.
    var isUntouched = true
    /// How far its own walk is: the index of a block in the recipients' directory, and where in it.
    var nextBlock = 0
    var nextStep: UInt32 = 0
    /// Messages that were queued for sessions.
    private var sentCount = 0
    /// What the progress of its messages has not been told of yet.
    private var untoldDeliveries = 0
    private var toldBlocks = 0
    /// Of the messages behind the first.
    private var joinedProgress: [FanoutProgress] = []

    /// Bytes of one run: an eighth of what may be queued for a session, so that a run that finds no
    /// room is an exception.
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

    /// MSG-10: nobody is given the message any more who has not been.
    mutating func cancel(_ sequence: MessageSequence) {
        if parts.isEmpty {
            if last == sequence { nextExpiry = .always }
            return
        }
        for index in parts.indices where parts[index].sequence == sequence {
            parts[index].expires = .always
            nextExpiry = .always
        }
    }

    /// Marks what has expired by `now`. What is not stored is on its way however long that takes.
    /// - Returns: whether nothing is left.
    mutating func dropExpired(_ now: Instant) -> Bool {
        guard last.isStored, nextExpiry <= now else { return false }
        // Who was passed by because of it must not miss what would be put together with it.
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

    // MARK: What was sent (REP-1)

    mutating func note(_ count: Int) {
        sentCount += count
        untoldDeliveries += count
    }

    /// The message at a place among several was queued for a session by itself, or not.
    mutating func noteEach(_ count: Int, _ place: Int) {
        if count > 0 { parts[place].sentAlone += count }
    }

    /// For how many sessions each message was queued.
    func forEachSent(_ body: (MessageSequence, Int) -> Void) {
        guard !parts.isEmpty else { return body(first, sentCount) }
        let together = (sentCount - parts.reduce(0) { $0 + $1.sentAlone }) / parts.count
        for part in parts { body(part.sequence, together + part.sentAlone) }
    }

    // MARK: Progress (FAN-8)

    /// Tells how far its walk is. Of what was delivered of several messages each counts a part.
    mutating func tellProgress() {
        let blocks = nextBlock - toldBlocks
        let share = untoldDeliveries / messageCount
        guard blocks > 0 || share > 0 else { return }
        toldBlocks = nextBlock
        untoldDeliveries -= share * messageCount
        fanout.progress?.add(delivered: share, blocks: blocks)
        for progress in joinedProgress { progress.add(delivered: share, blocks: blocks) }
    }

    /// It has nothing more to do here.
    mutating func end(_ now: Instant) {
        tellProgress()
        fanout.progress?.add(delivered: untoldDeliveries, blocks: 0)
        fanout.progress?.endPart(at: now)
        for progress in joinedProgress { progress.endPart(at: now) }
    }

    // MARK: Several messages

    /// Takes a message in if it can be delivered together with those that are here.
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
        last = sequence
        return true
    }
}

extension Instant {
    /// Before every other: what expires then has expired.
    fileprivate static let always = Instant(rawValue: .min)
}

extension Recipients {
    /// Whether these are known to be the same instances without looking at them.
    fileprivate func isSame(as other: Recipients) -> Bool {
        switch (self, other) {
        case (.one(let mine), .one(let other)): mine == other
        case (.many(let mine), .many(let other)): mine === other
        default: false
        }
    }
}
