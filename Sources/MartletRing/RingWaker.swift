// SPDX-License-Identifier: Apache-2.0
//
// How others wake a transport that waits. A `RingWaker` works from any thread, with or without a
// ring: an eventfd which the ring reads. A `RingAddress` is for another ring: a message is one more
// operation in its batch and costs no call of its own. Either way waking a thread on another core
// costs some 35 µs: once per batch, never per message. Rests on CLiburing.

internal import CLiburing
internal import Glibc

/// Wakes one transport from any thread. Safe to keep beyond the transport's life: it then wakes
/// nobody.
public struct RingWaker: Sendable {
    let event: EventDescriptor?

    init(event: EventDescriptor) { self.event = event }

    /// Wakes nobody: of a transport that is looked after by whoever turns its loop.
    package init() { event = nil }

    /// Adds a value to what `.woken` will tell. Wakes that nobody has looked at yet become one.
    ///
    /// - Parameter value: at least 1. (The kernel's counter holds 64 bits less one; a wake which
    ///   would overflow it waits until it is read.)
    public func wake(value: UInt64 = 1) {
        event?.add(value)
    }
}

/// Where another ring's messages go; valid while the transport lives.
public struct RingAddress: Hashable, Sendable {
    let ringDescriptor: Int32
    let eventDescriptor: Int32

    init(ringDescriptor: Int32, eventDescriptor: Int32) {
        self.ringDescriptor = ringDescriptor
        self.eventDescriptor = eventDescriptor
    }

    /// Of a transport without a ring.
    package init(number: Int32) { self.init(ringDescriptor: number, eventDescriptor: -1) }

    package var number: Int32 { ringDescriptor }
}

/// The owner of an eventfd, shared by a transport and its wakers: whoever is last closes it, so that
/// a late wake never writes into a descriptor which has become something else.
final class EventDescriptor: Sendable {
    let descriptor: Int32

    init() throws(RingError) {
        // Blocking: a ring's read of a non-blocking one would fail instead of waiting.
        descriptor = eventfd(0, Int32(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw RingError.setup("eventfd", errno: errno) }
    }

    func add(_ value: UInt64) {
        precondition(value > 0, "a wake of 0 would wake nobody")
        Self.add(value, to: descriptor)
    }

    static func add(_ value: UInt64, to descriptor: Int32) {
        var value = value
        while write(descriptor, &value, MemoryLayout<UInt64>.size) < 0 && errno == EINTR {}
    }

    deinit { Glibc.close(descriptor) }
}
