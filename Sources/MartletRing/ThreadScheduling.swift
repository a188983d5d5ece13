// SPDX-License-Identifier: Apache-2.0
//
// Which thread of a core runs when another one wakes. Linux gives each thread a slice, and a thread that
// wakes waits for the running one's slice to end unless its own slice is shorter (EEVDF; 1.4 ms by default
// on two cores). A loop works for microseconds at a time, and the committer for milliseconds. So a loop has
// a short slice, and runs at once when something comes. The committer has a long one: it waits for loops, and
// one transaction holds the commands of a whole turn, but it still interrupts processes of a lower priority. A
// batch thread (SCHED_BATCH) interrupts nobody: with a backup at nice 19 on every core a lone durable message
// would wait 23 ms instead of 0.8. Source: Documentation/scheduler/sched-eevdf.rst of Linux and sched(7). Rests
// on CLiburing.

internal import CLiburing

/// How the calling thread is scheduled. A system may forbid the calls: then nothing changes. A thread of a
/// real-time policy keeps what it has.
public enum ThreadScheduling {
    /// The shortest slice that Linux gives, and the longest.
    private static let shortestSliceNanoseconds: UInt64 = 100_000
    private static let longestSliceNanoseconds: UInt64 = 100_000_000
    /// Source: linux/sched.h.
    private static let otherPolicy: UInt32 = 0

    /// The thread runs as soon as it wakes. Kernels older than 6.12 have one slice for all threads.
    public static func runSoon() { setSlice(shortestSliceNanoseconds) }

    /// After a wake-up, threads with usual slices run first until the end of their part.
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
