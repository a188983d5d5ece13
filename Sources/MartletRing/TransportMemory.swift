// SPDX-License-Identifier: Apache-2.0
//
// The transport's memory that the kernel or every operation touches, allocated once at fixed addresses. Pointers
// instead of arrays, because access then neither counts references nor checks for exclusivity. Rests on
// ConnectionSlot and PeerAddress.

internal import CLiburing
internal import Glibc
import MartletBase
import MartletTransport

/// The place into which the kernel writes the address of an accepted peer.
struct AcceptAddress {
    var storage: sockaddr_storage
    var byteCount: socklen_t

    var peer: PeerAddress { PeerAddress(storage) }
}

struct TransportMemory: ~Copyable {
    /// One slot per direct descriptor. The system provides zeroed pages at the first write.
    let slots: UnsafeMutablePointer<ConnectionSlot>
    /// One header per place in the submission ring. The kernel reads the header at submission.
    let messageHeaders: UnsafeMutableBufferPointer<msghdr>
    /// The memory into which the ring reads the waker's eventfd.
    let wakeValue: UnsafeMutablePointer<UInt64>
    /// The duration of a pause of accepting.
    let acceptRetryTime: UnsafeMutablePointer<__kernel_timespec>

    /// The addresses that accepts write: `Listener.acceptsMax` for each listening socket.
    let acceptAddresses: UnsafeMutablePointer<AcceptAddress>

    init(connectionsMax: Int, submissionEntries: Int, listenersMax: Int) {
        guard let zeros = calloc(connectionsMax, MemoryLayout<ConnectionSlot>.stride) else {
            fatalError("There is no memory for \(connectionsMax) connections.")
        }
        let accepts = listenersMax * Listener.acceptsMax
        guard let addresses = calloc(accepts, MemoryLayout<AcceptAddress>.stride) else {
            fatalError("There is no memory for \(accepts) addresses.")
        }
        acceptAddresses = addresses.bindMemory(to: AcceptAddress.self, capacity: accepts)
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
        free(acceptAddresses)
        messageHeaders.deallocate()
        wakeValue.deallocate()
        acceptRetryTime.deallocate()
    }
}
