// SPDX-License-Identifier: Apache-2.0
//
// The memory of a transport that the kernel or every operation touches: allocated once, at fixed
// addresses. Behind pointers rather than arrays so that no access counts references or checks for
// exclusivity. Rests on ConnectionSlot.

internal import CLiburing
internal import Glibc

struct TransportMemory: ~Copyable {
    /// One slot for each direct descriptor. Pages of zeros come from the system when they are written.
    let slots: UnsafeMutablePointer<ConnectionSlot>
    /// One header for each place in the submission ring; the kernel reads it at submission.
    let messageHeaders: UnsafeMutableBufferPointer<msghdr>
    /// Where the ring reads the waker's eventfd to.
    let wakeValue: UnsafeMutablePointer<UInt64>
    /// How long accepting rests.
    let acceptRetryTime: UnsafeMutablePointer<__kernel_timespec>

    init(connectionsMax: Int, submissionEntries: Int) {
        guard let zeros = calloc(connectionsMax, MemoryLayout<ConnectionSlot>.stride) else {
            fatalError("There is no memory for \(connectionsMax) connections.")
        }
        slots = zeros.bindMemory(to: ConnectionSlot.self, capacity: connectionsMax)
        messageHeaders = .allocate(capacity: submissionEntries)
        messageHeaders.initialize(repeating: msghdr())
        wakeValue = .allocate(capacity: 1)
        wakeValue.initialize(to: 0)
        acceptRetryTime = .allocate(capacity: 1)
        acceptRetryTime.initialize(to: __kernel_timespec())
    }

    deinit {
        free(slots)
        messageHeaders.deallocate()
        wakeValue.deallocate()
        acceptRetryTime.deallocate()
    }
}
