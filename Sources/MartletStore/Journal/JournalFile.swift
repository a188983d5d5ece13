// SPDX-License-Identifier: Apache-2.0
//
// One of the journal's two files: the first block holds a checkpoint, and records follow. Each record is one write
// that bypasses the system's cache and is durable on return (O_DIRECT, O_DSYNC). A write of 320 KiB takes 245 µs
// and 76 µs of CPU that way; write and fdatasync take 400 µs and 200 µs. O_DIRECT requires that records are whole
// blocks. A file keeps the length of its largest use: overwriting existing blocks leaves the file system no
// metadata to write. Rests on POSIX files.
//
//   first block   u64 magic ‖ u64 checksum of the rest of the block ‖ u32 version ‖ u32 bytes of a page of the data
//                 file ‖ u64 generation ‖ u64 number of the last record before ‖ u64 transaction of the data
//                 file ‖ u64 seed of checksums ‖ the beginning of the data file's meta page ‖ u8 whether the data
//                 file has a mark ‖ u64 identity of the folder while it is open
//   records       see `ChangeBuffer`; record numbers rise by one

internal import CLMDB
import Glibc
import MartletBase
import MartletEngine
import MartletRows

/// A file of records, open.
final class JournalFile {
    static let blockBytes = 4096
    private static let magic: UInt64 = 0x4C4E_524A_5452_414D
    private static let version: UInt32 = 1
    private static let metaOffset = 56
    private static let markedOffset = metaOffset + DataFile.metaBytes
    private static let identityOffset = markedOffset + 1
    /// The unit by which the file grows, in bytes; new bytes are zeros.
    private static let stepBytes = 1 << 20
    private static let zeros = ZeroBytes(count: stepBytes)
    /// Largest length that a reused file keeps: `shorten` cuts a file that a large transaction made longer.
    private static let keptBytes = 64 << 20

    /// A checkpoint: a state of the data file that is on disk and stays there, and its place among the journal's
    /// records.
    struct Base {
        /// The generation of the checkpoint. Of the two files, the file with the higher generation is valid.
        var generation: UInt64
        /// The number of the last record that the data file contains.
        var number: UInt64
        /// LMDB's number of the transaction.
        var transaction: UInt64
        /// A random number in the checksums of this journal's records, so that the bytes of a message cannot
        /// imitate a record.
        var seed: UInt64
        var pageBytes: Int
        /// The beginning of LMDB's meta page, which leads to all other pages.
        var meta: [UInt8]
        /// Whether the data file has the mark of record `number`. False before the first record, and in folders of
        /// earlier programs.
        var isMarked: Bool
        /// The files that the open store writes; `none` once it is closed.
        var identity: FolderIdentity
    }

    static var damaged: StorageError {
        StorageError(
            operation: "read the journal", code: EBADMSG, text: "a record is not what it should be",
            isFull: false)
    }

    let path: String
    private let descriptor: Int32
    private var byteCount: Int

