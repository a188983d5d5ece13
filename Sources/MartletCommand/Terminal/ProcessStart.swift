// SPDX-License-Identifier: Apache-2.0
//
// What a process needs before it begins: open standard descriptors, /proc, and threads. Each is looked at before Swift's
// tasks begin, because they take descriptors and threads of their own, and wait without a word for threads that the system
// does not give. Rests on POSIX.

import Glibc
import Martlet

enum ProcessStart {
    /// Threads without which no command ends: those of Swift's tasks, and some that block.
    private static let threadsOfCommand = 4

    /// - Throws: `UNAVAILABLE` for a missing /proc, or too few threads.
    static func prepare() throws(MartletError) {
        openStandardDescriptors()
        // Swift reads the command line there.
        guard access("/proc/self/cmdline", R_OK) == 0 else {
            throw MartletError(
                .unavailable,
                "There is no /proc, which the program needs. Mount it: mount -t proc proc /proc.")
        }
        try requireThreads(threadsOfCommand)
    }

    /// Opens /dev/null in place of closed descriptors 0, 1 and 2. The first socket or file that is opened would have the
    /// number of one of them, and would get what is printed. To write there fails as before: a key that is shown once must
    /// not vanish without a word.
    private static func openStandardDescriptors() {
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free number is this one.
            _ = open("/dev/null", O_RDONLY)
        }
    }

    /// Starts threads, and ends them when all have begun.
    /// - Throws: `UNAVAILABLE` if the system does not give so many.
    static func requireThreads(_ count: Int) throws(MartletError) {
        let end = ThreadGate()
        var threads: [pthread_t] = []
        var code: Int32 = 0
        while threads.count < count, code == 0 {
            var thread: pthread_t = 0
            code = pthread_create(
                &thread, nil,
                { gate in
                    Unmanaged<ThreadGate>.fromOpaque(gate!).takeUnretainedValue().wait()
                    return nil
                }, Unmanaged.passUnretained(end).toOpaque())
            if code == 0 { threads.append(thread) }
        }
        withExtendedLifetime(end) {
            for _ in threads { end.open() }
            for thread in threads { pthread_join(thread, nil) }
        }
        guard code == 0 else {
            throw MartletError(
                .unavailable,
                "The system gives this process \(threads.count) more threads "
                    + "(\(String(cString: strerror(code)))), and it needs \(count). Raise the limit: TasksMax= of the "
                    + "service, --pids-limit of the container, or ulimit -u of the user.")
        }
    }
}

/// A semaphore of the system.
private final class ThreadGate {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func open() { sem_post(semaphore) }
    func wait() { while sem_wait(semaphore) != 0 {} }
}
