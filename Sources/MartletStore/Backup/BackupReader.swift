// SPDX-License-Identifier: Apache-2.0
//
// Reads the stream of a backup. The bytes are untrusted: lengths are measured before use, and the digest decides at
// the end whether the stream is whole and unchanged. Until then the caller keeps everything aside. Rests on
// BackupStream.

import Glibc
import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows

struct BackupReader: ~Copyable {
    /// An item of the stream. The bytes of a row are valid until the next item is read.
    enum Item {
        case file(name: String, bytes: [UInt8])
        case table(String)
        case row(key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)
    }

    private static let stepBytes = 1 << 20

    private let descriptor: Int32
    private var buffer: UnsafeMutableRawPointer
    private var capacity = BackupReader.stepBytes
    /// Bytes of the buffer that were read, that were handed out, and that are in the digest.
    private var (filled, position, digested) = (0, 0, 0)
    private var digest = SHA256()
    private(set) var byteCount = 0
    /// The key of the row before; the first `keyBytes` bytes count.
    private let key = UnsafeMutableRawPointer.allocate(
        byteCount: BackupStream.keyBytesMax, alignment: 8)
    private var keyBytes = 0
    /// The value of the row before, if the value has at most `changedValueBytesMax` bytes.
    private let value = UnsafeMutableRawPointer.allocate(
        byteCount: BackupStream.changedValueBytesMax, alignment: 8)
    private var valueBytes = 0
    let storeFormat: UInt32
    let created: Int64

    /// Reads the header.
    init(_ descriptor: Int32) throws {
        let header = try Self.header(descriptor)
        self.descriptor = descriptor
        (storeFormat, created) = header.withUnsafeBytes { header in
            (
                header.loadLittleEndian(UInt32.self, at: 12),
                header.loadLittleEndian(Int64.self, at: 16)
            )
        }
        buffer = .allocate(byteCount: capacity, alignment: 16)
        buffer.copyMemory(from: header, byteCount: header.count)
        (filled, position, byteCount) = (header.count, header.count, header.count)
    }

