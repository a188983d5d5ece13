// SPDX-License-Identifier: Apache-2.0
//
// A thread of the system that computes one value, beside the thread that waits for the value. Rests on pthreads.

import Glibc
import MartletRows
import Synchronization

/// A thread and its result.
struct StoreThread<Value: Sendable>: ~Copyable {
    private final class Result: Sendable {
        let value = Mutex<Value?>(nil)
    }

    private let result = Result()
    private let thread: pthread_t

    /// Starts the thread. `wait` must be called.
    /// - Throws: `StorageError` if the system has no thread left.
    init(_ work: @escaping @Sendable () -> Value) throws(StorageError) {
        let result = result
        let body = Unmanaged.passRetained(
            ThreadBody {
                let value = work()
                result.value.withLock { $0 = value }
            })
        var started: pthread_t = 0
        let code = pthread_create(
            &started, nil,
            { argument in
                Unmanaged<ThreadBody>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, body.toOpaque())
        guard code == 0 else {
            body.release()
            throw failure("begin a thread", code)
        }
        thread = started
    }

    /// Waits for the end of the thread.
    consuming func wait() -> Value {
        pthread_join(thread, nil)
        return result.value.withLock { $0! }
    }
}

/// What a thread calls: a function for C knows no type of a value.
private final class ThreadBody {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}
