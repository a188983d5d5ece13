// SPDX-License-Identifier: Apache-2.0
//
// What completions mean: at most one event each, and the next step of whatever goes on by itself
// (arming a receive again, closing once quiet, reading the waker again). Rests on Ring and
// ConnectionSlot.

internal import CLiburing
internal import Glibc

extension UringTransport {
    /// The slot that a completion is for, or nil if its occupant has gone.
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
            // The kernel also ends a multishot when the completion ring is full.
            if isLast { armReceiveIfWanted(connection, slot) }
            return .received(
                connection,
                buffers.bytes(
                    of: UInt16(truncatingIfNeeded: heldBuffer), count: Int(completion.result)))
        case -ENOBUFS, -ECANCELED, -EINTR, -EAGAIN:
            // Buffers had run out: all are back when the loop has seen every event, which is before
            // this reaches the kernel. Or a pause ended it, and perhaps a resume has come since.
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

    /// After a failed send: makes sure that receiving ends too.
    ///
    /// When a reset follows bytes so closely that one turn of the kernel sees both, an armed
    /// multishot receive reads the bytes and forgets the second wake-up (seen on 6.18): it would
    /// never complete. Cancelled and armed again it looks at the socket, and ends.
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

    /// Frees a slot and says so.
    private mutating func vacate(
        _ index: UInt32, _ slot: UnsafeMutablePointer<ConnectionSlot>
    ) -> TransportEvent {
        let connection = ConnectionID(index: index, generation: slot.pointee.generation)
        slot.pointee.free()
        connectionCount -= 1
        resumeAccepting(.tableFull)
        return .closed(connection)
    }

    /// Makes an accepted descriptor a connection.
    mutating func occupy(_ index: UInt32) -> TransportEvent {
        let slot = memory.slots + Int(index)
        precondition(slot.pointee.state.isEmpty, "the kernel gave out an index that is taken")
        slot.pointee.state = [.open, .receiveWanted]
        connectionCount += 1
        if connectionsMax - connectionCount > connectionsMax / 16 { isAcceptFailing = false }
        let connection = ConnectionID(index: index, generation: slot.pointee.generation)
        armReceiveIfWanted(connection, slot)
        return .accepted(connection)
    }

    private mutating func completedAccept(_ completion: Completion) -> TransportEvent? {
        let listener = Int(completion.index)
        if completion.flags & IORING_CQE_F_MORE == 0 { listeners[listener].isArmed = false }
        defer { continueAccepting(listener) }
        guard completion.result >= 0 else {
            return acceptFailure(listener, errno: completion.errno)
        }
        // An accept of the same batch may take the index of a close and complete before it: a
        // multishot completes at once, a single operation at the end of the batch. Then the close
        // has happened; its own completion, of an old generation by then, will be ignored.
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
