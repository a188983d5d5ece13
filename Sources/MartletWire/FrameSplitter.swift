// SPDX-License-Identifier: Apache-2.0
//
// Cuts the bytes of a connection into frames. A frame that lies whole inside a received chunk is
// handed out where it lies; only a frame that ends in a later chunk is copied, into memory that
// grows with what has arrived (not with what the length field promises) and is given back when the
// frame has been used. So a connection between frames holds no memory but this struct:
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

    private var longestBytes: UInt32
    /// The length field as far as it has arrived, and how many of its bytes have.
    private var length: UInt32 = 0
    private var lengthCount: UInt8 = 0
    /// Whether `partial` holds a whole frame that was handed out by the last `next`.
    private var isHandedOut = false
    /// The type and body of a frame that began in an earlier chunk.
    private var partial: UnsafeMutableRawPointer?
    private var partialCount: UInt32 = 0
    private var partialCapacity: UInt32 = 0

    public init(frameBytesMax: Int) {
        longestBytes = UInt32(clamping: frameBytesMax)
    }

    deinit { partial?.deallocate() }

    /// Bytes of an unfinished frame that are kept in memory of the splitter's own.
    public var keptBytes: Int { Int(partialCount) }
    /// Whether it stands between two frames and holds no memory.
    public var isIdle: Bool { lengthCount == 0 && partial == nil }

    /// The next whole frame, or nil when `chunk` is used up. Advances `chunk` past what it took.
    /// The frame is borrowed from `chunk` or from the splitter, and good until the next call.
    public mutating func next(
        from chunk: inout UnsafeRawBufferPointer
    ) throws(WireError) -> RawFrame? {
        if isHandedOut { release() }
        guard try readLength(from: &chunk) else { return nil }
        let frameBytes = Int(length)
        if partialCount == 0 && chunk.count >= frameBytes {
            let type = chunk[0]
            let body = UnsafeRawBufferPointer(rebasing: chunk[1..<frameBytes])
            chunk = UnsafeRawBufferPointer(rebasing: chunk[frameBytes...])
            lengthCount = 0
            length = 0
            return RawFrame(type: type, body: body)
        }
        keep(from: &chunk)
        guard Int(partialCount) == frameBytes, let partial else { return nil }
        isHandedOut = true
        let whole = UnsafeRawBufferPointer(start: partial, count: frameBytes)
        return RawFrame(type: whole[0], body: UnsafeRawBufferPointer(rebasing: whole[1...]))
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

    /// Completes the length field as far as the chunk allows, and says whether it is known.
    private mutating func readLength(
        from chunk: inout UnsafeRawBufferPointer
    ) throws(WireError) -> Bool {
        if lengthCount < 4 {
            if lengthCount == 0 && chunk.count >= 4 {
                length = UInt32(littleEndian: chunk.loadUnaligned(as: UInt32.self))
                lengthCount = 4
                chunk = UnsafeRawBufferPointer(rebasing: chunk[4...])
            } else {
                while lengthCount < 4, let byte = chunk.first {
                    length |= UInt32(byte) << (8 * UInt32(lengthCount))
                    lengthCount += 1
                    chunk = UnsafeRawBufferPointer(rebasing: chunk[1...])
                }
                guard lengthCount == 4 else { return false }
            }
        }
        guard length > 0 else { throw .emptyFrame }
        guard length <= longestBytes else {
            throw .frameTooLong(bytes: Int(length), maxBytes: Int(longestBytes))
        }
        return true
    }

    /// Copies what belongs to the unfinished frame. Capacity doubles up to the frame's length.
    private mutating func keep(from chunk: inout UnsafeRawBufferPointer) {
        let count = min(chunk.count, Int(length) - Int(partialCount))
        guard count > 0, let source = chunk.baseAddress else { return }
        let needed = Int(partialCount) + count
        if needed > Int(partialCapacity) {
            let capacity = min(Int(length), max(needed, 2 * Int(partialCapacity)))
            let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
            if let partial {
                grown.copyMemory(from: partial, byteCount: Int(partialCount))
                partial.deallocate()
            }
            partial = grown
            partialCapacity = UInt32(capacity)
        }
        partial?.advanced(by: Int(partialCount)).copyMemory(from: source, byteCount: count)
        partialCount = UInt32(needed)
        chunk = UnsafeRawBufferPointer(rebasing: chunk[count...])
    }

    /// Gives back the memory of the frame that the caller has used.
    private mutating func release() {
        partial?.deallocate()
        partial = nil
        partialCount = 0
        partialCapacity = 0
        length = 0
        lengthCount = 0
        isHandedOut = false
    }
}
