// SPDX-License-Identifier: Apache-2.0
//
// DELIVER written straight into the broker's memory, once per message for all its recipients:
//
//     0     4   5          13        21       29    30    31     32     34    34+from
//     len   10  stream ID  accepted  expires  kind  prio  flags  count  from  [number] message …
//
// All fields before `from` stand at fixed offsets, so a frame already written can be given another
// stream ID in place. Rests on the byte order of the document only.

public import MartletBase

/// Sizes and offsets of a DELIVER frame, and its one-pass encoder.
public enum DeliverHeader {
    /// Offset of the stream ID from the frame's first byte.
    public static let streamIDOffset = 5
    /// Bytes before `from`.
    public static let fixedBytes = 34
    /// RCP-1: the sender wants to know what becomes of the message.
    public static let wantsReceiptsFlag: UInt8 = 1
    /// The message's number is not the stream ID, and stands before the message.
    public static let ownNumberFlag: UInt8 = 2

    @inlinable
    public static func flags(wantsReceipts: Bool, ownNumber: UInt64?) -> UInt8 {
        (wantsReceipts ? wantsReceiptsFlag : 0) | (ownNumber != nil ? ownNumberFlag : 0)
    }

    /// Bytes of the whole frame, its length field included.
    @inlinable
    public static func byteCount(fromBytes: Int, hasOwnNumber: Bool, bodyBytes: Int) -> Int {
        fixedBytes + fromBytes + (hasOwnNumber ? 8 : 0) + bodyBytes
    }

    /// Writes the whole frame and returns its bytes. `destination` must have room for
    /// `byteCount(fromBytes:hasOwnNumber:bodyBytes:)`, and `from` is at most 65,535 bytes.
    @inlinable @discardableResult
    public static func write(
        streamID: UInt64, accepted: Instant, expires: Instant, kind: TargetKind,
        priority: MessagePriority, wantsReceipts: Bool, ownNumber: UInt64?,
        from: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer,
        into destination: UnsafeMutableRawBufferPointer
    ) -> Int {
        let count = byteCount(
            fromBytes: from.count, hasOwnNumber: ownNumber != nil, bodyBytes: body.count)
        precondition(count <= destination.count, "A DELIVER frame is longer than its memory.")
        precondition(from.count <= Int(UInt16.max), "The origin of a message is too long.")
        let base = destination.baseAddress!
        store(UInt32(count - 4), at: 0, in: base)
        store(FrameType.deliver.rawValue, at: 4, in: base)
        store(streamID, at: streamIDOffset, in: base)
        store(accepted.millisecondsSince1970, at: 13, in: base)
        store(expires.millisecondsSince1970, at: 21, in: base)
        store(kind.rawValue, at: 29, in: base)
        store(priority.rawValue, at: 30, in: base)
        store(flags(wantsReceipts: wantsReceipts, ownNumber: ownNumber), at: 31, in: base)
        store(UInt16(from.count), at: 32, in: base)
        if let source = from.baseAddress {
            (base + fixedBytes).copyMemory(from: source, byteCount: from.count)
        }
        if let ownNumber { store(ownNumber, at: fixedBytes + from.count, in: base) }
        if let source = body.baseAddress {
            (base + count - body.count).copyMemory(from: source, byteCount: body.count)
        }
        return count
    }

    /// Gives a written frame another stream ID.
    @inlinable
    public static func setStreamID(_ streamID: UInt64, in frame: UnsafeMutableRawBufferPointer) {
        precondition(frame.count >= fixedBytes, "This is too short for a DELIVER frame.")
        store(streamID, at: streamIDOffset, in: frame.baseAddress!)
    }

    @inlinable @inline(__always)
    static func store<Integer: FixedWidthInteger>(
        _ value: Integer, at offset: Int, in base: UnsafeMutableRawPointer
    ) {
        base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }
}
