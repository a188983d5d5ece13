// SPDX-License-Identifier: Apache-2.0
//
// How soon a woken thread runs. Linux gives each thread of a core a slice, and a thread that wakes waits
// for the running one's slice to end unless its own slice is shorter (EEVDF; 1.4 ms by default on two
// cores). A loop works for microseconds at a time, and the committer for milliseconds: with a short slice
// a loop runs at once when something comes, and everything else stays as it was. Source:
// Documentation/scheduler/sched-eevdf.rst of Linux. Rests on CLiburing.

internal import CLiburing

/// The slice of the calling thread.
public enum ThreadSlice {
    /// The shortest slice that Linux gives.
    public static let shortestNanoseconds: UInt64 = 100_000

    /// Asks for a slice. Kernels older than 6.12 have one for all threads, and a system may forbid the call:
    /// then nothing changes. A thread of a real-time policy keeps what it has.
    public static func set(nanoseconds: UInt64) {
        var scheduling = martlet_scheduling()
        scheduling.size = UInt32(MemoryLayout<martlet_scheduling>.size)
        guard martlet_get_scheduling(&scheduling) == 0, scheduling.policy == 0 else { return }
        scheduling.runtime = nanoseconds
        _ = martlet_set_scheduling(&scheduling)
    }
}
