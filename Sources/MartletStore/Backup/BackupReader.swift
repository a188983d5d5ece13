// SPDX-License-Identifier: Apache-2.0
//
// Reads the stream of a backup. The bytes are untrusted: lengths are measured before use, and the digest decides at
// the end whether the stream is whole and unchanged. Until then the caller keeps everything aside. Rests on
// BackupStream.

import Glibc
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

    deinit { buffer.deallocate() }

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
            return .table(String(decoding: try take(Int(try take(1)[0])), as: UTF8.self))
        case .row:
            let lengths = try take(6)
            let keyBytes = Int(lengths.loadLittleEndian(UInt16.self, at: 0))
            let valueBytes = Int(lengths.loadLittleEndian(UInt32.self, at: 2))
            guard valueBytes <= BackupStream.valueBytesMax else { throw Self.malformed }
            let bytes = try take(keyBytes + valueBytes)
            return .row(
                key: UnsafeRawBufferPointer(rebasing: bytes[..<keyBytes]),
                value: UnsafeRawBufferPointer(rebasing: bytes[keyBytes...]))
        case .end: return nil
        case nil: throw Self.malformed
        }
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
