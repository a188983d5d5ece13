// SPDX-License-Identifier: Apache-2.0
//
// Reads the fields of a frame's body. Every read checks its bounds first and throws; no input makes the reader
// trap. A list reserves room only for entries that the remaining bytes can hold. A reader borrows the bytes, so it
// must not outlive the call that passed them. Rests on MartletBase.

import MartletBase

/// A cursor in the body of a frame.
public struct WireReader {
    let bytes: UnsafeRawBufferPointer
    public private(set) var offset = 0

    public init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    /// Bytes not yet read.
    public var remaining: Int { bytes.count - offset }

    /// Advances by `count` bytes.
    /// - Returns: the offset of the first of the bytes.
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
        bytes.loadLittleEndian(UInt16.self, at: try take(2))
    }

    public mutating func u32() throws(WireError) -> UInt32 {
        bytes.loadLittleEndian(UInt32.self, at: try take(4))
    }

    public mutating func u64() throws(WireError) -> UInt64 {
        bytes.loadLittleEndian(UInt64.self, at: try take(8))
    }

    public mutating func i64() throws(WireError) -> Int64 {
        Int64(bitPattern: try u64())
    }

    /// Reads a `u32`. 4,294,967,295 means absent.
    mutating func optionalU32() throws(WireError) -> UInt32? {
        let value = try u32()
        return value == WireVersion.absent ? nil : value
    }

    /// Reads the correlation of a request or of an answer, and refuses 0.
    public mutating func correlation() throws(WireError) -> UInt32 {
        let value = try u32()
        guard value != 0 else { throw .zeroCorrelation }
        return value
    }

    /// Reads a `u8` that must be 0 or 1.
    public mutating func flag(_ field: String) throws(WireError) -> Bool {
        let value = try u8()
        guard value <= 1 else { throw .unknownValue(field: field, value: UInt64(value)) }
        return value == 1
    }

    /// Reads a numbered choice of one byte.
    public mutating func choice<Choice: RawRepresentable<UInt8>>(
        _ field: String, as type: Choice.Type = Choice.self
    ) throws(WireError) -> Choice {
        let value = try u8()
        guard let choice = Choice(rawValue: value) else {
            throw .unknownValue(field: field, value: UInt64(value))
        }
        return choice
    }

    /// Borrows the next `count` bytes.
    public mutating func raw(_ count: Int) throws(WireError) -> UnsafeRawBufferPointer {
        let start = try take(count)
        return UnsafeRawBufferPointer(rebasing: bytes[start..<start + count])
    }

    /// Borrows the bytes of a `str`, not yet checked for UTF-8.
    mutating func stringBytes() throws(WireError) -> UnsafeRawBufferPointer {
        try raw(Int(try u16()))
    }

    public mutating func string() throws(WireError) -> String {
        let start = offset
        return try Self.text(try stringBytes(), at: start)
    }

    /// Borrows all bytes up to the end of the frame.
    public mutating func rest() -> UnsafeRawBufferPointer {
        let start = offset
        offset = bytes.count
        return UnsafeRawBufferPointer(rebasing: bytes[start...])
    }

    /// Reads `u16 n · n × (…)`. Throws before the allocation if the remaining bytes cannot hold `n` entries.
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

    /// Throws unless the whole body has been read.
    public func finish() throws(WireError) {
        guard remaining == 0 else { throw .trailingBytes(count: remaining) }
    }

    static func text(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(WireError) -> String {
        if bytes.isEmpty { return "" }
        guard UTF8Check.isValid(bytes) else { throw .invalidUTF8(byteOffset: offset) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
