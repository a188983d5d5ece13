// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of one frame's body. Every read checks its bounds first and throws; nothing here
// traps, whatever the bytes are, and nothing allocates more than the bytes that are there. It
// borrows the bytes: a reader does not outlive the call that was given them.

/// A position in the body of a frame.
public struct WireReader {
    let bytes: UnsafeRawBufferPointer
    public private(set) var offset = 0

    public init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    /// Bytes not yet read.
    public var remaining: Int { bytes.count - offset }

    /// Moves over `count` bytes and tells where they began.
    @inline(__always)
    private mutating func take(_ count: Int) throws(WireError) -> Int {
        let start = offset
        guard count <= bytes.count - start else {
            throw .truncated(neededBytes: count, availableBytes: bytes.count - start)
        }
        offset = start + count
        return start
    }

    public mutating func u8() throws(WireError) -> UInt8 {
        bytes[try take(1)]
    }

    public mutating func u16() throws(WireError) -> UInt16 {
        UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: try take(2), as: UInt16.self))
    }

    public mutating func u32() throws(WireError) -> UInt32 {
        UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: try take(4), as: UInt32.self))
    }

    public mutating func u64() throws(WireError) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: try take(8), as: UInt64.self))
    }

    public mutating func i64() throws(WireError) -> Int64 {
        Int64(bitPattern: try u64())
    }

    /// A `u32` that is absent at 4,294,967,295.
    public mutating func optionalU32() throws(WireError) -> UInt32? {
        let value = try u32()
        return value == WireVersion.absent ? nil : value
    }

    /// The correlation of a request or of its answer, which is not 0.
    public mutating func correlation() throws(WireError) -> UInt32 {
        let value = try u32()
        guard value != 0 else { throw .zeroCorrelation }
        return value
    }

    /// A `u8` that is 0 or 1.
    public mutating func flag(_ field: String) throws(WireError) -> Bool {
        let value = try u8()
        guard value <= 1 else { throw .unknownValue(field: field, value: UInt64(value)) }
        return value == 1
    }

    /// A numbered choice of one byte.
    public mutating func choice<Choice: RawRepresentable<UInt8>>(
        _ field: String, as type: Choice.Type = Choice.self
    ) throws(WireError) -> Choice {
        let value = try u8()
        guard let choice = Choice(rawValue: value) else {
            throw .unknownValue(field: field, value: UInt64(value))
        }
        return choice
    }

    /// The next `count` bytes, borrowed.
    public mutating func raw(_ count: Int) throws(WireError) -> UnsafeRawBufferPointer {
        let start = try take(count)
        return UnsafeRawBufferPointer(rebasing: bytes[start..<start + count])
    }

    /// The bytes of a `str`, borrowed and not yet known to be UTF-8.
    public mutating func stringBytes() throws(WireError) -> UnsafeRawBufferPointer {
        try raw(Int(try u16()))
    }

    public mutating func string() throws(WireError) -> String {
        let start = offset
        return try Self.text(try stringBytes(), at: start)
    }

    /// All bytes up to the end of the frame, borrowed.
    public mutating func rest() -> UnsafeRawBufferPointer {
        let start = offset
        offset = bytes.count
        return UnsafeRawBufferPointer(rebasing: bytes[start...])
    }

    /// `u16 n · n × (…)`. Room is reserved for no more entries than the remaining bytes can hold.
    public mutating func list<Element>(
        entryBytesMin: Int, _ entry: (inout WireReader) throws(WireError) -> Element
    ) throws(WireError) -> [Element] {
        let count = Int(try u16())
        let needed = count * entryBytesMin
        guard needed <= remaining else {
            throw .truncated(neededBytes: needed, availableBytes: remaining)
        }
        var elements: [Element] = []
        elements.reserveCapacity(count)
        for _ in 0..<count { elements.append(try entry(&self)) }
        return elements
    }

    public mutating func strings() throws(WireError) -> [String] {
        try list(entryBytesMin: 2) { (reader) throws(WireError) in try reader.string() }
    }

    /// Says that the body must be used up here.
    public func finish() throws(WireError) {
        guard remaining == 0 else { throw .trailingBytes(count: remaining) }
    }

    static func text(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(WireError) -> String {
        if bytes.isEmpty { return "" }
        guard UTF8Check.isValid(bytes) else { throw .invalidUTF8(byteOffset: offset) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
