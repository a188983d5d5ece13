// SPDX-License-Identifier: Apache-2.0
//
// Where encoded frames lie while somebody still has to be sent them. A frame is written once, behind
// the one before it, and everybody it is for refers to it: fanouts to the same instances are then one
// run of bytes for each of them, and leave in one send without being copied. Chunks are counted, not
// collected: a chunk is used again when the last reference to it is gone. Rests on nothing.

/// Chunks of frames with reference counts. Not thread-safe: one per loop.
struct FrameArena: ~Copyable {
    /// A chunk holds at least one of the longest frames. Larger chunks pin more memory for a slow
    /// consumer; smaller ones break runs of frames apart.
    static let bytesPerChunk = 256 * 1024 + 4096

    struct Chunk {
        var base: UnsafeMutableRawPointer
        var references: UInt32
    }

    private var chunks: UnsafeMutablePointer<Chunk>
    private var chunkCapacity: Int
    private var chunkCount = 0
    private var free: [UInt32] = []
    /// Chunk numbers whose memory went back to the allocator.
    private var releasedNumbers: [UInt32] = []
    /// Where the next frame of each kind goes.
    private var shared = Place()
    private var direct = Place()

    private struct Place {
        /// `nothing`: no chunk, which is as good as a full one.
        var chunk: UInt32 = .nothing
        /// Bytes written in the chunk.
        var used = FrameArena.bytesPerChunk
    }

    /// Free chunks that are kept for later; more go back to the allocator.
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

    /// Bytes held for frames, whether in use or kept for later.
    var byteCount: Int { (chunkCount - releasedNumbers.count) * Self.bytesPerChunk }

    /// Room for `count` bytes, to be written at once and then taken by `take`.
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

    /// The place itself, or the start of a chunk: of the same one where nobody has to be sent any of it
    /// any more, so that a loop with little to do stays in a few pages.
    private mutating func fit(_ count: Int, in place: Place) -> Place {
        precondition(count <= Self.bytesPerChunk, "A frame fits into a chunk.")
        if isUnused(place) { return Place(chunk: place.chunk, used: 0) }
        guard place.used + count > Self.bytesPerChunk else { return place }
        let next = Place(chunk: takeChunk(), used: 0)
        if place.chunk != .nothing { release(place.chunk) }
        return next
    }

    /// Makes the first `count` bytes of what was reserved last a frame. Whoever keeps the reference
    /// retains it.
    mutating func take(_ count: Int, _ kind: FrameKind) -> FrameReference {
        switch kind {
        case .shared: Self.take(count, in: &shared)
        case .direct: Self.take(count, in: &direct)
        }
    }

    private static func take(_ count: Int, in place: inout Place) -> FrameReference {
        defer { place.used += count }
        return FrameReference(
            chunk: place.chunk, offset: UInt32(place.used), length: UInt32(count))
    }

    @inline(__always)
    func retain(_ chunk: UInt32) { chunks[Int(chunk)].references &+= 1 }

    @inline(__always)
    mutating func release(_ chunk: UInt32) {
        chunks[Int(chunk)].references &-= 1
        if chunks[Int(chunk)].references == 0 { recycle(chunk) }
    }

    @inline(__always)
    func base(_ chunk: UInt32) -> UnsafeMutableRawPointer { chunks[Int(chunk)].base }

    private mutating func recycle(_ chunk: UInt32) {
        if free.count < Self.freeChunksMax { free.append(chunk) } else { giveBack(chunk) }
    }

    private mutating func giveBack(_ chunk: UInt32) {
        chunks[Int(chunk)].base.deallocate()
        releasedNumbers.append(chunk)
    }

    /// Gives back the chunks of which nobody has to be sent anything.
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

    /// Whether only the place itself refers to its chunk.
    private func isUnused(_ place: Place) -> Bool {
        place.chunk != .nothing && chunks[Int(place.chunk)].references == 1
    }

    /// A chunk with one reference: being the current one.
    private mutating func takeChunk() -> UInt32 {
        if let index = free.popLast() {
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

/// Frames of one kind lie behind each other, so that a run of them can leave as one piece.
public enum FrameKind: Sendable {
    /// For whoever is in a fanout.
    case shared
    /// For one session: answers, and messages of its mailbox.
    case direct
}

/// An encoded frame, or a run of them, in the arena.
struct FrameReference {
    var chunk: UInt32
    var offset: UInt32
    var length: UInt32
}
