// SPDX-License-Identifier: Apache-2.0
//
// Chooses between io_uring and epoll, once, when the broker starts (OPS-8). io_uring is tried with a ring and a submission,
// because a filter of system calls may deny any of its three calls. A lack of memory or descriptors is no reason for epoll:
// epoll would soon lack them too, and the cause would stay hidden. The trial has a thread of its own, because the kernel
// interrupts the thread of a ring once more when the ring has ended: a blocking call of the embedding server would return
// EINTR. Rests on MartletRing and SystemThread.

import Logging
import MartletRing
import MartletThreads
import MartletTransport

extension BrokerConfiguration {
    /// The transport for this process and kernel. Logs one line about a fallback.
    /// - Throws: `TransportError` if io_uring is required and refused, or if the kernel lacks memory or descriptors;
    ///   `MartletError` if the system has no thread left.
    package func chosenTransport() throws -> TransportKind {
        if transport == .epoll { return .epoll }
        let trial = Startup<Void>()
        let thread = try SystemThread(name: "martlet-trial") {
            trial.tell(Result { try UringTransport.requireAvailable() })
        }
        thread.join()
        do {
            try trial.wait()
            return .ioUring
        } catch let error as TransportError {
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
