// SPDX-License-Identifier: Apache-2.0
//
// The values of fields on the wire, beside integers and texts: what the types of `Protocol/martlet.protocol` are in bytes. The
// generated codecs call these. Rests on `WireReader` and `WireWriter`.

import MartletBase

/// The fields that a frame has together, often many times.
protocol WireEntry {
    /// Bytes of the shortest entry. The bound lets the reader refuse a count that the frame cannot hold.
    static var bytesMin: Int { get }
    init(from reader: inout WireReader) throws(WireError)
    func encode(into writer: inout WireWriter)
}

extension WireReader {
    mutating func entries<Entry: WireEntry>() throws(WireError) -> [Entry] {
        try list(entryBytesMin: Entry.bytesMin) { (reader) throws(WireError) in
            try Entry(from: &reader)
        }
    }

    mutating func numbers() throws(WireError) -> [UInt64] {
        try list(entryBytesMin: 8) { (reader) throws(WireError) in try reader.u64() }
    }

    /// Reads a `u16` byte count and so many bytes of any value.
    mutating func countedBytes() throws(WireError) -> [UInt8] { Array(try stringBytes()) }

    mutating func instant() throws(WireError) -> Instant {
        Instant(millisecondsSince1970: try i64())
    }

    /// Reads an error word by number. A number that a later version introduced reads as `internal`.
    mutating func errorWord() throws(WireError) -> ErrorWord {
        ErrorWord(rawValue: try u16()) ?? .internal
    }

    /// Reads the version of the protocol.
    mutating func version() throws(WireError) {
        let version = try u8()
        guard version == WireVersion.current else { throw .unsupportedVersion(version) }
    }

    /// Reads a numbered choice of one byte that may not be this one.
    mutating func choice<Choice: RawRepresentable<UInt8>>(
        _ field: String, but refused: UInt8
    ) throws(WireError) -> Choice {
        let choice: Choice = try choice(field)
        guard choice.rawValue != refused else {
            throw .unknownValue(field: field, value: UInt64(refused))
        }
        return choice
    }

    /// Reads a numbered choice of one byte; 0 means absent.
    mutating func optionalChoice<Choice: RawRepresentable<UInt8>>(
        _ field: String
    ) throws(WireError) -> Choice? {
        let value = try u8()
        let choice = Choice(rawValue: value)
        guard choice != nil || value == 0 else {
            throw .unknownValue(field: field, value: UInt64(value))
        }
        return choice
    }

    /// Reads a `u8`. 0 means absent.
    mutating func nonzeroU8() throws(WireError) -> UInt8? {
        let value = try u8()
        return value == 0 ? nil : value
    }

    /// Reads a `u32`. 0 means absent.
    mutating func nonzeroU32() throws(WireError) -> UInt32? {
        let value = try u32()
        return value == 0 ? nil : value
    }

    /// Reads a count of things in memory or on disk.
    /// - Throws: `WireError` for a count beyond `Int`, which no broker can have.
    mutating func size(_ field: String) throws(WireError) -> Int {
        let value = try u64()
        guard let size = Int(exactly: value) else {
            throw .unknownValue(field: field, value: value)
        }
        return size
    }

    /// Reads a count of things. 0 means absent.
    mutating func nonzeroSize(_ field: String) throws(WireError) -> Int? {
        let value = try size(field)
        return value == 0 ? nil : value
    }

    /// Reads a `u32` as a count. 4,294,967,295 means absent.
    mutating func optionalSize32() throws(WireError) -> Int? { try optionalU32().map { Int($0) } }

    /// Reads milliseconds of a `u32`. 4,294,967,295 means absent.
    mutating func optionalMilliseconds() throws(WireError) -> UInt64? {
        try optionalU32().map { UInt64($0) }
    }

    /// Reads a part of 1, in millionths.
    /// - Throws: `WireError` for more than 1.
    mutating func part(_ field: String) throws(WireError) -> Double {
        let millionths = try u32()
        guard millionths <= 1_000_000 else {
            throw .unknownValue(field: field, value: UInt64(millionths))
        }
        return Double(millionths) / 1_000_000
    }

    /// Reads a `u32` as a fraction.
    mutating func rate() throws(WireError) -> Double { Double(try u32()) }

    /// Reads a `u32` as a fraction. 4,294,967,295 means absent.
    mutating func optionalRate() throws(WireError) -> Double? {
        try optionalU32().map { Double($0) }
    }
}

extension WireWriter {
    mutating func entries(_ entries: [some WireEntry]) {
        list(entries) { (writer, entry) in entry.encode(into: &writer) }
    }

    mutating func numbers(_ numbers: [UInt64]) {
        list(numbers) { (writer, number) in writer.u64(number) }
    }

    mutating func instant(_ instant: Instant) { i64(instant.millisecondsSince1970) }

    /// Appends a count as a `u32`. A count beyond the type becomes the largest value below `WireVersion.absent`.
    mutating func optionalSize32(_ size: Int?) {
        optionalU32(size.map { UInt32(exactly: $0) ?? WireVersion.absent - 1 })
    }

    /// Appends milliseconds as a `u32`. A longer time is cut to some 49 days.
    mutating func optionalMilliseconds(_ milliseconds: UInt64?) {
        optionalU32(milliseconds.map { UInt32(min($0, UInt64(WireVersion.absent - 1))) })
    }

    /// Appends a part of 1 in millionths. A part that came as millionths goes on exactly.
    mutating func part(_ part: Double) {
        u32(UInt32((min(max(part, 0), 1) * 1_000_000).rounded()))
    }

    /// Appends a value as a whole `u32`, cut to the range of the type.
    mutating func rate(_ rate: Double) { u32(UInt32(min(max(rate, 0), Double(UInt32.max)))) }

    /// Appends a value as the next whole `u32`, cut to the values below `WireVersion.absent`.
    mutating func optionalRate(_ rate: Double?) {
        optionalU32(
            rate.map { UInt32(min(max($0.rounded(.up), 0), Double(WireVersion.absent - 1))) })
    }
}

// MARK: Values whose initializers have other labels than the protocol

extension MartletError {
    init(
        word: ErrorWord, retryDelayMilliseconds: UInt32?, byteOffset: UInt32?, field: String,
        message: String
    ) {
        self.init(
            word, message, field: field, byteOffset: byteOffset,
            retryDelayMilliseconds: retryDelayMilliseconds)
    }
}

extension ProjectLimitChange {
    init(limit: ProjectLimit, value: Int?) { self.init(limit, to: value) }
}
