// SPDX-License-Identifier: Apache-2.0
//
// The reasons why a transport or a listener could not be created, each as a sentence with a remedy. An operator reads
// the sentence when the broker does not start, most often in a container. The mapping from errno values is pure, so
// tests need no such kernel. Rests on nothing.

internal import Glibc

/// A failure of the kernel's interface, with its explanation.
public enum TransportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kernel lacks a feature that the transport needs.
    case kernelTooOld(missing: String)
    /// io_uring is switched off or filtered by a seccomp profile.
    case denied(errno: Int32)
    /// The kernel had no memory for the operation.
    case outOfMemory(operation: String)
    /// The limit of open descriptors is reached.
    case descriptorsExhausted(operation: String)
    /// Another process listens on the address and port.
    case addressInUse(address: String, port: UInt16)
    /// No interface of the machine has the address.
    case addressUnavailable(address: String, port: UInt16)
    /// The process lacks the permission to bind the port.
    case portDenied(address: String, port: UInt16)
    /// The text is no IP address, and the name of no host.
    case badAddress(String)
    /// The configuration contradicts itself or the kernel's bounds.
    case badConfiguration(String)
    /// A thread used the ring of another thread.
    case wrongThread
    /// The kernel had no memory to keep completions and lost some. The state of the ring is unknown.
    case completionsLost
    /// Any other failure of a system call.
    case system(operation: String, errno: Int32)

    /// The failure as a sentence for the operator, with a remedy where the cause is known.
    public var description: String {
        switch self {
        case .kernelTooOld:
            """
            \(cause). io_uring needs Linux 6.1 or newer with CONFIG_IO_URING. Martlet runs on epoll \
            unless io_uring is required (--require-io-uring, --transport io_uring).
            """
        case .denied:
            """
            \(cause). Either the sysctl \
            kernel.io_uring_disabled is not 0: set it to 0. Or a container's seccomp profile filters \
            it, as Docker's default does: run the container with --security-opt \
            seccomp=unconfined, or with a profile that allows io_uring_setup, io_uring_enter and \
            io_uring_register. Martlet runs on epoll unless io_uring is required \
            (--require-io-uring, --transport io_uring).
            """
        case .outOfMemory(let operation):
            """
            \(operation): the kernel has no memory for it. Raise the container's memory limit or \
            RLIMIT_MEMLOCK (ulimit -l), or configure smaller rings and buffers.
            """
        case .descriptorsExhausted(let operation):
            """
            \(operation): too many open descriptors. Raise RLIMIT_NOFILE (ulimit -n, LimitNOFILE= in \
            systemd) or the sysctl fs.file-max.
            """
        case .addressInUse(let address, let port):
            """
            \(address) port \(port) is in use by another process. Stop it or choose another port.
            """
        case .addressUnavailable(let address, let port):
            """
            No network interface here has the address \(address) (port \(port)). Listen on one that \
            this machine has, or on 0.0.0.0 or :: for all.
            """
        case .portDenied(let address, let port):
            """
            \(address) port \(port): permission denied. Ports below 1024 need CAP_NET_BIND_SERVICE. Under \
            systemd set AmbientCapabilities=CAP_NET_BIND_SERVICE, elsewhere run setcap \
            cap_net_bind_service=ep on the program, or choose a higher port.
            """
        case .badAddress(let text):
            "\"\(text)\" is neither an IP address nor a known host name. Give an address, like 0.0.0.0 or ::1."
        case .badConfiguration(let sentence):
            sentence
        case .wrongThread:
            "The ring belongs to another thread. Create and use a transport on one thread."
        case .completionsLost:
            "The kernel ran out of memory and lost completions. The ring cannot go on; restart it."
        case .system(let operation, let errno):
            "\(operation) failed: \(Self.name(errno))."
        }
    }

    /// The failure without a remedy, for a log line about a fallback.
    package var cause: String {
        switch self {
        case .kernelTooOld(let missing): "The kernel lacks \(missing)"
        case .denied(let errno): "The kernel denies io_uring (\(Self.name(errno)))"
        default: description
        }
    }

    /// The error for an errno of opening a listening socket.
    public static func listening(
        _ operation: String, errno: Int32, address: String, port: UInt16
    ) -> TransportError {
        switch errno {
        case EADDRINUSE: .addressInUse(address: address, port: port)
        case EADDRNOTAVAIL: .addressUnavailable(address: address, port: port)
        case EACCES, EPERM: .portDenied(address: address, port: port)
        case EMFILE, ENFILE: .descriptorsExhausted(operation: operation)
        case ENOMEM, ENOBUFS: .outOfMemory(operation: operation)
        case EAFNOSUPPORT: .addressUnavailable(address: address, port: port)
        default: .system(operation: operation, errno: errno)
        }
    }

    package static func name(_ errno: Int32) -> String {
        "\(String(cString: strerror(errno))), errno \(errno)"
    }
}
