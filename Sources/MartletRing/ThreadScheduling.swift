// SPDX-License-Identifier: Apache-2.0
//
// The time slices of threads. Linux gives each thread a slice, and a thread that wakes waits for the end of the
// running thread's slice unless its own slice is shorter (EEVDF; 1.4 ms by default on two cores). A loop works for
// microseconds at a time, and the committer for milliseconds. A loop therefore has a short slice, and runs as soon
// as an event arrives. The committer has a long slice: loops run first, and one transaction holds the commands of a
// whole turn. The committer still interrupts processes of a lower priority. A batch thread (SCHED_BATCH) would
// interrupt no process: with a backup at nice 19 on every core, a single durable message would wait 23 ms instead
// of 0.8 ms. Source: Documentation/scheduler/sched-eevdf.rst of Linux and sched(7). Rests on CLiburing.

internal import CLiburing

/// Sets the time slice of the calling thread. The calls have no effect if the system forbids them, or if the thread
/// has a real-time policy.
public enum ThreadScheduling {
    /// The shortest and the longest slice that Linux grants.
    private static let shortestSliceNanoseconds: UInt64 = 100_000
    private static let longestSliceNanoseconds: UInt64 = 100_000_000
    /// SCHED_OTHER. Source: linux/sched.h.
    private static let otherPolicy: UInt32 = 0

    /// Gives the calling thread the shortest slice, so that the thread runs as soon as it wakes. Kernels older than
    /// 6.12 have one slice for all threads.
    public static func runSoon() { setSlice(shortestSliceNanoseconds) }

    /// Gives the calling thread the longest slice: after a wake-up, threads with usual slices finish their slices
    /// first.
    public static func runLater() { setSlice(longestSliceNanoseconds) }

    private static func setSlice(_ nanoseconds: UInt64) {
        var scheduling = martlet_scheduling()
        scheduling.size = UInt32(MemoryLayout<martlet_scheduling>.size)
        guard martlet_get_scheduling(&scheduling) == 0, scheduling.policy == otherPolicy
        else { return }
        scheduling.runtime = nanoseconds
        _ = martlet_set_scheduling(&scheduling)
    }
}
