// SPDX-License-Identifier: Apache-2.0
//
// Which thread of a core runs when another one wakes. Linux gives each thread a slice, and a thread that
// wakes waits for the running one's slice to end unless its own slice is shorter (EEVDF; 1.4 ms by default
// on two cores). A loop works for microseconds at a time, and the committer for milliseconds. So a loop has
// a short slice, and runs at once when something comes. The committer is a batch thread, which interrupts
// no loop: the loop ends its turn, and one transaction holds the commands of the whole turn. Source:
// Documentation/scheduler/sched-eevdf.rst of Linux and sched(7). Rests on CLiburing.

internal import CLiburing

/// How the calling thread is scheduled. A system may forbid the calls: then nothing changes. A thread of a
/// real-time policy keeps what it has.
public enum ThreadScheduling {
    /// The shortest slice that Linux gives.
    private static let shortestSliceNanoseconds: UInt64 = 100_000
    /// Source: linux/sched.h.
    private static let otherPolicy: UInt32 = 0
    private static let batchPolicy: UInt32 = 3

    /// The thread runs as soon as it wakes. Kernels older than 6.12 have one slice for all threads.
    public static func runSoon() {
        change { $0.runtime = shortestSliceNanoseconds }
    }

    /// The thread waits for the running thread's slice to end when it wakes.
    public static func interruptNobody() {
        change { $0.policy = batchPolicy }
    }

    private static func change(_ body: (inout martlet_scheduling) -> Void) {
        var scheduling = martlet_scheduling()
        scheduling.size = UInt32(MemoryLayout<martlet_scheduling>.size)
        guard martlet_get_scheduling(&scheduling) == 0, scheduling.policy == otherPolicy
        else { return }
        body(&scheduling)
        _ = martlet_set_scheduling(&scheduling)
    }
}
