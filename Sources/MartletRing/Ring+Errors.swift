// SPDX-License-Identifier: Apache-2.0
//
// The meaning of the errno values with which io_uring refuses. Rests on MartletTransport.

internal import CLiburing
internal import Glibc
public import MartletTransport

extension TransportError {
    /// The error for an errno of creating a ring or registering with a ring.
    public static func setup(_ operation: String, errno: Int32) -> TransportError {
        switch errno {
        case EPERM, EACCES: .denied(errno: errno)
        case ENOSYS: .kernelTooOld(missing: "io_uring (\(operation): \(name(errno)))")
        case EINVAL: .kernelTooOld(missing: "what \(operation) asks for (\(name(errno)))")
        case ENOMEM: .outOfMemory(operation: operation)
        case EMFILE, ENFILE: .descriptorsExhausted(operation: operation)
        default: .system(operation: operation, errno: errno)
        }
    }

    /// The error for an errno of entering a ring.
    public static func entering(errno: Int32) -> TransportError {
        switch errno {
        case EEXIST: .wrongThread
        case EBADR: .completionsLost
        case EPERM, EACCES: .denied(errno: errno)
        case ENOSYS: .kernelTooOld(missing: "io_uring_enter (\(name(errno)))")
        default: .system(operation: "io_uring_enter", errno: errno)
        }
    }
}

extension EventDescriptor {
    /// A new eventfd.
    static func open() throws(TransportError) -> EventDescriptor {
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw TransportError.setup("eventfd", errno: errno) }
        return EventDescriptor(owning: descriptor)
    }
}
