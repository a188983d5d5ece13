// SPDX-License-Identifier: Apache-2.0
//
// Keeps encoded frames until they are sent. A frame is written once, directly after the one before, and all recipients
// refer to it. So several fanouts to the same instances are one run of bytes for each, and leave in one send without
// a copy. Chunks are reference-counted and reused when nobody refers to them. Rests on MartletBase.

import MartletBase

/// Reference-counted chunks of frames. Not thread-safe: one per loop.
struct FrameArena: ~Copyable {
    /// Bytes of a chunk: room for the longest frame. With larger ones a slow consumer would pin more memory; smaller ones break
    /// up runs of frames.
    static let bytesPerChunk = 260 * 1024

    struct Chunk {
        var base: UnsafeMutableRawPointer
        var references: UInt32
    }

    private var chunks = Slab<Chunk>(capacity: 64)
    private(set) var chunkCount = 0
    private var free: [UInt32] = []
    /// Numbers of chunks whose memory went back to the allocator.
    private var releasedNumbers: [UInt32] = []
    /// Where the next frame goes, by kind.
    private var shared = Place()
    private var direct = Place()

    private struct Place {
        /// `nothing` if there is no chunk, which counts as full.
        var chunk: UInt32 = .nothing
        /// Bytes written to the chunk.
        var used = FrameArena.bytesPerChunk
    }

    /// Free chunks to keep for later. More go back to the allocator.
    private static let freeChunksMax = 16

    deinit {
        let released = Set(releasedNumbers)
        for number in 0..<UInt32(chunkCount) where !released.contains(number) {
            chunks[number].pointee.base.deallocate()
        }
    }

    /// Bytes of all chunks, in use or kept for later.
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
            start: chunks[place.chunk].pointee.base + place.used, count: count)
    }

    /// The given place, or the start of a chunk. A chunk that has nothing left to send is reused, so that a loop with little to
    /// do stays within a few pages.
    private mutating func fit(_ count: Int, in place: Place) -> Place {
        invariant(count <= Self.bytesPerChunk, "A frame fits into a chunk.")
        if isUnused(place) { return Place(chunk: place.chunk, used: 0) }
        guard place.used + count > Self.bytesPerChunk else { return place }
        let next = Place(chunk: takeChunk(), used: 0)
        if place.chunk != .nothing { release(place.chunk) }
        return next
    }

    /// Makes the first `count` bytes of what was reserved last a frame. If you keep the reference, retain the chunk.
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
        invariant(chunks[chunk].pointee.references > 0, "A chunk of frames is not free.")
        chunks[chunk].pointee.references &+= 1
    }

    @inline(__always)
    mutating func release(_ chunk: UInt32) {
        invariant(chunks[chunk].pointee.references > 0, "A chunk is given back once.")
        chunks[chunk].pointee.references &-= 1
        if chunks[chunk].pointee.references == 0 { recycle(chunk) }
    }

    @inline(__always)
    func base(_ chunk: UInt32) -> UnsafeMutableRawPointer { chunks[chunk].pointee.base }

    // MARK: Invariants

    /// Adds the references that the next frames' places hold.
    func countPlaces(in references: inout [Int]) {
        for place in [shared, direct] where place.chunk != .nothing {
            references[Int(place.chunk)] += 1
        }
    }

    /// The first chunk whose count isn't that of these references, if there is one.
    func brokenCount(_ references: [Int]) -> String? {
        let unused = Set(free + releasedNumbers)
        for (number, count) in references.enumerated() {
            let isUnused = unused.contains(UInt32(number))
            guard isUnused == (count == 0),
                isUnused || Int(chunks[UInt32(number)].pointee.references) == count
            else {
                return
                    "chunk \(number) counts \(chunks[UInt32(number)].pointee.references) references of \(count)"
            }
        }
        return nil
    }

    private mutating func recycle(_ chunk: UInt32) {
        invariant(chunks[chunk].pointee.references == 0, "A chunk in use is not free.")
        if free.count < Self.freeChunksMax { free.append(chunk) } else { giveBack(chunk) }
    }

    private mutating func giveBack(_ chunk: UInt32) {
        invariant(chunks[chunk].pointee.references <= 1, "The memory of frames to be sent is kept.")
        chunks[chunk].pointee.base.deallocate()
        releasedNumbers.append(chunk)
    }

    /// Gives back the chunks that have nothing left to send.
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

    /// Whether only this place refers to the chunk.
    private func isUnused(_ place: Place) -> Bool {
        place.chunk != .nothing && chunks[place.chunk].pointee.references == 1
    }

    /// A chunk to fill, with a reference from its place only.
    private mutating func takeChunk() -> UInt32 {
        if let index = free.popLast() {
            invariant(chunks[index].pointee.references == 0, "A free chunk has no frames.")
            chunks[index].pointee.references = 1
            return index
        }
        let fresh = Chunk(
            base: .allocate(byteCount: Self.bytesPerChunk, alignment: 64), references: 1)
        if let number = releasedNumbers.popLast() {
            chunks[number].pointee = fresh
            return number
        }
        chunks.reserve(chunkCount + 1)
        let number = UInt32(chunkCount)
        chunks[number].initialize(to: fresh)
        chunkCount += 1
        return number
    }
}

/// Frames of one kind lie directly after each other, so that a run of them can leave as one piece.
package enum FrameKind: Sendable {
    /// A frame for the recipients of a fanout.
    case shared
    /// Any other frame: an answer, a message for one instance, or a message of a mailbox.
    case direct
}

/// An encoded frame in the arena, or a run of them.
struct FrameReference {
    var chunk: UInt32
    var offset: UInt32
    var length: UInt32
}
