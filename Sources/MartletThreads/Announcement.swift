// SPDX-License-Identifier: Apache-2.0
//
// A file in the data folder that tells commands on this machine where a server listens. A full disk may refuse the file
// when the server starts. The server goes on then, and a thread writes the file as soon as the disk has room: commands
// need no restart. Rests on SystemThread.

package import Logging
import Synchronization

/// A file that is written again until it is there.
package final class Announcement<File: Sendable>: Sendable {
    /// Can transition from waiting to there and over, and from there to over. Over is final.
    private enum State {
        case waiting
        case there(File)
        case over
    }

    /// Microseconds between two attempts.
    private static var restMicroseconds: UInt32 { 1_000_000 }

    private let state = Mutex(State.waiting)
    private let write: @Sendable () throws -> File
    private let name: String
    private let logger: Logger

    /// Writes the file, now or later.
    /// - Parameters:
    ///   - name: the reader of the file in a log line, such as `the broker`.
    ///   - write: called until the first call that throws no error, on any thread.
    package init(
        of name: String, _ logger: Logger, _ write: @escaping @Sendable () throws -> File
    ) {
        self.name = name
        self.logger = logger
        self.write = write
        guard let error = attempt() else { return }
        logger.warning(
            "commands on this machine do not find \(name) by its folder until this is mended",
            metadata: ["error": "\(error)"])
        guard let thread = try? SystemThread(name: "martlet-address", { [self] in goOn() }) else {
            return
        }
        thread.detach()
    }

    /// - Returns: the error of an attempt; nil if nothing is left to do.
    private func attempt() -> (any Error)? {
        state.withLock { state in
            guard case .waiting = state else { return nil }
            do { state = .there(try write()) } catch { return error }
            return nil
        }
    }

    private func goOn() {
        repeat { SystemClock.pause(microseconds: Self.restMicroseconds) } while attempt() != nil
        guard file != nil else { return }
        logger.notice("commands on this machine find \(name) again")
    }

    /// nil until the file is there, and after `end`.
    package var file: File? {
        state.withLock { if case .there(let file) = $0 { file } else { nil } }
    }

    /// Ends the attempts.
    /// - Returns: the file, which the caller removes; nil if it was never written.
    package func end() -> File? {
        state.withLock { state in
            defer { state = .over }
            return if case .there(let file) = state { file } else { nil }
        }
    }
}
