// SPDX-License-Identifier: Apache-2.0
//
// A backup reads the store in the order of the keys. LMDB keeps its pages in another order, and the store is mapped for
// reads at random, so a store that is not in the page cache would be read from the disk page by page. The data file is
// therefore brought into the page cache in its own order, on a thread beside the backup. Rests on StoreThread.

internal import CLMDB
import Glibc
import Synchronization

/// Brings a file into the page cache.
package enum ReadAhead {
    /// Bytes of one request. The kernel reads no more than its bound on reading ahead, 128 KiB by default (Linux,
    /// `read_ahead_kb`).
    private static let bytesPerRequest = 128 << 10
    /// A file above this part of the available memory is left to the page cache, which would drop the first pages before
    /// the backup reads them.
    private static let partOfMemory = 2
    /// Longest sleep between two looks at the end of `body`.
    private static let sleepMicrosecondsMax: UInt32 = 10_000

    /// Reads a file ahead while `body` runs.
    /// - Parameter bytesPerSecond: bound of the speed; 0: none.
    /// - Throws: `StorageError` if the system has no thread left, or the error of `body`. A file that cannot be read
    ///   is no error here.
    package static func during<Result>(
        _ path: String, bytesPerSecond: Int, _ body: () throws -> Result
    ) throws -> Result {
        let isOver = Atomic<Bool>(false)
        let thread = try StoreThread {
            read(path, bytesPerSecond: bytesPerSecond) { isOver.load(ordering: .relaxed) }
        }
        let result = Swift.Result { try body() }
        isOver.store(true, ordering: .relaxed)
        thread.wait()
        return try result.get()
    }

    private static func read(_ path: String, bytesPerSecond: Int, until isOver: () -> Bool) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, Int(status.st_size) <= availableMemory() / partOfMemory
        else { return }
        let began = ContinuousClock.now
        for offset in stride(from: 0, to: Int(status.st_size), by: bytesPerRequest) {
            while bytesPerSecond > 0, !isOver() {
                let due = Duration.seconds(Double(offset) / Double(bytesPerSecond))
                let left = due - began.duration(to: .now)
                guard left > .zero else { break }
                usleep(min(UInt32(clamping: Int64(left / .microseconds(1))), sleepMicrosecondsMax))
            }
            guard !isOver(),
                posix_fadvise(file, off_t(offset), off_t(bytesPerRequest), POSIX_FADV_WILLNEED) == 0
            else { return }
        }
    }

    /// Bytes that the system can use without dropping what is in use; 0 if the system does not tell.
    private static func availableMemory() -> Int {
        let file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return 0 }
        defer { close(file) }
        let text = String(unsafeUninitializedCapacity: 4096) {
            max(Glibc.read(file, $0.baseAddress, 4096), 0)
        }
        for line in text.split(separator: "\n") where line.hasPrefix("MemAvailable:") {
            let words = line.split(separator: " ")
            return words.count > 1 ? (Int(words[1]) ?? 0) * 1024 : 0
        }
        return 0
    }
}
