// SPDX-License-Identifier: Apache-2.0
//
// Fields as bytes. Numbers have a variable length (LEB128), because most numbers of a command are small: a project, an
// ordinal, a count. Signed numbers go zigzag, so that numbers near 0 are short. Digests and tokens are random bytes and
// stand as they are.
//
//   unsigned   7 bits a byte, the lowest first; bit 7: a byte follows. No more bytes than needed
//   signed     0, -1, 1, -2 … as unsigned 0, 1, 2, 3 …
//   flag       u8: 0 or 1
//   text       unsigned byte count ‖ UTF-8
//   bytes      unsigned byte count ‖ bytes
//   list       unsigned count ‖ entries
//   optional   flag ‖ value if the flag is 1
//   choice     u8, the raw value of the case
//
// Rests on ForwardingFormat.

/// A value with a form of bytes.
protocol FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError)
    func write(to writer: inout FieldWriter)

    /// How a list of such values is read and written: as a count and the entries, but bytes all at once.
    static func list(from reader: inout FieldReader) throws(ForwardingError) -> [Self]
    static func write(_ list: [Self], to writer: inout FieldWriter)
}

extension FieldCoding {
    static func list(from reader: inout FieldReader) throws(ForwardingError) -> [Self] {
        try reader.takeList()
    }

    static func write(_ list: [Self], to writer: inout FieldWriter) { writer.put(list: list) }
}

/// A value whose bytes are its fields, one after the other.
protocol ListedFields: FieldCoding {
    associatedtype List: FieldListing<Self>
    /// The fields, for reading and for writing.
    static var fieldList: List { get }
}

extension ListedFields {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self = try Self.fieldList.value(from: &reader)
    }

    func write(to writer: inout FieldWriter) { Self.fieldList.write(self, to: &writer) }
}

/// The fields of a value, listed once.
protocol FieldListing<Value> {
    associatedtype Value
    func value(from reader: inout FieldReader) throws(ForwardingError) -> Value
    func write(_ value: Value, to writer: inout FieldWriter)
}

/// What makes a value from its fields, and what takes it apart into them. The full name of an initializer has all its
/// parameters, so a new field does not compile until it is listed. A list costs 0.15 µs more than a reader and a writer by
/// hand, which the parts of SEND and of acknowledgements have therefore.
struct FieldList<Value, each Field: FieldCoding>: FieldListing {
    private let make: (repeat each Field) -> Value
    private let fields: (Value) -> (repeat each Field)

    init(
        _ make: @escaping (repeat each Field) -> Value,
        _ fields: @escaping (Value) -> (repeat each Field)
    ) {
        self.make = make
        self.fields = fields
    }

    func value(from reader: inout FieldReader) throws(ForwardingError) -> Value {
        make(repeat try reader.take((each Field).self))
    }

    func write(_ value: Value, to writer: inout FieldWriter) {
        for field in repeat each fields(value) { writer.put(field) }
    }
}

/// Bytes under construction.
struct FieldWriter {
    private(set) var bytes: [UInt8] = []
    /// The first bound that a list or a nesting exceeded.
    private(set) var fault: ForwardingError?
    private var depth = 0

    mutating func put(_ value: some FieldCoding) { value.write(to: &self) }

    mutating func put(byte: UInt8) { bytes.append(byte) }

    /// Appends bytes of a length that the reader knows.
    mutating func put(fixed content: [UInt8]) { bytes += content }

    mutating func put(bytes content: [UInt8]) {
        put(UInt64(content.count))
        bytes += content
    }

    mutating func put(text: String) {
        let utf8 = text.utf8
        put(UInt64(utf8.count))
        bytes.append(contentsOf: utf8)
    }

    mutating func put(list: [some FieldCoding]) {
        if list.count > ForwardingFormat.listEntriesMax, fault == nil {
            fault = .tooLong(
                field: "a list", count: list.count, max: ForwardingFormat.listEntriesMax)
        }
        put(UInt64(list.count))
        for entry in list { put(entry) }
    }

