// SPDX-License-Identifier: Apache-2.0
//
// Appends frames to a buffer that is kept and reused, so a busy connection encodes without allocating. Encoding
// never fails: a text or list that is too long for its count field is clipped, and `isClipped` is set. A client
// refuses to send a clipped frame. The broker's own texts are bounded, so the broker at worst cuts a sentence
// short. Rests on MartletBase.

import MartletBase

/// A growing buffer of encoded frames.
public struct WireWriter: Sendable {
    public private(set) var bytes: [UInt8] = []
    /// True if a text or list did not fit its count field (65,535 bytes or entries) and was cut.
    public private(set) var isClipped = false

    public init(reservingBytes: Int = 0) {
        if reservingBytes > 0 { bytes.reserveCapacity(reservingBytes) }
    }

    /// Forgets the written bytes and keeps the memory.
    public mutating func reset() {
        bytes.removeAll(keepingCapacity: true)
        isClipped = false
    }

    public mutating func u8(_ value: UInt8) { bytes.append(value) }
    public mutating func u16(_ value: UInt16) { bytes.append(littleEndian: value) }
    public mutating func u32(_ value: UInt32) { bytes.append(littleEndian: value) }
    public mutating func u64(_ value: UInt64) { bytes.append(littleEndian: value) }
    public mutating func i64(_ value: Int64) { bytes.append(littleEndian: value) }
    public mutating func flag(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// Appends a `u32`; 4,294,967,295 if the value is absent.
    mutating func optionalU32(_ value: UInt32?) { u32(value ?? WireVersion.absent) }

    public mutating func raw(_ content: [UInt8]) { bytes.append(contentsOf: content) }
    public mutating func raw(_ content: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: content)
    }

    /// Appends a `u16` byte count and the UTF-8 bytes. A text that is too long ends at the last whole character
    /// that fits.
    public mutating func string(_ text: String) {
        var utf8 = text.utf8[...]
        if utf8.count > Int(UInt16.max) {
            isClipped = true
            var end = utf8.index(utf8.startIndex, offsetBy: Int(UInt16.max))
            while utf8[end] & 0xC0 == 0x80 { end = utf8.index(before: end) }
            utf8 = utf8[..<end]
        }
        u16(UInt16(utf8.count))
        bytes.append(contentsOf: utf8)
    }

    /// Appends the UTF-8 bytes without a count, for a text that ends with the enclosing field.
    public mutating func text(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// Appends a `u16` byte count and the bytes.
    public mutating func counted(_ content: [UInt8]) {
        let count = min(content.count, Int(UInt16.max))
        if count < content.count { isClipped = true }
        u16(UInt16(count))
        bytes.append(contentsOf: content[..<count])
    }

    /// Appends `u16 n · n × (…)`.
    public mutating func list<Element>(
        _ elements: [Element], _ entry: (inout WireWriter, Element) -> Void
    ) {
        let count = min(elements.count, Int(UInt16.max))
        if count < elements.count { isClipped = true }
        u16(UInt16(count))
        for element in elements[..<count] { entry(&self, element) }
    }

    public mutating func strings(_ texts: [String]) {
        list(texts) { (writer, text) in writer.string(text) }
    }

    /// Appends a whole frame. The length is filled in after the body has been written.
    public mutating func frame(_ type: FrameType, _ body: (inout WireWriter) -> Void) {
        let start = bytes.count
        u32(0)
        u8(type.rawValue)
        body(&self)
        patch(UInt32(bytes.count - start - WireVersion.lengthBytes), at: start)
    }

    /// Overwrites four bytes at an earlier offset.
    private mutating func patch(_ value: UInt32, at offset: Int) {
        for index in 0..<4 {
            bytes[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * index))
        }
    }
}
