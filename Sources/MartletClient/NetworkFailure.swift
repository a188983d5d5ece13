// SPDX-License-Identifier: Apache-2.0
//
// Why the network failed a connection, in words for people. SwiftNIO's own descriptions name calls, types and numbers;
// whoever typed a wrong port wants to read "Connection refused". Rests on SwiftNIO.

import NIOCore
import NIOPosix

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// The words for an error of SwiftNIO.
package enum NetworkFailure {
    /// The system's words for an error number, such as `Connection refused`. Any other error describes itself.
    package static func words(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // The last address that was tried; without one, the name has no address.
            return (error.connectionErrors.last?.error ?? error.dnsAError ?? error.dnsAAAAError)
                .map(words) ?? "the name has no address"
        case let error as IOError: return unsafe String(cString: strerror(error.errnoCode))
        case let error as SocketAddressError.UnknownHost: return error.errorDescription
        case ChannelError.connectTimeout(let time):
            return "no answer within \(time.nanoseconds / 1_000_000_000) s"
        case is ChannelError: return "the connection is closed"
        default: return "\(error)"
        }
    }
}
