// SPDX-License-Identifier: Apache-2.0
//
// Writes DELIVER straight into the broker's memory, once per message for all recipients:
//
//     0     4   5          13        21       29    30    31     32     34    34+from
//     len   10  stream ID  accepted  expires  kind  prio  flags  count  from  [number] message …
//
// All fields before `from` stand at fixed offsets. Rests only on the byte order in the document WireProtocol.

public import MartletBase

/// Sizes and offsets of a DELIVER frame, and a one-pass encoder.
public enum DeliverHeader {
    /// Offset of the stream ID from the first byte of the frame.
    @usableFromInline static let streamIDOffset = 5
    /// Bytes of the frame before `from`.
    public static let fixedBytes = 34
    /// Flag, beside those of the options, of a message whose number is not the stream ID. The number follows `from`.
    @usableFromInline static let ownNumberFlag: UInt8 = 2

    /// The flags byte of a DELIVER frame.
    @inlinable
    public static func flags(_ options: MessageOptions, ownNumber: UInt64?) -> UInt8 {
        options.flags(in: .deliver) | (ownNumber != nil ? ownNumberFlag : 0)
    }

    /// Bytes of the whole frame, including the length field.
    @inlinable
    public static func byteCount(fromBytes: Int, hasOwnNumber: Bool, bodyBytes: Int) -> Int {
        fixedBytes + fromBytes + (hasOwnNumber ? 8 : 0) + bodyBytes
    }

    /// Writes the whole frame. `destination` must have room for `byteCount(fromBytes:hasOwnNumber:bodyBytes:)`
    /// bytes, and `from` is at most 65,535 bytes.
    /// - Returns: the bytes written.
    @inlinable @discardableResult
    public static func write(
        streamID: UInt64, accepted: Instant, expires: Instant, kind: TargetKind,
        priority: MessagePriority, options: MessageOptions, ownNumber: UInt64?,
        from: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer,
        into destination: UnsafeMutableRawBufferPointer
    ) -> Int {
        let count = byteCount(
            fromBytes: from.count, hasOwnNumber: ownNumber != nil, bodyBytes: body.count)
        precondition(count <= destination.count, "A DELIVER frame is longer than its memory.")
        precondition(from.count <= Int(UInt16.max), "The origin of a message is too long.")
        let base = destination.baseAddress!
        base.storeLittleEndian(UInt32(count - 4), at: 0)
        base.storeLittleEndian(FrameType.deliver.rawValue, at: 4)
        base.storeLittleEndian(streamID, at: streamIDOffset)
        base.storeLittleEndian(accepted.millisecondsSince1970, at: 13)
        base.storeLittleEndian(expires.millisecondsSince1970, at: 21)
        base.storeLittleEndian(kind.rawValue, at: 29)
        base.storeLittleEndian(priority.rawValue, at: 30)
        base.storeLittleEndian(flags(options, ownNumber: ownNumber), at: 31)
        base.storeLittleEndian(UInt16(from.count), at: 32)
        if let source = from.baseAddress {
            (base + fixedBytes).copyMemory(from: source, byteCount: from.count)
        }
        if let ownNumber { base.storeLittleEndian(ownNumber, at: fixedBytes + from.count) }
        if let source = body.baseAddress {
            (base + count - body.count).copyMemory(from: source, byteCount: body.count)
        }
        return count
    }
}
