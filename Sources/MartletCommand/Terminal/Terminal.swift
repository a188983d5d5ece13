// SPDX-License-Identifier: Apache-2.0
//
// Standard output and standard error, and tests for people at a terminal. Whole lines are written at once, so that
// lines of concurrent tasks do not mix. Rests on POSIX and LineWriter.

import Glibc
import Martlet
import Synchronization

enum Terminal {
    /// Whether a person can type and read.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    /// Whether a person sees results as they are printed.
    static var hasScreen: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether a person sees progress.
    static var showsProgress: Bool { isatty(STDERR_FILENO) == 1 }

    /// Writes without a new line.
    static func write(_ text: String) { write(text, to: STDOUT_FILENO) }

    static func print(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

    static func printError(_ text: String) { write(text + "\n", to: STDERR_FILENO) }

    /// Replaces the last line of the terminal.
    static func replaceLine(_ text: String) { write("\r\u{1B}[2K" + text, to: STDERR_FILENO) }

    private static func write(_ text: String, to descriptor: Int32) {
        if let writer = writer.withLock({ $0 }) {
            guard
                descriptor != STDOUT_FILENO || isOutputOpen || needsResults.load(ordering: .relaxed)
            else { return }
            return writer.write(text, to: descriptor)
        }
        let count = LineWriter.put(Array(text.utf8), to: descriptor)
        guard count < text.utf8.count, descriptor == STDOUT_FILENO else { return }
        outputErrno.store(errno, ordering: .relaxed)
    }

    /// Why a result could not be printed; nil: all of them were. A key that is shown once is lost then.
    private static var lostOutput: String? {
        if needsResults.load(ordering: .relaxed) { flush() }
        let code = outputErrno.load(ordering: .relaxed)
        return code == 0 ? nil : String(cString: strerror(code))
    }

    /// Ends a command that prints until it is told to end, and whose results are taken from the broker when they are
    /// printed.
    /// - Throws: `UNAVAILABLE` if a result could not be printed.
    static func requirePrinted() throws(MartletError) {
        guard let reason = lostOutput else { return }
        throw MartletError(.unavailable, "The result could not be printed: \(reason).")
    }

    private static let outputErrno = Atomic<Int32>(0)

    /// False: the process was started with a closed standard output, which `ProcessStart` has replaced.
    private static let isOutputOpen = fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE != O_RDONLY

    /// The writer of a serving process; nil in any other process, whose results wait for their reader.
    private static let writer = Mutex<LineWriter?>(nil)

    /// False in a broker's process: whoever starts a broker with a closed standard output wants no results, and misses none.
    private static let needsResults = Atomic(true)

    /// From now on nothing that is printed waits for a reader, because this process serves. At its end the process waits a
    /// moment for the reader.
    /// - Parameters:
    ///   - format: the form of the line that tells how many lines are missing.
    ///   - needsResults: whether a result that cannot be printed makes the command fail.
    /// - Throws: `UNAVAILABLE` if the system has no thread left.
    static func writeFromThread(
        _ format: LogFormat = .text, needsResults needed: Bool
    ) throws(MartletError) {
        needsResults.store(needed, ordering: .relaxed)
        let new = try LineWriter(
            failed: { descriptor, code in
                guard needed, descriptor == STDOUT_FILENO else { return }
                outputErrno.store(code, ordering: .relaxed)
            }, loss: { CommandLog.loss(of: $0, format) })
        writer.withLock { $0 = new }
        atexit { Terminal.flush() }
    }

    private static func flush() {
        writer.withLock { $0 }?.flush(milliseconds: Limits.logFlushMilliseconds)
    }
}
