// SPDX-License-Identifier: Apache-2.0
//
// The ways to wake a waiting transport. A `TransportWaker` works from any thread, with or without a transport, through
// an eventfd that the target reads. A `TransportAddress` is for threads with a transport. Between rings the message is
// an additional operation in the sender's batch and costs no system call; over epoll the sender writes the target's
// eventfd. Waking a thread on another core costs some 35 µs in all cases, so callers wake once per batch, never per
// message. Rests on Glibc.

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

/// The target of another transport's wakes. An address may outlive the transport; a wake then has no effect.
public struct TransportAddress: Sendable {
    /// The ring of the target; -1 for a target without a ring.
    package let ringDescriptor: Int32
    /// The eventfd of the target. The reference keeps the eventfd open, so a late wake writes into no other file.
    package let event: EventDescriptor?

    package init(ringDescriptor: Int32 = -1, event: EventDescriptor?) {
        self.ringDescriptor = ringDescriptor
        self.event = event
    }

    /// The address of a transport without the kernel.
    package init(number: Int32) { self.init(ringDescriptor: number, event: nil) }

    package var number: Int32 { ringDescriptor }
}

/// The owner of an eventfd, shared by a transport and its wakers. The last reference closes the eventfd, so a late
/// wake never writes into a descriptor that has been reused.
package final class EventDescriptor: Sendable {
    package let descriptor: Int32

    /// - Parameter descriptor: an eventfd, which the new value owns. The eventfd is blocking, because a ring's read
    ///   of a non-blocking eventfd would fail instead of waiting.
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
