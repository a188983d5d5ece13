// SPDX-License-Identifier: Apache-2.0
//
// Writes the stream of a backup to a descriptor, not faster than told: a running broker waits for the same disk. A
// file is written past the page cache, where the file system can do that: the disk then has one write of the backup at
// a time, and a journal's fdatasync waits for no more than that one. Rests on BackupStream.

internal import CLMDB
import Glibc
import MartletBase
import MartletCrypto
import MartletEngine
import MartletRows

struct BackupWriter: ~Copyable {
    private static let bufferBytes = 1 << 20
    /// Direct writes begin and end at multiples of this number, in the file and in memory.
    private static let blockBytes = 4096

    private let descriptor: Int32
    /// 0: no bound.
    private let bytesPerSecond: Int
    private let isFile: Bool
    /// The flags of the descriptor, while its writes are direct.
    private var flagsBefore: CInt?
    private let began = ContinuousClock.now
    private let buffer = UnsafeMutableRawPointer.allocate(
        byteCount: BackupWriter.bufferBytes, alignment: BackupWriter.blockBytes)
    private var filled = 0
    private var digest = SHA256()
    private(set) var byteCount = 0
    /// The row before in the table, without bytes before the first.
    private var (lastKey, lastValue) = (nothing, nothing)

    private static var nothing: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: nil, count: 0)
    }
    /// Room for a row without a value that is written whole: kind and lengths, key, bits and bytes of a changed value.
    private static let rowBytesMax =
        16 + BackupStream.keyBytesMax + BackupStream.changedValueBytesMax / 8
        + BackupStream.changedValueBytesMax

    init(_ descriptor: Int32, bytesPerSecond: Int) {
        self.descriptor = descriptor
        self.bytesPerSecond = bytesPerSecond
        var status = stat()
        isFile = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        guard isFile, lseek(descriptor, 0, SEEK_CUR) % off_t(Self.blockBytes) == 0 else { return }
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, flags & O_APPEND == 0,
            fcntl(descriptor, F_SETFL, flags | CInt(MARTLET_O_DIRECT)) == 0
        else { return }
        flagsBefore = flags
    }

    deinit {
        if let flagsBefore { _ = fcntl(descriptor, F_SETFL, flagsBefore) }
        buffer.deallocate()
    }

    mutating func header(storeFormat: UInt32, created: Int64) throws(StorageError) {
        try put(BackupStream.magic)
        try put(BackupStream.version)
        try put(storeFormat)
        try put(created)
    }

    mutating func file(_ name: String, _ bytes: [UInt8]) throws(StorageError) {
        let name = Array(name.utf8)
        try put(BackupStream.Item.file.rawValue)
        try put(UInt16(name.count))
        try put(UInt32(bytes.count))
        try put(bytes: name)
        try put(bytes: bytes)
    }

    mutating func table(_ name: String) throws(StorageError) {
        let name = Array(name.utf8)
        try put(BackupStream.Item.table.rawValue)
        try put(UInt8(name.count))
        try put(bytes: name)
        (lastKey, lastValue) = (Self.nothing, Self.nothing)
    }

    /// - Parameters:
    ///   - key: valid until the next row or table is written.
    ///   - value: valid as long as `key`.
    mutating func row(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer)
        throws(StorageError)
    {
        if Self.bufferBytes - filled < Self.rowBytesMax { try flush() }
        let shared = Self.sharedBytes(lastKey, key)
        let rest = UnsafeRawBufferPointer(rebasing: key[shared...])
        let isChange =
            value.count == lastValue.count
            && (1...BackupStream.changedValueBytesMax).contains(value.count)
        let kind = isChange ? BackupStream.Item.changedRow : .row
        append(kind.rawValue)
        append(UInt8(shared))
        append(length: rest.count)
        if !isChange { append(length: value.count) }
        (buffer + filled).copyMemory(from: rest.baseAddress!, byteCount: rest.count)
        filled += rest.count
        if isChange { append(changesOf: value) } else { try put(value) }
        (lastKey, lastValue) = (key, value)
    }

    /// The number of equal bytes at the beginning of two keys, 255 at most, and fewer than `key` has.
    private static func sharedBytes(
        _ last: UnsafeRawBufferPointer, _ key: UnsafeRawBufferPointer
    ) -> Int {
        let most = min(last.count, key.count - 1, Int(UInt8.max))
        var count = 0
        while count < most, last[count] == key[count] { count += 1 }
        return count
    }

    private mutating func append(_ byte: UInt8) {
        buffer.storeBytes(of: byte, toByteOffset: filled, as: UInt8.self)
        filled += 1
    }

    private mutating func append(length: Int) {
        var rest = length
        while rest > 0x7F {
            append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    /// Appends a bit for each byte of a value, and the bytes that differ from the value before.
    private mutating func append(changesOf value: UnsafeRawBufferPointer) {
        let bits = filled
        filled += (value.count + 7) / 8
        for start in stride(from: 0, to: value.count, by: 8) {
            let end = min(start + 8, value.count)
            var changed: UInt8 = 0
            if end - start < 8
                || value.loadLittleEndian(UInt64.self, at: start)
                    != lastValue.loadLittleEndian(UInt64.self, at: start)
            {
                for at in start..<end where value[at] != lastValue[at] {
                    changed |= 1 << UInt8(at - start)
                    append(value[at])
                }
            }
            buffer.storeBytes(of: changed, toByteOffset: bits + start / 8, as: UInt8.self)
        }
    }

    /// Writes the end. On return a file is on disk.
    /// - Returns: the digest of the stream.
    mutating func end() throws(StorageError) -> [UInt8] {
        try put(BackupStream.Item.end.rawValue)
        try flush()
        endDirectWrites()
        try flush()
        let bytes = digest.finish()
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            try write(UnsafeRawBufferPointer(bytes))
        }
        if isFile, fsync(descriptor) != 0 { throw failure("write the backup", errno) }
        return bytes
    }

    // MARK: Bytes

    private mutating func put<Number: FixedWidthInteger>(_ number: Number) throws(StorageError) {
        var number = number.littleEndian
        try withUnsafeBytes(of: &number) { (bytes) throws(StorageError) in try put(bytes) }
    }

    private mutating func put(bytes: [UInt8]) throws(StorageError) {
        try bytes.withUnsafeBufferPointer { (bytes) throws(StorageError) in
            try put(UnsafeRawBufferPointer(bytes))
        }
    }

    private mutating func put(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if filled == Self.bufferBytes { try flush() }
            let count = min(rest.count, Self.bufferBytes - filled)
            memcpy(buffer + filled, UnsafeRawBufferPointer(rebasing: rest).baseAddress!, count)
            filled += count
            rest = rest.dropFirst(count)
        }
    }

    /// Writes all bytes so far; of direct writes the whole blocks.
    mutating func flush() throws(StorageError) {
        let rest = flagsBefore == nil ? 0 : filled % Self.blockBytes
        let bytes = UnsafeRawBufferPointer(start: buffer, count: filled - rest)
        digest.update(bytes)
        try write(bytes)
        memmove(buffer, buffer + bytes.count, rest)
        filled = rest
        guard bytesPerSecond > 0 else { return }
        let due = began + .seconds(Double(byteCount) / Double(bytesPerSecond))
        let (seconds, attoseconds) = (due - .now).components
        let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        if microseconds > 0 { usleep(UInt32(clamping: microseconds)) }
    }

    private mutating func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var done = 0
        while done < bytes.count {
            let count = Glibc.write(descriptor, bytes.baseAddress! + done, bytes.count - done)
            if count < 0, errno == EINTR { continue }
            // The file system has other blocks, or the disk was full in the middle of a block.
            if flagsBefore != nil, count < 0 ? errno == EINVAL : count % Self.blockBytes != 0 {
                endDirectWrites()
                done += max(0, count)
                continue
            }
            guard count > 0 else { throw failure("write the backup", count < 0 ? errno : EIO) }
            done += count
        }
        byteCount += done
        guard isFile, flagsBefore == nil, done > 0 else { return }
        // Past the cache there is nothing to wait for. Else few bytes at a time wait for the disk.
        guard fdatasync(descriptor) == 0 else { throw failure("write the backup", errno) }
    }

    private mutating func endDirectWrites() {
        guard let flags = flagsBefore else { return }
        _ = fcntl(descriptor, F_SETFL, flags)
        flagsBefore = nil
    }
}
