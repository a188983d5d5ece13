// SPDX-License-Identifier: Apache-2.0
//
// Writes the lines of a serving process from a thread of its own. A write to a pipe that nobody reads, to a stopped
// terminal or to a slow disk blocks, and strangers cause lines: a loop that wrote its lines itself would stop serving. Lines
// wait in a bounded queue; those that come while the queue is full are counted, and the log then says how many are missing.
// Rests on SystemThread.

import Dispatch
import Glibc
package import Martlet
import MartletThreads
import Synchronization

/// A bounded queue of lines, and the thread that writes them.
package final class LineWriter: Sendable {
    private enum Entry {
        case text([UInt8], descriptor: Int32)
        /// Here lines are missing that came while the queue was full.
        case gap(Int)
    }

    private struct State {
        var entries: [Entry] = []
        /// Bytes in the queue and in the hands of the thread.
        var bytes = 0
        /// Set when the queue is full, and until half of it is written: otherwise, where lines come faster than they are
        /// read, gaps and lines would alternate.
        var isFull = false
        /// Whether the thread has entries that are not written yet.
        var isWriting = false
        var waitingForEnd: [DispatchSemaphore] = []
    }

    private let bytesMax: Int
    private let lossDescriptor: Int32
    private let loss: @Sendable (Int) -> String
    private let failed: @Sendable (_ descriptor: Int32, _ errno: Int32) -> Void
    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)

    /// Starts the thread, which lives as long as the process.
    /// - Parameters:
    ///   - bytesMax: bytes of lines that wait.
    ///   - lossDescriptor: where missing lines are told.
    ///   - failed: called on the thread when a text could not be written.
    ///   - loss: makes the line that says how many lines are missing, with its new line.
    /// - Throws: `UNAVAILABLE` if the system has no thread left.
    package init(
        bytesMax: Int = Limits.logQueueBytesMax, lossDescriptor: Int32 = STDERR_FILENO,
        failed: @escaping @Sendable (_ descriptor: Int32, _ errno: Int32) -> Void = { _, _ in },
        loss: @escaping @Sendable (Int) -> String
    ) throws(MartletError) {
        (self.bytesMax, self.lossDescriptor) = (bytesMax, lossDescriptor)
        (self.failed, self.loss) = (failed, loss)
        try SystemThread(name: "martlet-log") { self.run() }.detach()
    }

    /// Puts a text into the queue, and never waits for the descriptor.
    package func write(_ text: String, to descriptor: Int32) {
        let bytes = Array(text.utf8)
        state.withLock { state in
            if state.isFull, state.bytes <= bytesMax / 2 { state.isFull = false }
            // A text beyond the bound has room in an empty queue, so that no text is lost for its length alone.
            if state.bytes > 0, state.bytes + bytes.count > bytesMax { state.isFull = true }
            if !state.isFull {
                state.bytes += bytes.count
                state.entries.append(.text(bytes, descriptor: descriptor))
            } else if case .gap(let count)? = state.entries.last {
                state.entries[state.entries.count - 1] = .gap(count + 1)
            } else {
                state.entries.append(.gap(1))
            }
        }
        work.signal()
    }

    /// Waits until everything is written, or for the time: a process must also end when nobody reads its log.
    package func flush(milliseconds: Int) {
        let end = DispatchSemaphore(value: 0)
        let isWritten = state.withLock { state in
            guard state.isWriting || !state.entries.isEmpty else { return true }
            state.waitingForEnd.append(end)
            return false
        }
        if !isWritten { _ = end.wait(timeout: .now() + .milliseconds(milliseconds)) }
    }

    // MARK: The thread

    private func run() {
        /// Lines that are missing and not told: of gaps, and those whose write failed.
        var missing = 0
        /// Whether the last write to `lossDescriptor` stopped inside a line.
        var isLineOpen = false
        func told() -> Bool {
            guard missing > 0 else { return true }
            guard put((isLineOpen ? "\n" : "") + loss(missing), lossDescriptor) else {
                return false
            }
            (missing, isLineOpen) = (0, false)
            return true
        }
        func put(_ text: String, _ descriptor: Int32) -> Bool {
            Self.put(Array(text.utf8), to: descriptor) == text.utf8.count
        }
        while true {
            work.wait()
            let entries = state.withLock { state in
                state.isWriting = true
                defer { state.entries = [] }
                return state.entries
            }
            for entry in entries {
                switch entry {
                case .gap(let count):
                    missing += count
                    _ = told()
                case .text(let bytes, let descriptor):
                    // A loss stands before the next line of its own descriptor; another one may be well.
                    let isReady = descriptor != lossDescriptor || told()
                    let count = isReady ? Self.put(bytes, to: descriptor) : 0
                    if count < bytes.count {
                        if isReady { failed(descriptor, errno) }
                        missing += 1
                        if descriptor == lossDescriptor { isLineOpen = count > 0 || isLineOpen }
                    }
                    state.withLock { $0.bytes -= bytes.count }
                }
            }
            let ended = state.withLock { state in
                state.isWriting = false
                guard state.entries.isEmpty else { return [DispatchSemaphore]() }
                defer { state.waitingForEnd = [] }
                return state.waitingForEnd
            }
            for flush in ended { flush.signal() }
        }
    }

    /// Writes bytes, and waits for room.
    /// - Returns: bytes written; fewer than given if nobody can read them any more, or the disk of the log is full.
    static func put(_ bytes: [UInt8], to descriptor: Int32) -> Int {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0 {
                switch errno {
                case EINTR: continue
                case EAGAIN: waitForRoom(descriptor)
                default: return done
                }
            } else {
                done += count
            }
        }
        return done
    }

    /// Waits until the descriptor takes bytes. Another process with the same terminal or pipe may have made writes
    /// non-blocking.
    private static func waitForRoom(_ descriptor: Int32) {
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&room, 1, -1)
    }
}
