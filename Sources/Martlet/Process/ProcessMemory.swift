// SPDX-License-Identifier: Apache-2.0
//
// The memory allocated by the process, as counted by jemalloc. Linked jemalloc replaces malloc for Swift's
// objects too. Without the package trait `Jemalloc` the link is left out. Rests on CJemalloc.

#if Jemalloc
    internal import CJemalloc

    /// Reads the allocator's statistics.
    enum ProcessMemory {
        /// Bytes allocated and not freed.
        static var allocatedBytes: Int? {
            // Statistics are a snapshot, renewed by writing the epoch (Source: jemalloc(3), "epoch").
            var epoch: UInt64 = 1
            guard mallctl("epoch", nil, nil, &epoch, MemoryLayout<UInt64>.size) == 0 else {
                return nil
            }
            var allocated = 0
            var bytes = MemoryLayout<Int>.size
            guard mallctl("stats.allocated", &allocated, &bytes, nil, 0) == 0 else { return nil }
            return allocated
        }

        /// Returns spare pages of the allocator to the system. A process that has become idle would keep the
        /// pages, because the allocator looks at their age only when called.
        static func release() {
            _ = mallctl("thread.tcache.flush", nil, nil, nil, 0)
            // 4096 stands for all arenas (Source: jemalloc.h, MALLCTL_ARENAS_ALL).
            _ = mallctl("arena.4096.purge", nil, nil, nil, 0)
        }
    }
#else
    /// Without jemalloc the amount of allocated memory is unknown.
    enum ProcessMemory {
        static var allocatedBytes: Int? { nil }
        static func release() {}
    }
#endif
