// SPDX-License-Identifier: Apache-2.0
//
// Brings a state of the data file to disk on a thread of its own, while the journal takes later transactions. Rests
// on JournalFile.

internal import CLMDB
import Glibc
import MartletEngine
import MartletRows
import Synchronization

/// A checkpoint in progress.
final class Checkpoint: Sendable {
    /// The data file is written in pieces of at least this size. A journal's fdatasync waits for all writes that
    /// the disk has received before, so the checkpoint gives the disk little at a time: p99 of a commit was 3.3 ms
    /// with whole files and 0.6 ms with pieces.
    private static let bytesPerPiece = 256 << 10
    /// Largest number of pieces. A large file has larger pieces, because each piece costs a system call even
    /// without changes.
    private static let piecesMax = 1024

    private struct Work: @unchecked Sendable {
        var dataFile: Int32
        var file: JournalFile
        var base: JournalFile.Base
        var before: JournalFile
    }

    private let work: Work
    private let faults: StoreFaults?
    private let result = Mutex<Result<Void, StorageError>?>(nil)
    private let thread = Mutex<pthread_t>(0)

    /// - Parameters:
    ///   - dataFile: stays open until `wait` has returned.
    ///   - file: receives the base, once all pages of the base are on disk.
    ///   - before: holds the previous base, which becomes invalid then.
    /// - Throws: `StorageError` if the thread cannot start.
    init(
        dataFile: Int32, file: JournalFile, base: JournalFile.Base,
        before: JournalFile, _ faults: StoreFaults?
    ) throws(StorageError) {
        work = Work(dataFile: dataFile, file: file, base: base, before: before)
        self.faults = faults
        let itself = Unmanaged.passRetained(self)
        var started: pthread_t = 0
        let code = pthread_create(
            &started, nil,
            { argument in
                let checkpoint = Unmanaged<Checkpoint>.fromOpaque(argument!).takeRetainedValue()
                checkpoint.run()
                return nil
            }, itself.toOpaque())
        guard code == 0 else {
            itself.release()
            throw failure("begin a checkpoint", code)
        }
        thread.withLock { $0 = started }
    }

    var isDone: Bool { result.withLock { $0 != nil } }

    /// Waits for the checkpoint's end. Must be called exactly once.
    func wait() -> Result<Void, StorageError> {
        pthread_join(thread.withLock { $0 }, nil)
        return result.withLock { $0! }
    }

    private func run() {
        let outcome: Result<Void, StorageError>
        do throws(StorageError) {
            try writeDataFile()
            if let fault = faults?.beforeBase?() { throw fault }
            try work.file.write(work.base)
            // Later transactions soon reuse pages of the previous base, so recovery must never take it for the
            // newest base.
            try? work.before.clearBlock(at: 0)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        result.withLock { $0 = outcome }
    }

    private func writeDataFile() throws(StorageError) {
        var status = stat()
        guard fstat(work.dataFile, &status) == 0 else { throw failure("checkpoint", errno) }
        let size = Int(status.st_size)
        let pieceBytes = max(Self.bytesPerPiece, (size / Self.piecesMax + 4095) / 4096 * 4096)
        let flags =
            MARTLET_SYNC_FILE_RANGE_WAIT_BEFORE | MARTLET_SYNC_FILE_RANGE_WRITE
            | MARTLET_SYNC_FILE_RANGE_WAIT_AFTER
        for start in stride(from: 0, to: size, by: pieceBytes) {
            guard sync_file_range(work.dataFile, start, pieceBytes, UInt32(flags)) == 0 else {
                // The kernel reports a failed write only once, so a write error is a failure already here. Any
                // other error means that the system has no sync_file_range.
                guard ![EIO, ENOSPC, EDQUOT].contains(errno) else {
                    throw failure("checkpoint", errno)
                }
                break
            }
        }
        guard fdatasync(work.dataFile) == 0 else { throw failure("checkpoint", errno) }
    }
}
