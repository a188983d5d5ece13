// SPDX-License-Identifier: Apache-2.0
//
// Cuts the bytes of a connection into frames. A frame that lies whole inside a received chunk is handed out in
// place. Only a frame that ends in a later chunk is copied. Memory for the copy grows with the bytes that have
// arrived, not with the length field, and is freed after the frame has been used. So between two frames a
// connection holds only the 12 bytes of the splitter itself.
//
//     chunk   ┌ len ┬ t ┬ body ┐┌ len ┬ t ┬ body ┐┌ len ┬ t ┬ bo      next chunk ┐
//                    handed out            handed out      copied, handed out from the copy
//
// NET-3: a length outside 1…frameBytesMax throws before the splitter keeps any byte of the frame.

import MartletBase

/// A borrowed frame: the type byte and the body.
public struct RawFrame {
    /// Number of the frame's type. The number may be no `FrameType`, because the splitter does not check the number.
    public let type: UInt8
    /// Bytes of the frame after the type byte. Valid until the next call of the splitter.
    public let body: UnsafeRawBufferPointer
}

/// Incremental cutter for the input of one connection. The connection closes after the splitter has thrown.
public struct FrameSplitter: ~Copyable {
    /// Longest accepted frame, in bytes after the length field. The owner sets another value when HELLO tells the
    /// role.
    public var frameBytesMax: Int {
        get { Int(longestBytes) }
        set { longestBytes = UInt32(clamping: newValue) }
    }

    /// A frame that began in an earlier chunk. Type and body lie in memory directly behind this value.
    private struct Partial {
        /// The received part of the length field; `lengthCount` is the number of received bytes.
        var length: UInt32 = 0
        var lengthCount: UInt8 = 0
        /// True if the last `next` returned the whole frame.
        var isHandedOut = false
        var count: UInt32 = 0
        var capacity: UInt32

        static let bytesAt = MemoryLayout<Partial>.stride
    }

    private var partial: UnsafeMutablePointer<Partial>?
    private var longestBytes: UInt32

    /// A splitter at the beginning of a connection.
    /// - Parameter frameBytesMax: longest accepted frame, in bytes after the length field.
    public init(frameBytesMax: Int) {
        longestBytes = UInt32(clamping: frameBytesMax)
    }

    deinit { UnsafeMutableRawPointer(partial)?.deallocate() }

    /// Bytes of an unfinished frame that the splitter keeps in its own memory.
    public var keptBytes: Int { Int(partial?.pointee.count ?? 0) }
    /// True if a part of a frame has come, even of its length, and the rest has not.
    public var isInsideFrame: Bool { partial.map { !$0.pointee.isHandedOut } ?? false }
    /// True if the splitter stands between two frames and holds no memory.
    public var isIdle: Bool { partial == nil }

    /// Returns the next whole frame, or nil when `chunk` is used up, and advances `chunk` past the bytes taken. The
    /// frame is borrowed from `chunk` or from the splitter, and valid until the next call.
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
        let length = chunk.loadLittleEndian(UInt32.self, at: 0)
        try check(length)
        chunk = UnsafeRawBufferPointer(rebasing: chunk[WireVersion.lengthBytes...])
        if chunk.count >= Int(length) { return Self.take(Int(length), from: &chunk) }
        let begun = makePartial()
        begun.pointee.length = length
        begun.pointee.lengthCount = UInt8(WireVersion.lengthBytes)
        return try goOn(begun, from: &chunk)
    }

    /// Calls `take` with each whole frame of `chunk` in turn, for callers without pointers.
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

    /// Takes a frame that lies whole at the beginning of the chunk.
    private static func take(
        _ frameBytes: Int, from chunk: inout UnsafeRawBufferPointer
    ) -> RawFrame {
        let type = chunk[0]
        let body = UnsafeRawBufferPointer(rebasing: chunk[1..<frameBytes])
        chunk = UnsafeRawBufferPointer(rebasing: chunk[frameBytes...])
        return RawFrame(type: type, body: body)
    }

    /// Continues a frame that did not arrive in one piece.
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

    /// Copies the next bytes of the unfinished frame. The capacity doubles, up to the frame's length.
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

    /// Frees the memory of the frame, which the caller has used.
    private mutating func release() {
        UnsafeMutableRawPointer(partial)?.deallocate()
        partial = nil
    }
}
