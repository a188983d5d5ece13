// SPDX-License-Identifier: Apache-2.0
//
// Appends frames to a buffer that is kept and reused, so that a busy connection encodes without
// allocating. Encoding is total: a text or list that its count field cannot express is clipped and
// remembered in `isClipped`; a client refuses to send such a frame, and the broker, whose own texts
// are bounded, at worst cuts a sentence short. Rests on nothing.

/// A growing buffer of encoded frames.
public struct WireWriter: Sendable {
    public private(set) var bytes: [UInt8] = []
    /// Whether something did not fit its count field (65,535 bytes or entries) and was cut.
    public private(set) var isClipped = false

    public init(reservingBytes: Int = 0) {
        if reservingBytes > 0 { bytes.reserveCapacity(reservingBytes) }
    }

    /// Forgets what was written and keeps the memory.
    public mutating func reset() {
        bytes.removeAll(keepingCapacity: true)
        isClipped = false
    }

    public mutating func u8(_ value: UInt8) { bytes.append(value) }
    public mutating func u16(_ value: UInt16) { append(value.littleEndian) }
    public mutating func u32(_ value: UInt32) { append(value.littleEndian) }
    public mutating func u64(_ value: UInt64) { append(value.littleEndian) }
    public mutating func i64(_ value: Int64) { append(value.littleEndian) }
    public mutating func flag(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// A `u32` that is 4,294,967,295 when absent.
    public mutating func optionalU32(_ value: UInt32?) { u32(value ?? WireVersion.absent) }

    public mutating func raw(_ content: [UInt8]) { bytes.append(contentsOf: content) }
    public mutating func raw(_ content: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: content)
    }

    /// `u16` byte count and UTF-8. A longer text ends at the last whole character that fits.
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

    /// The bytes of a text without a count, up to the end of what holds them.
    public mutating func text(_ text: String) { bytes.append(contentsOf: text.utf8) }

    /// `u16` byte count and the bytes.
    public mutating func counted(_ content: [UInt8]) {
        let count = min(content.count, Int(UInt16.max))
        if count < content.count { isClipped = true }
        u16(UInt16(count))
        bytes.append(contentsOf: content[..<count])
    }

    /// `u16 n · n × (…)`.
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

    /// A whole frame: the length is filled in when the body is written.
    public mutating func frame(_ type: FrameType, _ body: (inout WireWriter) -> Void) {
        let start = bytes.count
        u32(0)
        u8(type.rawValue)
        body(&self)
        patch(UInt32(bytes.count - start - WireVersion.lengthBytes), at: start)
    }

    private mutating func append<Integer: FixedWidthInteger>(_ value: Integer) {
        withUnsafeBytes(of: value) { bytes.append(contentsOf: $0) }
    }

    /// Overwrites four bytes written earlier.
    private mutating func patch(_ value: UInt32, at offset: Int) {
        for index in 0..<4 {
            bytes[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * index))
        }
    }
}
