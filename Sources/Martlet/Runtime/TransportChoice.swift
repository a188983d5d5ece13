// SPDX-License-Identifier: Apache-2.0
//
// OPS-8: the choice between io_uring and epoll, made once at the start of a broker. io_uring is tried with a ring and a
// submission, because a filter of system calls may deny any of its three calls. A lack of memory or descriptors is no
// reason for epoll: epoll would soon lack them too, and the cause would stay hidden. Rests on MartletRing.

import Logging
import MartletRing
import MartletTransport

extension BrokerConfiguration {
    /// The transport for this process and kernel. Logs one line about a fallback.
    /// - Throws: `TransportError` if io_uring is required and refused, or if the kernel lacks memory or descriptors.
    func chosenTransport() throws(TransportError) -> TransportKind {
        if transport == .epoll { return .epoll }
        do {
            try UringTransport.requireAvailable()
            return .ioUring
        } catch {
            guard transport == nil, error.isRefusal else { throw error }
            logger.notice(
                "io_uring is not available; the broker runs on epoll",
                metadata: ["reason": "\(error.cause)"])
            return .epoll
        }
    }
}

extension TransportError {
    /// Whether the kernel has no io_uring for this process.
    fileprivate var isRefusal: Bool {
        switch self {
        case .denied, .kernelTooOld: true
        case .outOfMemory, .descriptorsExhausted, .addressInUse, .addressUnavailable, .portDenied,
            .badAddress, .badConfiguration, .wrongThread, .completionsLost, .system:
            false
        }
    }
}