    /// Appends a list whose entries may have lists of their own kind.
    mutating func put(nested list: [some FieldCoding]) {
        depth += 1
        if depth > ForwardingFormat.nestingMax, fault == nil {
            fault = .tooLong(field: "a nesting", count: depth, max: ForwardingFormat.nestingMax)
        }
        put(list: list)
        depth -= 1
    }
}

/// A cursor in bytes of a peer. No bytes make the reader trap.
struct FieldReader {
    private let bytes: [UInt8]
    private(set) var offset = 0
    private var depth = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var remaining: Int { bytes.count - offset }

    mutating func take<Value: FieldCoding>(
        _ type: Value.Type = Value.self
    ) throws(ForwardingError) -> Value {
        try Value(from: &self)
    }

    mutating func takeByte() throws(ForwardingError) -> UInt8 {
        guard offset < bytes.count else { throw .truncated(offset: offset) }
        defer { offset += 1 }
        return bytes[offset]
    }

    mutating func take(fixed count: Int) throws(ForwardingError) -> [UInt8] {
        guard count <= remaining else { throw .truncated(offset: offset) }
        defer { offset += count }
        return Array(bytes[offset..<offset + count])
    }

    private mutating func takeCount() throws(ForwardingError) -> Int {
        let start = offset
        let count = try take(UInt64.self)
        guard count <= UInt64(remaining) else { throw .truncated(offset: start) }
        return Int(count)
    }

    mutating func takeBytes() throws(ForwardingError) -> [UInt8] {
        try take(fixed: try takeCount())
    }

    mutating func takeText() throws(ForwardingError) -> String {
        let start = offset
        let count = try takeCount()
        let content = bytes[offset..<offset + count]
        guard let text = String(validating: content, as: UTF8.self) else {
            throw .notUTF8(offset: start)
        }
        offset += count
        return text
    }

    /// Reads a list. Each entry has a byte at least, so a count without entries reserves no memory.
    mutating func takeList<Entry: FieldCoding>(
        of type: Entry.Type = Entry.self
    ) throws(ForwardingError) -> [Entry] {
        let count = try takeCount()
        guard count <= ForwardingFormat.listEntriesMax else {
            throw .tooLong(field: "a list", count: count, max: ForwardingFormat.listEntriesMax)
        }
        var list: [Entry] = []
        list.reserveCapacity(count)
        for _ in 0..<count { list.append(try take()) }
        return list
    }

    /// Reads a list whose entries may have lists of their own kind.
    mutating func takeNested<Entry: FieldCoding>(
        of type: Entry.Type = Entry.self
    ) throws(ForwardingError) -> [Entry] {
        depth += 1
        guard depth <= ForwardingFormat.nestingMax else {
            throw .tooLong(field: "a nesting", count: depth, max: ForwardingFormat.nestingMax)
        }
        let list = try takeList(of: type)
        depth -= 1
        return list
    }

    /// Reads a byte of flags.
    /// - Parameter known: the flags of the format.
    mutating func takeFlags(
        _ field: String, known: UInt8
    ) throws(ForwardingError) -> UInt8 {
        let start = offset
        let flags = try takeByte()
        guard flags & ~known == 0 else { throw .malformed(field: field, offset: start) }
        return flags
    }

    func finish() throws(ForwardingError) {
        guard remaining == 0 else { throw .trailing(byteCount: remaining) }
    }
}

// MARK: Whole values

extension FieldWriter {
    /// A command or an outcome in the current format.
    static func bytes(
        of value: some FieldCoding, _ name: String
    ) throws(ForwardingError) -> [UInt8] {
        var writer = FieldWriter()
        writer.put(byte: ForwardingFormat.current)
        writer.put(value)
        if let fault = writer.fault { throw fault }
        guard writer.bytes.count <= ForwardingFormat.bytesMax else {
            throw .tooLong(
                field: name, count: writer.bytes.count, max: ForwardingFormat.bytesMax)
        }
        return writer.bytes
    }
}

extension FieldReader {
    /// A command or an outcome in a readable format.
    static func value<Value: FieldCoding>(
        of bytes: [UInt8], _ name: String
    ) throws(ForwardingError) -> Value {
        guard bytes.count <= ForwardingFormat.bytesMax else {
            throw .tooLong(field: name, count: bytes.count, max: ForwardingFormat.bytesMax)
        }
        var reader = FieldReader(bytes)
        let format = try reader.takeByte()
        guard ForwardingFormat.readable.contains(format) else { throw .format(format) }
        let value = try reader.take(Value.self)
        try reader.finish()
        return value
    }
}

