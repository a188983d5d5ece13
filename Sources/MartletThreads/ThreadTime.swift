// SPDX-License-Identifier: Apache-2.0
//
// The time of a thread of a simulator. Threads of a node wait for the log and for each other, so a simulator runs
// production's threads, and puts its own time in the place of the system's. Rests on pthreads.

import Glibc
import Synchronization

/// A monotonic clock, and pauses by the same clock, for a thread of a simulator.
package final class ThreadTime: Sendable {
    let nanoseconds: @Sendable () -> UInt64
    let pause: @Sendable (_ microseconds: UInt32) -> Void

    package init(
        nanoseconds: @escaping @Sendable () -> UInt64,
        pause: @escaping @Sendable (_ microseconds: UInt32) -> Void
    ) {
        self.nanoseconds = nanoseconds
        self.pause = pause
    }

    /// Whether any thread of the process has a time of its own. Production pays for this look alone.
    private static let isUsed = Atomic(false)
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key, nil)
        precondition(code == 0, "The system has room for a key.")
        return key
    }()

    /// The time of the calling thread; nil: the system's.
    static var current: ThreadTime? {
        guard isUsed.load(ordering: .relaxed), let value = pthread_getspecific(key) else {
            return nil
        }
        return Unmanaged<ThreadTime>.fromOpaque(value).takeUnretainedValue()
    }

    /// Gives the calling thread this time while `body` runs.
    package func use<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        Self.isUsed.store(true, ordering: .relaxed)
        let former = pthread_getspecific(Self.key)
        pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
        defer { pthread_setspecific(Self.key, former) }
        return try body()
    }
}
