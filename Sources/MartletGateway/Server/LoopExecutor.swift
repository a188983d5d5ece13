// SPDX-License-Identifier: Apache-2.0
//
// Runs the tasks of a connection on the connection's event loop. Swift's own threads are few, and requests that need the
// disk wait there; a probe needs no disk, and must be answered while the disk hangs (OPS-12). Rests on NIO.

import NIOCore

/// An event loop as the executor of tasks.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