// MARK: Values of the standard library

extension UInt64: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        self = 0
        for shift in stride(from: UInt64(0), through: 63, by: 7) {
            let byte = try reader.takeByte()
            let bits = UInt64(byte & 0x7F)
            // The tenth byte has the highest bit alone. A last byte of 0 would be a second form of a shorter number.
            guard shift < 63 || bits <= 1, byte != 0 || shift == 0 else {
                throw .malformed(field: "number", offset: start)
            }
            self |= bits << shift
            if byte & 0x80 == 0 { return }
        }
        throw .malformed(field: "number", offset: start)
    }

    func write(to writer: inout FieldWriter) {
        var rest = self
        while rest >= 0x80 {
            writer.put(byte: UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        writer.put(byte: UInt8(rest))
    }
}

extension UInt8: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) { self = try reader.takeByte() }
    func write(to writer: inout FieldWriter) { writer.put(byte: self) }

    static func list(from reader: inout FieldReader) throws(ForwardingError) -> [UInt8] {
        try reader.takeBytes()
    }

    static func write(_ list: [UInt8], to writer: inout FieldWriter) { writer.put(bytes: list) }
}

/// An integer that is written as a wider integer.
private func narrow<Narrow: FixedWidthInteger>(
    _ wide: some FixedWidthInteger, from offset: Int
) throws(ForwardingError) -> Narrow {
    guard let value = Narrow(exactly: wide) else {
        throw .malformed(field: "number", offset: offset)
    }
    return value
}

extension UInt32: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        self = try narrow(try reader.take(UInt64.self), from: start)
    }

    func write(to writer: inout FieldWriter) { UInt64(self).write(to: &writer) }
}

extension UInt16: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        self = try narrow(try reader.take(UInt64.self), from: start)
    }

    func write(to writer: inout FieldWriter) { UInt64(self).write(to: &writer) }
}

extension Int64: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let zigzag = try reader.take(UInt64.self)
        self = Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1)
    }

    func write(to writer: inout FieldWriter) {
        UInt64(bitPattern: self << 1 ^ self >> 63).write(to: &writer)
    }
}

extension Int: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let start = reader.offset
        self = try narrow(try reader.take(Int64.self), from: start)
    }

    func write(to writer: inout FieldWriter) { Int64(self).write(to: &writer) }
}

extension Bool: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self = try reader.takeFlags("flag", known: 1) == 1
    }

    func write(to writer: inout FieldWriter) { writer.put(byte: self ? 1 : 0) }
}

extension String: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) { self = try reader.takeText() }
    func write(to writer: inout FieldWriter) { writer.put(text: self) }
}

extension Array: FieldCoding where Element: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self = try Element.list(from: &reader)
    }

    func write(to writer: inout FieldWriter) { Element.write(self, to: &writer) }
}

extension Optional: FieldCoding where Wrapped: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        self = try reader.take(Bool.self) ? try reader.take(Wrapped.self) : nil
    }

    func write(to writer: inout FieldWriter) {
        writer.put(self != nil)
        if let value = self { writer.put(value) }
    }
}

// MARK: Values with a raw value

extension FieldCoding where Self: RawRepresentable, RawValue: FieldCoding {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let raw = try reader.take(RawValue.self)
        guard let value = Self(rawValue: raw) else {
            throw .malformed(field: "\(Self.self)", offset: reader.offset)
        }
        self = value
    }

    func write(to writer: inout FieldWriter) { writer.put(rawValue) }
}

extension FieldCoding where Self: RawRepresentable<UInt8> {
    init(from reader: inout FieldReader) throws(ForwardingError) {
        let raw = try reader.takeByte()
        guard let value = Self(rawValue: raw) else {
            throw .unknown(field: "\(Self.self)", number: UInt64(raw))
        }
        self = value
    }

    func write(to writer: inout FieldWriter) { writer.put(byte: rawValue) }
}