    /// - Parameter creating: creates a missing file; otherwise the result for a missing file is nil.
    init?(at path: String, creating: Bool) throws(StorageError) {
        self.path = path
        let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_DSYNC | (creating ? O_CREAT : 0)
        var opened = open(path, flags | Int32(MARTLET_O_DIRECT), 0o600)
        // Some file systems, such as those in memory, do not support O_DIRECT.
        if opened < 0, errno == EINVAL { opened = open(path, flags, 0o600) }
        descriptor = opened
        byteCount = 0
        if descriptor < 0, errno == ENOENT, !creating { return nil }
        guard descriptor >= 0 else { throw failure("open \(path)", errno) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure("open \(path)", errno) }
        byteCount = Int(status.st_size) / Self.blockBytes * Self.blockBytes
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Computes a checksum that exposes a partly written record. Four independent sums, because each step of one
    /// sum must wait for the previous step.
    static func checksum(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 1) -> UInt64 {
        func word(_ at: Int) -> UInt64 {
            bytes.loadLittleEndian(UInt64.self, at: at)
        }
        func next(_ sum: UInt64, _ word: UInt64) -> UInt64 {
            let mixed = (sum ^ word) &* 0xFF51_AFD7_ED55_8CCD
            return mixed ^ mixed >> 32
        }
        var sums: (UInt64, UInt64, UInt64, UInt64) = (
            seed, seed ^ 2, seed ^ 3, UInt64(bytes.count)
        )
        var at = 0
        while at + 32 <= bytes.count {
            sums.0 = next(sums.0, word(at))
            sums.1 = next(sums.1, word(at + 8))
            sums.2 = next(sums.2, word(at + 16))
            sums.3 = next(sums.3, word(at + 24))
            at += 32
        }
        for byte in bytes[at...] { sums.0 = next(sums.0, UInt64(byte)) }
        return next(next(next(sums.0, sums.1), sums.2), sums.3)
    }

    var isEmpty: Bool { byteCount == 0 }

    // MARK: Base

    /// The checkpoint in the first block; nil if the block was never written completely.
    func base() throws(StorageError) -> Base? {
        guard byteCount >= Self.blockBytes else { return nil }
        let block = try read(at: 0, count: Self.blockBytes)
        let version = block.withUnsafeBytes { block -> UInt32? in
            guard block.loadLittleEndian(UInt64.self, at: 0) == Self.magic,
                block.loadLittleEndian(UInt64.self, at: 8)
                    == Self.checksum(UnsafeRawBufferPointer(rebasing: block[16...]))
            else { return nil }
            return block.loadLittleEndian(UInt32.self, at: 16)
        }
        guard let version else { return nil }
        guard version == Self.version else {
            throw StorageError(
                operation: "read the journal", code: EBADMSG,
                text: "it has version \(version), and version \(Self.version) is known",
                isFull: false)
        }
        return block.withUnsafeBytes { block in
            Base(
                generation: block.loadLittleEndian(UInt64.self, at: 24),
                number: block.loadLittleEndian(UInt64.self, at: 32),
                transaction: block.loadLittleEndian(UInt64.self, at: 40),
                seed: block.loadLittleEndian(UInt64.self, at: 48),
                pageBytes: Int(block.loadLittleEndian(UInt32.self, at: 20)),
                meta: Array(block[Self.metaOffset..<Self.markedOffset]),
                isMarked: block[Self.markedOffset] == 1,
                identity: FolderIdentity(
                    rawValue: block.loadLittleEndian(UInt64.self, at: Self.identityOffset)))
        }
    }

    /// Writes a checkpoint; on return the block is on disk. The file must already have the first block.
    func write(_ base: Base) throws(StorageError) {
        var block = RecordWriter()
        block.append(Self.version)
        block.append(UInt32(base.pageBytes))
        block.append(base.generation)
        block.append(base.number)
        block.append(base.transaction)
        block.append(base.seed)
        block.bytes += base.meta
        block.append(UInt8(base.isMarked ? 1 : 0))
        block.append(base.identity.rawValue)
        block.bytes += [UInt8](repeating: 0, count: Self.blockBytes - 16 - block.bytes.count)
        var header = RecordWriter()
        header.append(Self.magic)
        header.append(block.bytes.withUnsafeBytes { Self.checksum($0) })
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.blockBytes, alignment: Self.blockBytes)
        defer { memory.deallocate() }
        invariant(
            header.bytes.count + block.bytes.count == Self.blockBytes,
            "A checkpoint fills its block.")
        memory.copyBytes(from: header.bytes + block.bytes)
        try write(UnsafeRawBufferPointer(memory), at: 0)
    }

    // MARK: Records

