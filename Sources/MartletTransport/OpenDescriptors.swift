// SPDX-License-Identifier: Apache-2.0
//
// The limit of open descriptors (RLIMIT_NOFILE), as far as transports depend on the limit. Rests on Glibc.

internal import Glibc

package enum OpenDescriptors {
    /// Raises the process's limit of open descriptors toward `wanted`, as far as permitted.
    ///
    /// - Returns: the resulting limit.
    package static func raiseLimit(to wanted: Int) -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return 1024
        }
        if limit.rlim_cur < UInt(wanted), limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = min(UInt(wanted), limit.rlim_max)
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 {
                limit = raised
            }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
