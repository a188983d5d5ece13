// SPDX-License-Identifier: Apache-2.0
//
// Cuts the bytes of a connection into frames. A frame that lies whole inside a received chunk is
// handed out where it lies; only a frame that ends in a later chunk is copied, into memory that
// grows with what has arrived (not with what the length field promises) and is given back when the
// frame has been used. So a connection between frames holds no memory but this struct, 12 bytes:
//
//     chunk   ┌ len ┬ t ┬ body ┐┌ len ┬ t ┬ body ┐┌ len ┬ t ┬ bo      next chunk ┐
//                    handed out            handed out      copied, handed out from the copy
//
// NET-3: a length outside 1…frameBytesMax throws before any byte of that frame is kept.

/// A frame's type byte and body, borrowed.
public struct RawFrame {
    public let type: UInt8
    public let body: UnsafeRawBufferPointer
}

/// The incremental cutter of one connection's input. After it has thrown, the connection closes.
public struct FrameSplitter: ~Copyable {
    /// Longest frame taken, in bytes after the length field. HELLO changes it with the role.
    public var frameBytesMax: Int {
        get { Int(longestBytes) }
        set { longestBytes = UInt32(clamping: newValue) }
    }

    /// The frame that began in an earlier chunk; its type and body lie behind this value.
    private struct Partial {
        /// The length field as far as it has arrived, and how many of its bytes have.
        var length: UInt32 = 0
        var lengthCount: UInt8 = 0
        /// The whole frame was handed out by the last `next`.
        var isHandedOut = false
        var count: UInt32 = 0
        var capacity: UInt32

        static let bytesAt = MemoryLayout<Partial>.stride
    }

    private var partial: UnsafeMutablePointer<Partial>?
    private var longestBytes: UInt32

    public init(frameBytesMax: Int) {
        longestBytes = UInt32(clamping: frameBytesMax)
    }

    deinit { UnsafeMutableRawPointer(partial)?.deallocate() }

    /// Bytes of an unfinished frame that are kept in memory of the splitter's own.
    public var keptBytes: Int { Int(partial?.pointee.count ?? 0) }
    /// Whether it stands between two frames and holds no memory.
    public var isIdle: Bool { partial == nil }

    /// The next whole frame, or nil when `chunk` is used up. Advances `chunk` past what it took.
    /// The frame is borrowed from `chunk` or from the splitter, and good until the next call.
    public mutating func next(
        from chunk: inout UnsafeRawBufferPointer
    ) throws(WireError) -> RawFrame? {
        if let partial {
            if !partial.pointee.isHandedOut { return try goOn(partial, from: &chunk) }
            release()
        }
        guard chunk.count >= WireVersion.lengthBytes else {
            guard !chunk.isEmpty else { return nil }
            return try goOn(makePartial(), from: &chunk)
        }
        let length = UInt32(littleEndian: chunk.loadUnaligned(as: UInt32.self))
        try check(length)
        chunk = UnsafeRawBufferPointer(rebasing: chunk[WireVersion.lengthBytes...])
        if chunk.count >= Int(length) { return Self.take(Int(length), from: &chunk) }
        let begun = makePartial()
        begun.pointee.length = length
        begun.pointee.lengthCount = UInt8(WireVersion.lengthBytes)
        return try goOn(begun, from: &chunk)
    }

    /// The same, for callers without pointers: `take` is called with each whole frame in turn.
    public mutating func split(
        _ chunk: RawSpan, _ take: (UInt8, RawSpan) throws(WireError) -> Void
    ) throws(WireError) {
        try chunk.withUnsafeBytes { (bytes) throws(WireError) in
            var rest = bytes
            while let frame = try next(from: &rest) {
                try take(frame.type, frame.body.bytes)
            }
        }
    }

    private func check(_ length: UInt32) throws(WireError) {
        guard length > 0 else { throw .emptyFrame }
        guard length <= longestBytes else {
            throw .frameTooLong(bytes: Int(length), maxBytes: Int(longestBytes))
        }
    }

    /// A frame that lies whole at the beginning of the chunk.
    private static func take(
        _ frameBytes: Int, from chunk: inout UnsafeRawBufferPointer
    ) -> RawFrame {
        let type = chunk[0]
        let body = UnsafeRawBufferPointer(rebasing: chunk[1..<frameBytes])
        chunk = UnsafeRawBufferPointer(rebasing: chunk[frameBytes...])
        return RawFrame(type: type, body: body)
    }

    /// Goes on with a frame that did not arrive in one piece.
    @inline(never)
    private mutating func goOn(
        _ begun: UnsafeMutablePointer<Partial>, from chunk: inout UnsafeRawBufferPointer
    ) throws(WireError) -> RawFrame? {
        while begun.pointee.lengthCount < UInt8(WireVersion.lengthBytes) {
            guard let byte = chunk.first else { return nil }
            begun.pointee.length |= UInt32(byte) << (8 * UInt32(begun.pointee.lengthCount))
            begun.pointee.lengthCount += 1
            chunk = UnsafeRawBufferPointer(rebasing: chunk[1...])
        }
        try check(begun.pointee.length)
        let frameBytes = Int(begun.pointee.length)
        if begun.pointee.count == 0, chunk.count >= frameBytes {
            release()
            return Self.take(frameBytes, from: &chunk)
        }
        let kept = keep(begun, from: &chunk)
        guard Int(kept.pointee.count) == frameBytes else { return nil }
        kept.pointee.isHandedOut = true
        let whole = UnsafeRawBufferPointer(
            start: UnsafeRawPointer(kept) + Partial.bytesAt, count: frameBytes)
        return RawFrame(type: whole[0], body: UnsafeRawBufferPointer(rebasing: whole[1...]))
    }

    /// Copies what belongs to the unfinished frame. Capacity doubles up to the frame's length.
    private mutating func keep(
        _ begun: UnsafeMutablePointer<Partial>, from chunk: inout UnsafeRawBufferPointer
    ) -> UnsafeMutablePointer<Partial> {
        let before = begun.pointee
        let count = min(chunk.count, Int(before.length) - Int(before.count))
        guard count > 0, let source = chunk.baseAddress else { return begun }
        let needed = Int(before.count) + count
        var kept = begun
        if needed > Int(before.capacity) {
            let capacity = min(Int(before.length), max(needed, 2 * Int(before.capacity)))
            kept = Self.allocate(capacity: capacity)
            UnsafeMutableRawPointer(kept).copyMemory(
                from: begun, byteCount: Partial.bytesAt + Int(before.count))
            kept.pointee.capacity = UInt32(capacity)
            UnsafeMutableRawPointer(begun).deallocate()
            partial = kept
        }
        (UnsafeMutableRawPointer(kept) + Partial.bytesAt + Int(before.count)).copyMemory(
            from: source, byteCount: count)
        kept.pointee.count = UInt32(needed)
        chunk = UnsafeRawBufferPointer(rebasing: chunk[count...])
        return kept
    }

    private mutating func makePartial() -> UnsafeMutablePointer<Partial> {
        let begun = Self.allocate(capacity: 0)
        begun.initialize(to: Partial(capacity: 0))
        partial = begun
        return begun
    }

    private static func allocate(capacity: Int) -> UnsafeMutablePointer<Partial> {
        UnsafeMutableRawPointer.allocate(
            byteCount: Partial.bytesAt + capacity, alignment: MemoryLayout<Partial>.alignment
        ).assumingMemoryBound(to: Partial.self)
    }

    /// Gives back the memory of the frame that the caller has used.
    private mutating func release() {
        UnsafeMutableRawPointer(partial)?.deallocate()
        partial = nil
    }
}
