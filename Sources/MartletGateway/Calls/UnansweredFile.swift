// SPDX-License-Identifier: Apache-2.0
//
// Recognises retried sends across a restart (GW-8). The file has a row for each send whose answer no caller has read. The
// gateway writes the row before the broker hears of the send, and clears the row when the answer was written whole to the
// connection. After a kill -9 the remaining rows are the attempts that callers may repeat. The broker knows which of the
// attempts were accepted, because it stores the attempt in the message's transaction.
//
// Rows are never synced. The kernel keeps the writes of a killed process. After a crash of the machine it is unknown
// which rows reached the disk, and a row that should have been cleared would swallow a new message. So a file of an
// earlier boot counts as empty.
//
// A send costs two writes of 64 bytes into the page cache, about a microsecond each. The fsync of the send takes a
// thousand times as long. Rests on POSIX files.

import Glibc
import Martlet

/// A send whose answer no caller has read.
struct UnansweredSend: Sendable {
    var attempt: SendAttempt
    var digest: RequestDigest
    /// Time of the send, or of the caller's leaving, in seconds since the machine's start.
    var at: Int64
}

/// The unanswered sends of one gateway, in a file that outlives the process.
final class UnansweredFile: Sendable {
    /// Bytes of a row. A row never crosses a page, because 64 divides the size of a page: a killed process leaves a
    /// row whole or not at all.
    private static let rowBytes = 64
    /// Rows read from a file, at most: 2^20 rows of 64 bytes are 64 MiB.
    private static let placesMax = 1 << 20
    private static let magic = Array("MRTLUNA2".utf8)

    private let descriptor: Int32
    /// Unanswered sends of the previous process.
    let left: [UnansweredSend]

    /// - Parameters:
    ///   - window: age past which rows are obsolete and cleared.
    ///   - now: seconds since the machine's start.
    /// - Returns: nil if the file cannot be written, or another gateway has locked the file, because two gateways on
    ///   one broker do not share places. A gateway without a file does not recognise repetitions of sends made before
    ///   its start.
    init?(in folder: String, window: Duration, now: Int64 = UnansweredFile.now) {
        guard let boot = Self.boot() else { return nil }
        let path = folder + "/gateway.unanswered"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return nil }
        let header = Self.row(Self.magic + boot)
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0,
            let left = Self.read(descriptor, header), Self.write(header, to: descriptor, row: 0)
        else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        let oldest = now - window.components.seconds
        self.left = left.filter { $0.at >= oldest }
        for send in left where send.at < oldest { remove(place: send.attempt.place) }
    }

    /// Seconds since the machine's start, time asleep included.
    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec)
    }

    deinit { close(descriptor) }

    /// Writes the row of a send. A failed write (a full disk) does not refuse the send: without the row, a repetition
    /// after a restart is sent again.
    func put(_ send: UnansweredSend) {
        let number = withUnsafeBytes(of: send.attempt.number.littleEndian) { Array($0) }
        let at = withUnsafeBytes(of: send.at.littleEndian) { Array($0) }
        let row = Self.row(number + send.digest.bytes + at)
        _ = Self.write(row, to: descriptor, row: Int(send.attempt.place) + 1)
    }

    func remove(place: UInt32) {
        _ = Self.write(Self.row([]), to: descriptor, row: Int(place) + 1)
    }

    // MARK: Bytes

    private static func row(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: rowBytes - bytes.count)
    }

    private static func write(_ row: [UInt8], to descriptor: Int32, row index: Int) -> Bool {
        pwrite(descriptor, row, rowBytes, off_t(index * rowBytes)) == rowBytes
    }

    /// Reads the rows of a file with this header. A file with another header is emptied and has no rows.
    /// - Returns: nil if the file cannot be emptied.
    private static func read(_ descriptor: Int32, _ header: [UInt8]) -> [UnansweredSend]? {
        var bytes = [UInt8](repeating: 0, count: rowBytes)
        guard pread(descriptor, &bytes, rowBytes, 0) == rowBytes, bytes == header else {
            return ftruncate(descriptor, 0) == 0 ? [] : nil
        }
        var left: [UnansweredSend] = []
        for place in 0..<placesMax {
            let count = pread(descriptor, &bytes, rowBytes, off_t((place + 1) * rowBytes))
            guard count == rowBytes else { break }
            let number = bytes.prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard number != 0 else { continue }
            let end = 8 + RequestDigest.bytesCount
            let at = bytes[end..<(end + 8)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            left.append(
                UnansweredSend(
                    attempt: SendAttempt(place: UInt32(place), number: number),
                    digest: RequestDigest(bytes: Array(bytes[8..<end])),
                    at: Int64(truncatingIfNeeded: at)))
        }
        return left
    }

    /// The boot ID, new after every start of the machine. Source: random(4), `/proc/sys/kernel/random/boot_id`.
    private static func boot() -> [UInt8]? {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 36)
        return Glibc.read(descriptor, &bytes, bytes.count) == bytes.count ? bytes : nil
    }
}
