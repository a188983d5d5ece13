// SPDX-License-Identifier: Apache-2.0
//
// What the process has allocated, as jemalloc counts it. Linking jemalloc replaces malloc for Swift's
// objects too; the package trait `Jemalloc` turns it off. Rests on CJemalloc.

#if Jemalloc
    internal import CJemalloc

    /// Reads the allocator's statistics.
    enum ProcessMemory {
        /// Bytes allocated and not freed.
        static var allocatedBytes: Int? {
            // Statistics are a snapshot that is renewed by writing the epoch
            // (Source: jemalloc(3), "epoch").
            var epoch: UInt64 = 1
            guard mallctl("epoch", nil, nil, &epoch, MemoryLayout<UInt64>.size) == 0 else {
                return nil
            }
            var allocated = 0
            var bytes = MemoryLayout<Int>.size
            guard mallctl("stats.allocated", &allocated, &bytes, nil, 0) == 0 else { return nil }
            return allocated
        }

        /// Gives pages back to the system that the allocator keeps for later. Without it a process that
        /// has become idle keeps them: the allocator looks at their age only when it is called.
        static func release() {
            _ = mallctl("thread.tcache.flush", nil, nil, nil, 0)
            // 4096 stands for all arenas (Source: jemalloc.h, MALLCTL_ARENAS_ALL).
            _ = mallctl("arena.4096.purge", nil, nil, nil, 0)
        }
    }
#else
    /// Without jemalloc nothing is known.
    enum ProcessMemory {
        static var allocatedBytes: Int? { nil }
        static func release() {}
    }
#endif