    /// Calls `body` with the changes of each record in sequence.
    /// - Parameter number: the number of the previous record; on return the number of the last record.
    /// - Returns: the offset at which the next record can begin.
    func forEachRecord(
        after number: inout UInt64, seed: UInt64,
        _ body: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(StorageError) -> Int {
        var at = Self.blockBytes
        while let record = try record(at: at, seed: seed), record.number == number + 1 {
            try record.bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
                let changes = bytes[ChangeBuffer.headerBytes...]
                try body(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: changes)))
            }
            number = record.number
            at += (record.bytes.count + Self.blockBytes - 1) / Self.blockBytes * Self.blockBytes
        }
        return at
    }

    /// Whether a whole record with a higher number lies at or after `offset`.
    func hasRecord(after number: UInt64, seed: UInt64, from offset: Int) throws(StorageError)
        -> Bool
    {
        for piece in stride(from: offset, to: byteCount, by: Self.stepBytes) {
            let bytes = try read(at: piece, count: min(Self.stepBytes, byteCount - piece))
            for block in stride(from: 0, to: bytes.count, by: Self.blockBytes) {
                let mayFollow = bytes.withUnsafeBytes {
                    $0.loadLittleEndian(UInt64.self, at: block) == ChangeBuffer.magic
                        && $0.loadLittleEndian(UInt64.self, at: block + 16) > number
                }
                if mayFollow, try record(at: piece + block, seed: seed) != nil { return true }
            }
        }
        return false
    }

    /// The record at an offset; nil if no whole record begins there.
    private func record(
        at offset: Int, seed: UInt64
    ) throws(StorageError) -> (number: UInt64, bytes: [UInt8])? {
        guard offset + Self.blockBytes <= byteCount else { return nil }
        let header = try read(at: offset, count: ChangeBuffer.headerBytes)
        let (magic, number, count) = header.withUnsafeBytes {
            (
                $0.loadLittleEndian(UInt64.self, at: 0),
                $0.loadLittleEndian(UInt64.self, at: 16),
                $0.loadLittleEndian(UInt64.self, at: 24)
            )
        }
        guard magic == ChangeBuffer.magic,
            count <= UInt64(byteCount - offset - ChangeBuffer.headerBytes)
        else { return nil }
        let record = try read(at: offset, count: ChangeBuffer.headerBytes + Int(count))
        let isWhole = record.withUnsafeBytes {
            $0.loadLittleEndian(UInt64.self, at: 8)
                == Self.checksum(UnsafeRawBufferPointer(rebasing: $0[16...]), seed: seed)
        }
        return isWhole ? (number, record) : nil
    }

    /// Makes the file at least `end` bytes long, so that later writes need no new room on the disk.
    func reserve(_ end: Int) throws(StorageError) {
        guard end > byteCount else { return }
        let whole = (end + Self.stepBytes - 1) / Self.stepBytes * Self.stepBytes
        // Through the system's cache, to wait only once for all pieces.
        let writer = open(path, O_WRONLY | O_CLOEXEC)
        guard writer >= 0 else { throw failure("write the journal", errno) }
        defer { close(writer) }
        var longer = byteCount
        while longer < whole {
            let count = min(Self.stepBytes, whole - longer)
            let written = pwrite(writer, Self.zeros.bytes.baseAddress, count, off_t(longer))
            if written < 0, errno == EINTR { continue }
            guard written > 0 else {
                throw failure("write the journal", written < 0 ? errno : ENOSPC)
            }
            longer += written
        }
        guard fdatasync(writer) == 0 else { throw failure("write the journal", errno) }
        byteCount = whole
        invariant(
            byteCount >= end && byteCount % Self.blockBytes == 0,
            "A file of records has room in whole blocks.")
    }

    /// Switches to writing through the system's cache, for file systems with larger blocks or without real support
    /// for O_DIRECT. O_DSYNC stays.
    /// - Returns: whether the mode has changed.
    private func writesByCache() -> Bool {
        let (flags, direct) = (fcntl(descriptor, F_GETFL), Int32(MARTLET_O_DIRECT))
        return flags >= 0 && flags & direct != 0 && fcntl(descriptor, F_SETFL, flags & ~direct) == 0
    }

    /// Whether the file still has a name. The kernel deletes a nameless file when the process ends.
    var isThere: Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_nlink > 0
    }

    func remove() throws(StorageError) {
        guard ftruncate(descriptor, 0) == 0, unlink(path) == 0 else {
            throw failure("remove \(path)", errno)
        }
    }

    /// Cuts a longer file to `keptBytes`; a failure changes nothing.
    func shorten() {
        if byteCount > Self.keptBytes, ftruncate(descriptor, off_t(Self.keptBytes)) == 0 {
            byteCount = Self.keptBytes
        }
    }

    /// Overwrites a block with zeros, so that no record begins there.
    func clearBlock(at offset: Int) throws(StorageError) {
        try write(
            UnsafeRawBufferPointer(rebasing: Self.zeros.bytes[..<Self.blockBytes]), at: offset)
    }

    /// As `clearBlock`, if the file has the block at all. A full disk has no room for another block.
    func clearEnd(at offset: Int) throws(StorageError) {
        if offset + Self.blockBytes <= byteCount { try clearBlock(at: offset) }
    }

    /// Writes blocks; on return the bytes are on disk.
    /// - Parameter bytes: whole blocks, at an address that is a multiple of a block.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StorageError) {
        invariant(
            bytes.count % Self.blockBytes == 0 && offset % Self.blockBytes == 0,
            "A file of records is written in whole blocks.")
        var done = 0
        while done < bytes.count {
            let written = pwrite(
                descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if written < 0, errno == EINTR { continue }
            if written < 0, errno == EINVAL, writesByCache() { continue }
            guard written > 0 else {
                throw failure("write the journal", written < 0 ? errno : ENOSPC)
            }
            done += written
        }
    }

    private func read(at offset: Int, count: Int) throws(StorageError) -> [UInt8] {
        // Through the system's cache, because reads have any length.
        let reader = open(path, O_RDONLY | O_CLOEXEC)
        guard reader >= 0 else { throw failure("read the journal", errno) }
        defer { close(reader) }
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let read = bytes.withUnsafeMutableBytes {
                pread(reader, $0.baseAddress! + done, count - done, off_t(offset + done))
            }
            if read < 0, errno == EINTR { continue }
            guard read > 0 else { throw failure("read the journal", read < 0 ? errno : EBADMSG) }
            done += read
        }
        return bytes
    }
}

/// Zeros at an address that is a multiple of a block.
private struct ZeroBytes: @unchecked Sendable {
    let bytes: UnsafeRawBufferPointer

    init(count: Int) {
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: count, alignment: JournalFile.blockBytes)
        memset(memory.baseAddress!, 0, count)
        bytes = UnsafeRawBufferPointer(memory)
    }
}
