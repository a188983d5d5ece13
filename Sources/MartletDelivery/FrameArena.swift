// SPDX-License-Identifier: Apache-2.0
//
// The memory of encoded frames until they are sent. A frame is written once, directly behind the frame before, and
// all recipients refer to the bytes. So fanouts to the same instances are one run of bytes for each instance, and
// leave in one send without a copy. Chunks have reference counts: a chunk without references is used again. Rests
// on MartletBase.

import MartletBase

/// Chunks of frames with reference counts. Not thread-safe: one per loop.
struct FrameArena: ~Copyable {
    /// Bytes of a chunk: room for the longest frame. Larger chunks pin more memory for a slow consumer; smaller
    /// chunks break runs of frames apart.
    static let bytesPerChunk = 260 * 1024

    struct Chunk {
        var base: UnsafeMutableRawPointer
        var references: UInt32
    }

    private var chunks: UnsafeMutablePointer<Chunk>
    private var chunkCapacity: Int
    private(set) var chunkCount = 0
    private var free: [UInt32] = []
    /// Chunk numbers whose memory went back to the allocator.
    private var releasedNumbers: [UInt32] = []
    /// The places of the next frames, by kind.
    private var shared = Place()
    private var direct = Place()

    private struct Place {
        /// `nothing`: the place has no chunk and counts as full.
        var chunk: UInt32 = .nothing
        /// Bytes written in the chunk.
        var used = FrameArena.bytesPerChunk
    }

    /// Free chunks kept for later use. Further chunks go back to the allocator.
    private static let freeChunksMax = 16

    init() {
        chunkCapacity = 64
        chunks = .allocate(capacity: chunkCapacity)
    }

    deinit {
        let released = Set(releasedNumbers)
        for index in 0..<chunkCount where !released.contains(UInt32(index)) {
            chunks[index].base.deallocate()
        }
        chunks.deallocate()
    }

    /// Bytes of all chunks, in use or kept for later use.
    var byteCount: Int { (chunkCount - releasedNumbers.count) * Self.bytesPerChunk }

    /// Reserves room for `count` bytes. The caller writes the bytes at once and then calls `take`.
    mutating func reserve(
        _ count: Int, _ kind: FrameKind
    ) -> UnsafeMutableRawBufferPointer {
        let place: Place
        switch kind {
        case .shared:
            shared = fit(count, in: shared)
            place = shared
        case .direct:
            direct = fit(count, in: direct)
            place = direct
        }
        return UnsafeMutableRawBufferPointer(
            start: chunks[Int(place.chunk)].base + place.used, count: count)
    }

    /// The given place, or the start of a chunk. A chunk without frames to send is used again, so that a loop with
    /// little to do stays in a few pages.
    private mutating func fit(_ count: Int, in place: Place) -> Place {
        invariant(count <= Self.bytesPerChunk, "A frame fits into a chunk.")
        if isUnused(place) { return Place(chunk: place.chunk, used: 0) }
        guard place.used + count > Self.bytesPerChunk else { return place }
        let next = Place(chunk: takeChunk(), used: 0)
        if place.chunk != .nothing { release(place.chunk) }
        return next
    }

    /// Turns the first `count` bytes of the room reserved last into a frame. A caller that keeps the reference
    /// retains the chunk.
    mutating func take(_ count: Int, _ kind: FrameKind) -> FrameReference {
        switch kind {
        case .shared: Self.take(count, in: &shared)
        case .direct: Self.take(count, in: &direct)
        }
    }

    private static func take(_ count: Int, in place: inout Place) -> FrameReference {
        invariant(
            place.chunk != .nothing && count <= FrameArena.bytesPerChunk - place.used,
            "A frame lies in the room that was reserved for it.")
        defer { place.used += count }
        return FrameReference(
            chunk: place.chunk, offset: UInt32(place.used), length: UInt32(count))
    }

    @inline(__always)
    func retain(_ chunk: UInt32) {
        invariant(chunks[Int(chunk)].references > 0, "A chunk of frames is not free.")
        chunks[Int(chunk)].references &+= 1
    }

    @inline(__always)
    mutating func release(_ chunk: UInt32) {
        invariant(chunks[Int(chunk)].references > 0, "A chunk is given back once.")
        chunks[Int(chunk)].references &-= 1
        if chunks[Int(chunk)].references == 0 { recycle(chunk) }
    }

    @inline(__always)
    func base(_ chunk: UInt32) -> UnsafeMutableRawPointer { chunks[Int(chunk)].base }

    // MARK: Invariants

    /// Adds the references of the places of the next frames.
    func countPlaces(in references: inout [Int]) {
        for place in [shared, direct] where place.chunk != .nothing {
            references[Int(place.chunk)] += 1
        }
    }

    /// The first chunk with another count than these references; nil: there is none.
    func brokenCount(_ references: [Int]) -> String? {
        let unused = Set(free + releasedNumbers)
        for (number, count) in references.enumerated() {
            let isUnused = unused.contains(UInt32(number))
            guard isUnused == (count == 0), isUnused || Int(chunks[number].references) == count
            else {
                return "chunk \(number) counts \(chunks[number].references) references of \(count)"
            }
        }
        return nil
    }

    private mutating func recycle(_ chunk: UInt32) {
        invariant(chunks[Int(chunk)].references == 0, "A chunk in use is not free.")
        if free.count < Self.freeChunksMax { free.append(chunk) } else { giveBack(chunk) }
    }

    private mutating func giveBack(_ chunk: UInt32) {
        invariant(chunks[Int(chunk)].references <= 1, "The memory of frames to be sent is kept.")
        chunks[Int(chunk)].base.deallocate()
        releasedNumbers.append(chunk)
    }

    /// Gives back the chunks without frames to send.
    mutating func releaseMemory() {
        for chunk in free { giveBack(chunk) }
        free.removeAll()
        if isUnused(shared) {
            giveBack(shared.chunk)
            shared = Place()
        }
        if isUnused(direct) {
            giveBack(direct.chunk)
            direct = Place()
        }
    }

    /// Whether the place has the only reference to the chunk.
    private func isUnused(_ place: Place) -> Bool {
        place.chunk != .nothing && chunks[Int(place.chunk)].references == 1
    }

    /// A chunk with a single reference, from the place to be filled.
    private mutating func takeChunk() -> UInt32 {
        if let index = free.popLast() {
            invariant(chunks[Int(index)].references == 0, "A free chunk has no frames.")
            chunks[Int(index)].references = 1
            return index
        }
        let fresh = Chunk(
            base: .allocate(byteCount: Self.bytesPerChunk, alignment: 64), references: 1)
        if let number = releasedNumbers.popLast() {
            chunks[Int(number)] = fresh
            return number
        }
        if chunkCount == chunkCapacity {
            let grown = UnsafeMutablePointer<Chunk>.allocate(capacity: chunkCapacity * 2)
            grown.moveInitialize(from: chunks, count: chunkCount)
            chunks.deallocate()
            chunks = grown
            chunkCapacity *= 2
        }
        (chunks + chunkCount).initialize(to: fresh)
        chunkCount += 1
        return UInt32(chunkCount - 1)
    }
}

/// The kinds of frames. Frames of one kind lie directly behind each other, so that a run of them can leave as one
/// piece.
package enum FrameKind: Sendable {
    /// A frame for the recipients of a fanout.
    case shared
    /// Any other frame: an answer, a message for one instance, or a message of a mailbox.
    case direct
}

/// An encoded frame, or a run of contiguous frames, in the arena.
struct FrameReference {
    var chunk: UInt32
    var offset: UInt32
    var length: UInt32
}
