// SPDX-License-Identifier: Apache-2.0
//
// The ways to wake a waiting transport. A `TransportWaker` works from any thread, with or without a ring, through an
// eventfd that the target's ring reads. A `TransportAddress` is for threads with a ring: the message is an additional
// operation in the sender's batch and costs no system call. Waking a thread on another core costs some 35 µs in
// both cases, so callers wake once per batch, never per message. Rests on Glibc.

internal import Glibc

/// Wakes one transport from any thread. A waker may outlive the transport; a wake then has no effect.
public struct TransportWaker: Sendable {
    package let event: EventDescriptor?

    package init(event: EventDescriptor) { self.event = event }

    /// A waker without effect, for a transport that another component drives.
    package init() { event = nil }

    /// Adds a value to the next `.woken` event. Wakes before the event are added together.
    ///
    /// - Parameter value: at least 1. The kernel's counter holds 64 bits less one; a wake beyond that bound blocks
    ///   until the counter is read.
    public func wake(value: UInt64 = 1) {
        event?.add(value)
    }
}

/// The target of another ring's messages; valid while the transport lives.
public struct TransportAddress: Hashable, Sendable {
    package let ringDescriptor: Int32
    package let eventDescriptor: Int32

    package init(ringDescriptor: Int32, eventDescriptor: Int32) {
        self.ringDescriptor = ringDescriptor
        self.eventDescriptor = eventDescriptor
    }

    /// The address of a transport without a ring.
    package init(number: Int32) { self.init(ringDescriptor: number, eventDescriptor: -1) }

    package var number: Int32 { ringDescriptor }
}

/// The owner of an eventfd, shared by a transport and its wakers. The last reference closes the eventfd, so a late
/// wake never writes into a descriptor that has been reused.
package final class EventDescriptor: Sendable {
    package let descriptor: Int32

    /// - Parameter descriptor: an eventfd, which the new value owns. It is blocking, because a ring's read of a
    ///   non-blocking eventfd would fail instead of waiting.
    package init(owning descriptor: Int32) { self.descriptor = descriptor }

    package func add(_ value: UInt64) {
        precondition(value > 0, "a wake of 0 would wake nobody")
        Self.add(value, to: descriptor)
    }

    package static func add(_ value: UInt64, to descriptor: Int32) {
        var value = value
        while write(descriptor, &value, MemoryLayout<UInt64>.size) < 0 && errno == EINTR {}
    }

    deinit { Glibc.close(descriptor) }
}
