// SPDX-License-Identifier: Apache-2.0
//
// The transport's memory that the kernel or every operation touches, allocated once at fixed addresses. Pointers
// instead of arrays, because access then neither counts references nor checks for exclusivity. Rests on
// ConnectionSlot.

internal import CLiburing
internal import Glibc

struct TransportMemory: ~Copyable {
    /// One slot per direct descriptor. The system provides zeroed pages at the first write.
    let slots: UnsafeMutablePointer<ConnectionSlot>
    /// One header per place in the submission ring. The kernel reads the header at submission.
    let messageHeaders: UnsafeMutableBufferPointer<msghdr>
    /// The memory into which the ring reads the waker's eventfd.
    let wakeValue: UnsafeMutablePointer<UInt64>
    /// The duration of a pause of accepting.
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
