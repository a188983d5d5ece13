// SPDX-License-Identifier: Apache-2.0
//
// Brings a state of the data file to disk, on a thread of its own, while later transactions are written to the
// journal. Rests on JournalFile.

internal import CLMDB
import Glibc
import MartletEngine
import MartletRows
import Synchronization

/// A checkpoint in progress.
final class Checkpoint: Sendable {
    /// The data file is written piece by piece. A journal's fdatasync waits for what the disk has been given,
    /// so the disk is given little at a time: with whole files p99 of a commit was 3.3 ms, with pieces 0.6.
    private static let bytesPerPiece = 256 << 10
    /// Of a large file the pieces are larger, since each is a system call whether or not it has changed.
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
    ///   - dataFile: open until the checkpoint has been waited for.
    ///   - file: gets the base, once everything that it leads to is on disk.
    ///   - before: has the base before this one, which does not count any more then.
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

    /// Waits for its end. To be called once.
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
            // Pages of the base before are used again soon, so it must not be taken for the newest one.
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
                // A failure to write is told once, so it counts here. Some systems have no pieces.
                guard ![EIO, ENOSPC, EDQUOT].contains(errno) else {
                    throw failure("checkpoint", errno)
                }
                break
            }
        }
        guard fdatasync(work.dataFile) == 0 else { throw failure("checkpoint", errno) }
    }
}
