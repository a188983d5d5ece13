// SPDX-License-Identifier: Apache-2.0
//
// The frames that each session has to send: a chain of segments that refer to the arena. One table holds the segments of all
// sessions. A frame that lies directly after the last queued one just makes the last segment longer, so a run of frames
// costs a session one segment and one send. An idle session has no segment. Queues are bounded: when one is full nothing
// more is queued, and the caller marks the session as behind. Rests on FrameArena.
//
//   session ─► head ─► segment ─► segment ─► tail          segment = chunk, offset, length, next
//              └ in flight: the first `inFlightBytes` ┘

import Glibc
import MartletBase
import MartletEngine

/// The bounds of a session's queue, with reasons.
package enum OutputBounds {
    /// Bytes queued for a session: room for 256 messages of a kilobyte and more. A reader further behind reads from
    /// the mailbox instead.
    package static let bytesPerSessionMax = 512 * 1024
    /// Segments queued for a session: separate pieces to be gathered into one send.
    package static let segmentsPerSessionMax = 64
    /// Bytes queued for a session when an answer is added. Answers are stored nowhere, so a peer with more unread
    /// bytes is disconnected. Only a peer that does not read reaches the bound, because outstanding requests are
    /// bounded too.
    package static let answerBytesPerSessionMax = 4 << 20
    /// Segments queued for a session when an answer is added.
    package static let answersPerSessionMax = 4096
    /// Vectors in a send. The kernel copies the vectors of each send, so more vectors gain no time.
    package static let vectorsPerSend = 64
    /// Bytes queued for a session at which a step of catching up ends.
    package static let catchUpBytes = 64 * 1024
}

struct Segment {
    var chunk: UInt32
    var offset: UInt32
    var length: UInt32
    /// The next segment of the session, or of the free list.
    var next: UInt32
}

extension UInt32 {
    /// Stands for no segment, no session or no chunk.
    @inline(__always) static var nothing: UInt32 { .max }
}

/// The queues of all sessions of a loop.
struct OutputQueues: ~Copyable {
    var arena = FrameArena()
    private var segments = Slab<Segment>()
    private var freeSegment: UInt32 = .nothing
    private(set) var usedSegments = 0
    private let sessions: UnsafeMutablePointer<Session>
    /// Sessions that have frames to send and no send in flight, each at most once.
    private var ready = SessionRing()

    /// Size of the table while no session needs a segment.
    private static let segmentCapacityMin = 1024

    init(sessions: UnsafeMutablePointer<Session>) {
        self.sessions = sessions
        growSegments()
    }

    enum Queueing {
        case queued
        /// The queue is full, so the frame was not queued.
        case full
    }

    /// Queues a frame of the arena for a session.
    @inline(__always)
    mutating func append(
        _ frame: FrameReference, to index: UInt32,
        bytesMax: Int = OutputBounds.bytesPerSessionMax,
        segmentsMax: Int = OutputBounds.segmentsPerSessionMax
    ) -> Queueing {
        let session = sessions + Int(index)
        let bytes = session.pointee.queuedBytes &+ frame.length
        if session.pointee.tail != .nothing {
            let tail = segments[session.pointee.tail]
            if tail.pointee.chunk == frame.chunk,
                tail.pointee.offset &+ tail.pointee.length == frame.offset,
                bytes <= UInt32(bytesMax)
            {
                tail.pointee.length &+= frame.length
                session.pointee.queuedBytes = bytes
                return .queued
            }
        }
        return appendSegment(frame, to: index, bytesMax, segmentsMax)
    }

    private mutating func appendSegment(
        _ frame: FrameReference, to index: UInt32, _ bytesMax: Int, _ segmentsMax: Int
    ) -> Queueing {
        let session = sessions + Int(index)
        let bytes = Int(session.pointee.queuedBytes) + Int(frame.length)
        // Into an empty queue a frame of any length will go.
        guard
            session.pointee.segmentCount == 0
                || (bytes <= bytesMax && Int(session.pointee.segmentCount) < segmentsMax)
        else { return .full }
        if freeSegment == .nothing { growSegments() }
        let number = freeSegment
        invariant(Int(number) < segments.capacity, "A free segment lies in the table.")
        freeSegment = segments[number].pointee.next
        usedSegments &+= 1
        segments[number].pointee = Segment(
            chunk: frame.chunk, offset: frame.offset, length: frame.length, next: .nothing)
        arena.retain(frame.chunk)
        if session.pointee.tail == .nothing {
            session.pointee.head = number
        } else {
            segments[session.pointee.tail].pointee.next = number
        }
        session.pointee.tail = number
        session.pointee.segmentCount += 1
        session.pointee.queuedBytes = UInt32(bytes)
        markReady(index)
        return .queued
    }

    mutating func markReady(_ index: UInt32) {
        let session = sessions + Int(index)
        guard session.pointee.inFlightBytes == 0, session.pointee.queuedBytes > 0,
            !session.pointee.flags.contains(.ready)
        else { return }
        session.pointee.flags.insert(.ready)
        ready.append(index)
    }

    /// How many sessions have frames to send and no send in flight. Some may have been closed by now.
    var readyCount: Int { ready.count }

    /// Takes the next session with frames to send.
    mutating func nextReady() -> UInt32? {
        while let index = ready.popFirst() {
            invariant(
                sessions[Int(index)].flags.contains(.ready),
                "A session is in the ring of ready sessions once.")
            sessions[Int(index)].flags.remove(.ready)
            // It may have been closed by now.
            if sessions[Int(index)].queuedBytes > 0, sessions[Int(index)].inFlightBytes == 0 {
                return index
            }
        }
        return nil
    }

