// SPDX-License-Identifier: Apache-2.0
//
// The 64 bits of user data that a completion returns: the operation and its connection.
//
//     63      56 55                      32 31                           0
//     | op code | generation (24 bits)     | index                        |
//
// The generation exposes completions of an earlier occupant of the index. `accept`, `message` and `messageFailed`
// use the lower 56 bits in another way; their cases describe how. Rests on Transport.

import MartletTransport

/// The operations of a ring.
enum Operation: UInt8 {
    /// Single accept; index = number of the listener, generation = place of its address.
    case accept = 1
    /// Multishot receive of a connection.
    case receive
    /// The only send of a connection in flight.
    case send
    /// Shutdown of a connection: the first step of closing if `isShutdownNeeded`.
    case shutdown
    /// Shutdown of a connection's sending half.
    case endSending
    /// Close of a connection's direct descriptor.
    case close
    /// Cancel of another operation. Only a failed cancel completes; failure means that the operation has already
    /// ended.
    case cancel
    /// The timeout that ends a pause of accepting.
    case acceptRetry
    /// Read of the waker's eventfd.
    case waker
    /// A message from another ring. Index = upper half of the message's value, `result` = lower half.
    case message
    /// A failed message to another ring (a successful message does not complete). Generation = eventfd of the
    /// target, index = lower half of the value.
    case messageFailed

    @inline(__always)
    func userData(generation: UInt32 = 0, index: UInt32 = 0) -> UInt64 {
        UInt64(rawValue) << 56 | UInt64(generation & ConnectionSlot.generationMask) << 32
            | UInt64(index)
    }

    @inline(__always)
    func userData(_ connection: ConnectionID) -> UInt64 {
        userData(generation: connection.generation, index: connection.index)
    }
}

/// A completion, copied out of the ring.
struct Completion {
    let userData: UInt64
    /// A count, an index, or a negated errno.
    let result: Int32
    let flags: UInt32

    @inline(__always) var operation: Operation? { Operation(rawValue: UInt8(userData >> 56)) }
    @inline(__always) var generation: UInt32 {
        UInt32(truncatingIfNeeded: userData >> 32) & ConnectionSlot.generationMask
    }
    @inline(__always) var index: UInt32 { UInt32(truncatingIfNeeded: userData) }
    /// The errno of a failed operation; otherwise 0.
    @inline(__always) var errno: Int32 { result < 0 ? -result : 0 }
}