    private static func header(_ descriptor: Int32) throws -> [UInt8] {
        var header = [UInt8](repeating: 0, count: BackupStream.headerBytes)
        var found = 0
        while found < header.count {
            let count = header.withUnsafeMutableBytes {
                read(descriptor, $0.baseAddress! + found, $0.count - found)
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            found += count
        }
        let (magic, version, format) = header.withUnsafeBytes { header in
            (
                header.loadLittleEndian(UInt64.self, at: 0),
                header.loadLittleEndian(UInt32.self, at: 8),
                header.loadLittleEndian(UInt32.self, at: 12)
            )
        }
        guard found == header.count, magic == BackupStream.magic else {
            throw BackupError.damaged("it does not begin as a backup of Martlet does")
        }
        guard version == BackupStream.version, format <= storeFormatVersion else {
            throw BackupError.newer(found: format, known: storeFormatVersion)
        }
        guard format == storeFormatVersion else {
            throw BackupError.older(found: format, known: storeFormatVersion)
        }
        return header
    }

    deinit {
        buffer.deallocate()
        key.deallocate()
        value.deallocate()
    }

    /// The next item; nil at the end of a stream that is whole.
    mutating func next() throws -> Item? {
        let kind = try take(1)[0]
        switch BackupStream.Item(rawValue: kind) {
        case .file:
            let lengths = try take(6)
            let nameBytes = Int(lengths.loadLittleEndian(UInt16.self, at: 0))
            let fileBytes = Int(lengths.loadLittleEndian(UInt32.self, at: 2))
            guard fileBytes <= BackupStream.fileBytesMax else { throw Self.malformed }
            let bytes = try take(nameBytes + fileBytes)
            return .file(
                name: String(decoding: bytes[..<nameBytes], as: UTF8.self),
                bytes: Array(bytes[nameBytes...]))
        case .table:
            (keyBytes, valueBytes) = (0, 0)
            return .table(String(decoding: try take(Int(try take(1)[0])), as: UTF8.self))
        case .row: return try row()
        case .changedRow: return try changedRow()
        case .end: return nil
        case nil: throw Self.malformed
        }
    }

    /// Reads a row whose value is whole.
    private mutating func row() throws -> Item {
        let shared = Int(try take(1)[0])
        let (rest, count) = (try length(), try length())
        guard count <= BackupStream.valueBytesMax else { throw Self.malformed }
        try requireKey(shared, rest)
        let bytes = try take(rest + count)
        let new = UnsafeRawBufferPointer(rebasing: bytes[rest...])
        takeKey(shared, UnsafeRawBufferPointer(rebasing: bytes[..<rest]))
        valueBytes = count
        if let base = new.baseAddress, count <= BackupStream.changedValueBytesMax {
            value.copyMemory(from: base, byteCount: count)
        }
        return .row(key: UnsafeRawBufferPointer(start: key, count: keyBytes), value: new)
    }

    /// Reads a row whose value is a change of the value before.
    private mutating func changedRow() throws -> Item {
        let shared = Int(try take(1)[0])
        let rest = try length()
        try requireKey(shared, rest)
        guard (1...BackupStream.changedValueBytesMax).contains(valueBytes) else {
            throw Self.malformed
        }
        let bytes = try take(rest + (valueBytes + 7) / 8)
        takeKey(shared, UnsafeRawBufferPointer(rebasing: bytes[..<rest]))
        var places: UInt128 = 0
        for (index, bits) in bytes[rest...].enumerated() {
            places |= UInt128(bits) << UInt128(8 * index)
        }
        guard places == 0 || UInt128.bitWidth - places.leadingZeroBitCount <= valueBytes else {
            throw Self.malformed
        }
        for byte in try take(places.nonzeroBitCount) {
            value.storeBytes(
                of: byte, toByteOffset: places.trailingZeroBitCount, as: UInt8.self)
            places &= places - 1
        }
        return .row(
            key: UnsafeRawBufferPointer(start: key, count: keyBytes),
            value: UnsafeRawBufferPointer(start: value, count: valueBytes))
    }

    private func requireKey(_ shared: Int, _ rest: Int) throws {
        guard shared <= keyBytes, rest <= BackupStream.keyBytesMax,
            (1...BackupStream.keyBytesMax).contains(shared + rest)
        else { throw Self.malformed }
    }

    private mutating func takeKey(_ shared: Int, _ rest: UnsafeRawBufferPointer) {
        if let base = rest.baseAddress {
            (key + shared).copyMemory(from: base, byteCount: rest.count)
        }
        keyBytes = shared + rest.count
    }

    /// Reads a length of at most four bytes.
    private mutating func length() throws -> Int {
        var length = 0
        for shift in stride(from: 0, to: 28, by: 7) {
            let byte = Int(try take(1)[0])
            length |= (byte & 0x7F) << shift
            if byte < 0x80 { return length }
        }
        throw Self.malformed
    }

    /// Compares the digest. Called once, after the last item.
    /// - Returns: the digest of the stream.
    mutating func end() throws -> [UInt8] {
        digestConsumed()
        let computed = digest.finish()
        guard try Array(take(BackupStream.digestBytes)) == computed else {
            throw BackupError.damaged("its bytes are not those that were written")
        }
        var more: UInt8 = 0
        guard position == filled, read(descriptor, &more, 1) == 0 else {
            throw BackupError.damaged("more bytes follow its end")
        }
        return computed
    }

    private static let malformed = BackupError.damaged("it has an item that was never written")

    private mutating func digestConsumed() {
        digest.update(
            UnsafeRawBufferPointer(start: buffer + digested, count: position - digested))
        digested = position
    }

    /// The next bytes of the stream.
    private mutating func take(_ count: Int) throws -> UnsafeRawBufferPointer {
        if filled - position < count { try fill(count) }
        defer { position += count }
        return UnsafeRawBufferPointer(start: buffer + position, count: count)
    }

    private mutating func fill(_ count: Int) throws {
        digestConsumed()
        memmove(buffer, buffer + position, filled - position)
        (filled, position, digested) = (filled - position, 0, 0)
        if count > capacity {
            capacity = count + Self.stepBytes
            let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
            memcpy(larger, buffer, filled)
            buffer.deallocate()
            buffer = larger
        }
        while filled < count {
            let more = read(descriptor, buffer + filled, capacity - filled)
            if more < 0, errno == EINTR { continue }
            guard more >= 0 else { throw failure("read the backup", errno) }
            guard more > 0 else { throw BackupError.damaged("it ends too early") }
            filled += more
            byteCount += more
        }
    }
}