    /// Writes a session's queued frames into `vectors`, and marks them as in flight.
    /// - Returns: the number of vectors.
    mutating func gather(
        _ index: UInt32, into vectors: UnsafeMutableBufferPointer<iovec>
    ) -> Int {
        let session = sessions + Int(index)
        invariant(session.pointee.inFlightBytes == 0, "A session has one send in flight.")
        var count = 0
        var bytes: UInt32 = 0
        var number = session.pointee.head
        while number != .nothing, count < vectors.count {
            let segment = segments[number].pointee
            vectors[count] = iovec(
                iov_base: arena.base(segment.chunk) + Int(segment.offset),
                iov_len: Int(segment.length))
            bytes += segment.length
            count += 1
            number = segment.next
        }
        invariant(bytes <= session.pointee.queuedBytes, "A queue counts all its bytes.")
        session.pointee.inFlightBytes = bytes
        return count
    }

    /// The send in flight is done after `byteCount` bytes. If any are left, the session is ready again.
    mutating func sent(_ index: UInt32, byteCount: Int) {
        let session = sessions + Int(index)
        invariant(
            byteCount <= Int(session.pointee.inFlightBytes), "No more is sent than was in flight.")
        session.pointee.inFlightBytes = 0
        drop(index, byteCount: UInt32(byteCount))
        markReady(index)
    }

    /// Calls `body` with each chunk in a session's queue, with some perhaps more than once.
    func forEachChunk(of index: UInt32, _ body: (UInt32) -> Void) {
        forEachSegment(of: index) { body($0.chunk) }
    }

    func forEachSegment(of index: UInt32, _ body: (Segment) -> Void) {
        var number = sessions[Int(index)].head
        while number != .nothing {
            body(segments[number].pointee)
            number = segments[number].pointee.next
        }
    }

    /// Drops all of a session's queued frames. No send may be in flight.
    mutating func clear(_ index: UInt32) {
        sessions[Int(index)].inFlightBytes = 0
        drop(index, byteCount: sessions[Int(index)].queuedBytes)
    }

    private mutating func drop(_ index: UInt32, byteCount: UInt32) {
        let session = sessions + Int(index)
        invariant(
            byteCount <= session.pointee.queuedBytes, "A queue loses no more bytes than it has.")
        session.pointee.queuedBytes -= byteCount
        var left = byteCount
        while left > 0 {
            let number = session.pointee.head
            invariant(number != .nothing, "The segments of a queue have all its bytes.")
            let segment = segments[number]
            if segment.pointee.length > left {
                segment.pointee.offset += left
                segment.pointee.length -= left
                return
            }
            left -= segment.pointee.length
            session.pointee.head = segment.pointee.next
            if session.pointee.head == .nothing { session.pointee.tail = .nothing }
            invariant(
                session.pointee.segmentCount > 0 && usedSegments > 0,
                "A queue counts all its segments.")
            session.pointee.segmentCount -= 1
            arena.release(segment.pointee.chunk)
            segment.pointee.next = freeSegment
            freeSegment = number
            usedSegments &-= 1
        }
    }

    /// Gives back memory that only many queues at once need.
    mutating func releaseMemory() {
        arena.releaseMemory()
        ready.releaseMemory()
        guard usedSegments == 0, segments.capacity > Self.segmentCapacityMin else { return }
        segments = Slab()
        freeSegment = .nothing
        growSegments()
    }

    /// Makes room for more segments, when none is free.
    private mutating func growSegments() {
        let before = UInt32(segments.capacity)
        segments.reserve(segments.capacity + 1, atLeast: Self.segmentCapacityMin)
        for number in (before..<UInt32(segments.capacity)).reversed() {
            segments[number].initialize(
                to: Segment(chunk: 0, offset: 0, length: 0, next: freeSegment))
            freeSegment = number
        }
    }
}

/// Session numbers in order, each at most once. A flag in the session prevents a second entry. The flag outlives the session,
/// so the ring never has more entries than there are sessions.
struct SessionRing: ~Copyable {
    private var slots: UnsafeMutablePointer<UInt32>
    /// The number of slots, a power of two.
    private var capacity: Int
    private var first = 0
    private(set) var count = 0

    private static let capacityMin = 1024

    init() {
        capacity = Self.capacityMin
        slots = .allocate(capacity: capacity)
    }

    deinit { slots.deallocate() }

    mutating func append(_ index: UInt32) {
        if count == capacity { resize(to: capacity * 2) }
        slots[(first &+ count) & (capacity &- 1)] = index
        count &+= 1
    }

    mutating func popFirst() -> UInt32? {
        guard count > 0 else { return nil }
        let index = slots[first]
        first = (first &+ 1) & (capacity &- 1)
        count &-= 1
        return index
    }

    mutating func releaseMemory() {
        if count == 0, capacity > Self.capacityMin { resize(to: Self.capacityMin) }
    }

    @inline(never)
    private mutating func resize(to newCapacity: Int) {
        let resized = UnsafeMutablePointer<UInt32>.allocate(capacity: newCapacity)
        for at in 0..<count { resized[at] = slots[(first + at) & (capacity - 1)] }
        slots.deallocate()
        slots = resized
        capacity = newCapacity
        first = 0
    }
}
