// SPDX-License-Identifier: Apache-2.0
//
// A thread of the operating system. Each loop and the committer own a thread, because a ring belongs to the
// thread that made the ring. Rests on pthreads.

import Glibc
package import MartletBase
import Synchronization

/// A running thread.
package final class SystemThread: @unchecked Sendable {
    private let handle: pthread_t

    private final class Body {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }

        /// Writes the name to `/proc`, because Glibc's own call is an extension that Swift does not see.
        func showName() {
            let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return }
            _ = Array(name.utf8).withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            close(descriptor)
        }
    }

    /// - Parameter name: at most 15 bytes; shown by `top -H` and debuggers.
    /// - Throws: `UNAVAILABLE` if the system has no thread left.
    package init(name: String, _ run: @escaping @Sendable () -> Void) throws(MartletError) {
        let body = Unmanaged.passRetained(Body(name: name, run: run))
        var created: pthread_t = 0
        let code = pthread_create(
            &created, nil,
            { argument in
                let body = Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
                body.showName()
                body.run()
                return nil
            }, body.toOpaque())
        guard code == 0 else {
            body.release()
            throw MartletError(
                .unavailable,
                "The system gives no thread (\(String(cString: strerror(code)))); raise its limit.")
        }
        handle = created
    }

    /// Waits for the end of the thread. Called once, unless the thread is detached.
    package func join() { pthread_join(handle, nil) }

    /// Lets the thread end by itself. The system frees the stack at the end of the thread.
    package func detach() { pthread_detach(handle) }
}

/// The result of a thread's start, for the thread that waits for the start.
package final class Startup<Value: Sendable>: @unchecked Sendable {
    private let done = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let result = Mutex<Result<Value, any Error>?>(nil)

    package init() { sem_init(done, 0, 0) }

    deinit {
        sem_destroy(done)
        done.deallocate()
    }

    /// The first answer counts.
    package func tell(_ answer: Result<Value, any Error>) {
        result.withLock { $0 = $0 ?? answer }
        sem_post(done)
    }

    package func wait() throws -> Value {
        while sem_wait(done) != 0 {}
        return try result.withLock { $0! }.get()
    }
}

/// The system's clocks. Only the edges of the broker read a clock, and its threads pause by this one, never by the system's:
/// a simulator may have put its own in the place.
package enum SystemClock {
    package static func now() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Instant(
            millisecondsSince1970: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// Milliseconds of a monotonic clock, for timeouts.
    package static func monotonicMilliseconds() -> Int64 {
        Int64(monotonicNanoseconds() / 1_000_000)
    }

    /// Nanoseconds of a monotonic clock, for work that is bounded in time.
    package static func monotonicNanoseconds() -> UInt64 {
        if let simulated = ThreadTime.current { return simulated.nanoseconds() }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Stops the calling thread for some microseconds of its time.
    package static func pause(microseconds: UInt32) {
        if let simulated = ThreadTime.current { return simulated.pause(microseconds) }
        usleep(microseconds)
    }
}
