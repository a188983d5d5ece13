// SPDX-License-Identifier: Apache-2.0
//
// SIGINT, SIGTERM and SIGHUP: the first signal asks for an orderly end. One that follows within seconds is the same wish:
// `timeout` of coreutils, npm and a terminal's process group send two within milliseconds. A later one ends the
// process at once. The signal handler looks at the clock and writes a byte; a thread reads the byte and resumes the waiting
// tasks. A command may take SIGHUP as the wish to read its files again (OPS-11). The article Operating has a table of all
// signals. Rests on POSIX signals.

import Glibc
import Martlet
import Synchronization

enum Interrupt {
    /// The time of the first signal, in monotonic milliseconds; 0 before.
    private static let firstMilliseconds = Atomic<Int64>(0)
    private static let writingEnd = Atomic<Int32>(-1)

    /// Bytes that the signal handlers write.
    private static let endByte: UInt8 = 0
    private static let reloadByte: UInt8 = 1

    /// For all commands, at the beginning. A write beyond the limit of a file's size fails instead of ending the process,
    /// so that the reason can be told. SIGQUIT has its usual effect: the Swift runtime would print a backtrace for
    /// seconds, and go on.
    static func prepareAll() {
        signal(SIGXFSZ, SIG_IGN)
        signal(SIGQUIT, SIG_DFL)
    }

    /// Takes over the three signals. Ignores SIGPIPE, because the reader of the log may go away, and signals that
    /// other tools send by custom (SIGUSR1 of logrotate), because their usual effect is an end without closing. Every wait on the
    /// returned waiter, begun or to come, ends with the first signal.
    static func prepare() -> Waiter {
        var ends: [Int32] = [-1, -1]
        let failed = pipe(&ends) != 0
        precondition(!failed, "No pipe for signals: too many open descriptors.")
        writingEnd.store(ends[1], ordering: .releasing)
        // The handler must not be the first to use it.
        firstMilliseconds.store(0, ordering: .releasing)
        let waiter = Waiter()
        let reading = ends[0]
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(descriptor: reading, waiter: waiter))
        pthread_create(
            &thread, nil,
            { argument in
                let start = Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
                while true {
                    var byte = Interrupt.endByte
                    while read(start.descriptor, &byte, 1) < 0 && errno == EINTR {}
                    guard byte == Interrupt.reloadByte else { break }
                    start.waiter.reload()
                }
                start.waiter.fire()
                return nil
            }, start.toOpaque())
        pthread_detach(thread)
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in
            let now = Interrupt.milliseconds()
            let (isFirst, first) = Interrupt.firstMilliseconds.compareExchange(
                expected: 0, desired: now, ordering: .acquiringAndReleasing)
            guard isFirst else {
                if now - first >= Limits.laterSignalMilliseconds { _exit(130) }
                return
            }
            var byte = Interrupt.endByte
            _ = write(Interrupt.writingEnd.load(ordering: .acquiring), &byte, 1)
        }
        action.sa_flags = SA_RESTART
        sigaction(SIGINT, &action, nil)
        sigaction(SIGTERM, &action, nil)
        // A process started with SIGHUP ignored (nohup) is meant to outlive the terminal.
        if !isHangupIgnored() { sigaction(SIGHUP, &action, nil) }
        for ignored in [SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM] { signal(ignored, SIG_IGN) }
        return waiter
    }

    /// The monotonic clock. Safe in a signal handler.
    private static func milliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Whether SIGHUP was ignored when the process began (nohup).
    private static func isHangupIgnored() -> Bool {
        var before = sigaction()
        sigaction(SIGHUP, nil, &before)
        return unsafeBitCast(before.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    private final class Start: Sendable {
        let descriptor: Int32
        let waiter: Waiter

        init(descriptor: Int32, waiter: Waiter) {
            self.descriptor = descriptor
            self.waiter = waiter
        }
    }

    /// Waits for the first signal.
    final class Waiter: Sendable {
        private struct State {
            var hasFired = false
            var waiting: [(number: UInt64, continuation: CheckedContinuation<Void, Never>)] = []
            var last: UInt64 = 0
        }

        private let state = Mutex(State())
        private let reloading = Mutex<(@Sendable () -> Void)?>(nil)

        /// From now on, SIGHUP calls the function instead of ending the command; under nohup too.
        func reload(by body: @escaping @Sendable () -> Void) {
            reloading.withLock { $0 = body }
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { _ in
                var byte = Interrupt.reloadByte
                _ = write(Interrupt.writingEnd.load(ordering: .acquiring), &byte, 1)
            }
            action.sa_flags = SA_RESTART
            sigaction(SIGHUP, &action, nil)
        }

        fileprivate func reload() { reloading.withLock { $0 }?() }

        var hasFired: Bool { state.withLock { $0.hasFired } }

        fileprivate func fire() {
            let waiting = state.withLock { state in
                state.hasFired = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for waiter in waiting { waiter.continuation.resume() }
        }

        /// Returns at the first signal, or when the task is cancelled.
        func wait() async {
            let number = state.withLock { state in
                state.last += 1
                return state.last
            }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isOver = state.withLock { state in
                        guard !state.hasFired, !Task.isCancelled else { return true }
                        state.waiting.append((number, continuation))
                        return false
                    }
                    if isOver { continuation.resume() }
                }
            } onCancel: {
                let waiting = state.withLock { state in
                    let index = state.waiting.firstIndex { $0.number == number }
                    return index.map { state.waiting.remove(at: $0).continuation }
                }
                waiting?.resume()
            }
        }
    }
}
