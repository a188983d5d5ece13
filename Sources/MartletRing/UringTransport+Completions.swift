// SPDX-License-Identifier: Apache-2.0
//
// Handles completions. A completion causes at most one event, and the next step of any process that continues by
// itself: arming a receive again, closing a quiet connection, reading the waker again. Rests on Ring and
// ConnectionSlot.

internal import CLiburing
internal import Glibc
import MartletBase
import MartletTransport

extension UringTransport {
    /// The slot of a completion, or nil if the completion belongs to an earlier occupant.
    @inline(__always)
    private func slot(of completion: Completion) -> UnsafeMutablePointer<ConnectionSlot>? {
        guard Int(completion.index) < connectionsMax else { return nil }
        let slot = memory.slots + Int(completion.index)
        guard slot.pointee.generation == completion.generation,
            slot.pointee.state.contains(.open)
        else { return nil }
        return slot
    }

    mutating func handle(_ completion: Completion) -> TransportEvent? {
        switch completion.operation {
        case .receive: completedReceive(completion)
        case .send: completedSend(completion)
        case .accept: completedAccept(completion)
        case .close: completedClose(completion)
        case .shutdown, .endSending: completedShutdown(completion)
        case .waker: completedWaker(completion)
        case .message:
            .woken(
                UInt64(completion.index) << 32 | UInt64(UInt32(bitPattern: completion.result)))
        case .messageFailed: failedMessage(completion)
        case .acceptRetry: completedAcceptRetry()
        case .cancel, nil: nil
        }
    }

    private mutating func completedReceive(_ completion: Completion) -> TransportEvent? {
        if completion.flags & IORING_CQE_F_BUFFER != 0 {
            heldBuffer = Int32(completion.flags >> UInt32(IORING_CQE_BUFFER_SHIFT))
        }
        defer { if completion.result <= 0 { giveBackHeldBuffer() } }
        guard let slot = slot(of: completion) else {
            giveBackHeldBuffer()
            return nil
        }
        let connection = ConnectionID(index: completion.index, generation: completion.generation)
        let isLast = completion.flags & IORING_CQE_F_MORE == 0
        if isLast { slot.pointee.state.remove(.receiving) }
        if slot.pointee.state.contains(.closing) {
            giveBackHeldBuffer()
            closeIfQuiet(connection, slot)
            return nil
        }
        switch completion.result {
        case 1...:
            // The kernel also ends a multishot receive when the completion ring is full.
            if isLast { armReceiveIfWanted(connection, slot) }
            return .received(
                connection,
                buffers.bytes(
                    of: UInt16(truncatingIfNeeded: heldBuffer), count: Int(completion.result)))
        case -ENOBUFS, -ECANCELED, -EINTR, -EAGAIN:
            // Either the buffers ran out: all buffers are returned once the loop has handled every event, and the
            // new receive reaches the kernel only after that. Or `pauseReceive` ended the receive, and
            // `resumeReceive` may have followed.
            armReceiveIfWanted(connection, slot)
            return nil
        default:
            slot.pointee.state.insert(.receiveEnded)
            return .receiveEnded(connection, errno: completion.errno)
        }
    }

    private mutating func giveBackHeldBuffer() {
        guard heldBuffer >= 0 else { return }
        buffers.giveBack(UInt16(truncatingIfNeeded: heldBuffer))
        heldBuffer = -1
    }

    private mutating func completedSend(_ completion: Completion) -> TransportEvent? {
        guard let slot = slot(of: completion) else { return nil }
        let connection = ConnectionID(index: completion.index, generation: completion.generation)
        slot.pointee.state.remove(.sending)
        closeIfQuiet(connection, slot)
        if completion.result < 0 { probeReceive(connection, slot) }
        return .sent(
            connection, byteCount: Int(max(completion.result, 0)), errno: completion.errno)
    }

    /// Makes sure that receiving ends too after a failed send.
    ///
    /// If a reset follows bytes so closely that the kernel handles both in one turn, an armed multishot receive
    /// reads the bytes and misses the second wake-up (seen on 6.18). The receive would never complete. After a
    /// cancel, the newly armed receive looks at the socket and ends.
    private mutating func probeReceive(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<ConnectionSlot>
    ) {
        guard slot.pointee.state.isSuperset(of: [.receiving, .receiveWanted]) else { return }
        cancel(.receive, of: connection)
    }

    private mutating func completedShutdown(_ completion: Completion) -> TransportEvent? {
        guard let slot = slot(of: completion) else { return nil }
        let connection = ConnectionID(index: completion.index, generation: completion.generation)
        slot.pointee.state.remove(.shuttingDown)
        if completion.operation == .endSending, isShutdownNeeded,
            slot.pointee.state.contains(.closing)
        {
            shutDown(connection, slot, .shutdown, Int32(SHUT_RDWR))
        }
        closeIfQuiet(connection, slot)
        return nil
    }

    private mutating func completedClose(_ completion: Completion) -> TransportEvent? {
        guard let slot = slot(of: completion) else { return nil }
        return vacate(completion.index, slot)
    }

    /// Frees a slot and returns the event for the loop.
    private mutating func vacate(
        _ index: UInt32, _ slot: UnsafeMutablePointer<ConnectionSlot>
    ) -> TransportEvent {
        let connection = ConnectionID(index: index, generation: slot.pointee.generation)
        slot.pointee.free()
        connectionCount -= 1
        resumeAccepting(.tableFull)
        return .closed(connection)
    }

    /// Makes a connection of an accepted descriptor.
    mutating func occupy(_ index: UInt32) -> TransportEvent {
        let slot = memory.slots + Int(index)
        precondition(slot.pointee.state.isEmpty, "the kernel gave out an index that is taken")
        slot.pointee.state = [.open, .receiveWanted]
        connectionCount += 1
        if connectionsMax - connectionCount > connectionsMax / 16 { isAcceptFailing = false }
        acceptedLast = index
        return .accepted(ConnectionID(index: index, generation: slot.pointee.generation))
    }

    private mutating func completedAccept(_ completion: Completion) -> TransportEvent? {
        let listener = Int(completion.index)
        let place = Int(completion.generation)
        listeners[listener].armed &= ~(1 << UInt32(place))
        let origin = ConnectionOrigin(
            address: acceptAddress(listener, place).pointee.peer, listener: listener)
        defer { continueAccepting(listener) }
        guard completion.result >= 0 else {
            return acceptFailure(listener, errno: completion.errno)
        }
        acceptedOrigin = origin
        // In one batch, an accept may reuse the index of a close and complete before the close, because a close may
        // complete at the end of the batch. The close has then taken effect, and its own completion will be ignored
        // because of the old generation.
        let index = UInt32(completion.result)
        let slot = memory.slots + Int(index)
        if slot.pointee.state.contains(.closeQueued) {
            acceptedNext = index
            return vacate(index, slot)
        }
        return occupy(index)
    }

    private mutating func completedWaker(_ completion: Completion) -> TransportEvent? {
        let value = memory.wakeValue.pointee
        guard completion.result != -ECANCELED else { return nil }
        armWaker()
        return completion.result == 8 ? .woken(value) : nil
    }

    private func failedMessage(_ completion: Completion) -> TransportEvent? {
        switch completion.errno {
        case EAGAIN, ENOMEM, EOVERFLOW:
            EventDescriptor.add(UInt64(max(completion.index, 1)), to: Int32(completion.generation))
        default: break
        }
        return nil
    }
}
