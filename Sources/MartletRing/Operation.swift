// SPDX-License-Identifier: Apache-2.0
//
// What comes back with a completion: 64 bits which name the operation and whom it was for.
//
//     63      56 55                      32 31                           0
//     | op code | generation (24 bits)     | index                        |
//
// The generation makes a completion of an earlier occupant of the index recognisable. Two operations
// use the lower 56 bits for other things; they say so below. Rests on Transport.

/// The operations of a ring.
enum Operation: UInt8 {
    /// Multishot accept; index = listener.
    case accept = 1
    /// Multishot receive of a connection.
    case receive
    /// The one send of a connection.
    case send
    /// Shutdown of a connection, first step of closing on older kernels.
    case shutdown
    /// Shutdown of the sending half.
    case endSending
    /// Close of a connection's direct descriptor.
    case close
    /// Cancel of another operation; only failures complete, and they mean that it has ended already.
    case cancel
    /// The pause of accepting is over.
    case acceptRetry
    /// Read of the waker's eventfd.
    case waker
    /// A message from another ring. Index = upper half of its value, `result` = lower half.
    case message
    /// A message to another ring failed (success does not complete). Generation = eventfd of the
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
    /// 0, or the error.
    @inline(__always) var errno: Int32 { result < 0 ? -result : 0 }
}
