// SPDX-License-Identifier: Apache-2.0
//
// Raises the limit of open descriptors. Each connection is an open descriptor, and the soft limit of a shell is 1024.
// Rests on POSIX.

import Glibc

enum DescriptorLimit {
    /// Raises the soft limit to the hard limit.
    /// - Returns: the soft limit afterwards.
    @discardableResult
    static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return 1024
        }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 {
                limit = raised
            }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
