// SPDX-License-Identifier: Apache-2.0
//
// Turns readiness into completions, one event for each call. In a turn a connection tells the end of a send and receives
// once; a connection with more work waits for the next turn. Rests on SocketTable.

internal import Glibc

extension EpollTransport {
    /// Does the next step of a connection.
    /// - Returns: the event of the step; nil if the kernel had nothing after all.
    mutating func work(on index: UInt32) -> TransportEvent? {
        let slot = table.slots + Int(index)
        let connection = ConnectionID(index: index, generation: slot.pointee.generation)
        if slot.pointee.state.contains(.sending),
            slot.pointee.state.isDisjoint(with: [.sendDone, .full])
        {
            sendStuck(index, slot)
        }
        if slot.pointee.state.contains(.sendDone) {
            toReceive = index
            return told(connection, slot)
        }
        if slot.pointee.state.contains(.closing) { return vacate(index) }
        return receive(connection, slot)
    }

    /// Receives from the connection whose send was told just before.
    mutating func receiveAfterSend() -> TransportEvent? {
        let index = toReceive
        toReceive = SocketSlot.noIndex
        let slot = table.slots + Int(index)
        guard !slot.pointee.state.contains(.closing) else {
            table.queueIfNeeded(index)
            return nil
        }
        return receive(
            ConnectionID(index: index, generation: slot.pointee.generation), slot)
    }

    /// The outcome of the connection's send.
    private mutating func told(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<SocketSlot>
    ) -> TransportEvent {
        slot.pointee.state.subtract([.sending, .sendDone])
        let result = slot.pointee.sendResult
        // After a failure the receive fails too, or ends: the loop hears of the end in every case.
        if result < 0 { slot.pointee.state.formUnion([.readable, .ending]) }
        return .sent(connection, byteCount: Int(max(result, 0)), errno: max(-result, 0))
    }

    /// Frees a slot and returns the event for the loop.
    private mutating func vacate(_ index: UInt32) -> TransportEvent {
        let connection = ConnectionID(
            index: index, generation: table.slots[Int(index)].generation)
        table.giveBack(index)
        connectionCount -= 1
        resumeAccepting(.tableFull)
        return .closed(connection)
    }

    private mutating func receive(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<SocketSlot>
    ) -> TransportEvent? {
        guard slot.pointee.state.isSuperset(of: [.receiveWanted, .readable]),
            !slot.pointee.state.contains(.receiveEnded)
        else { return nil }
        var count: Int
        repeat {
            count = recv(slot.pointee.descriptor, buffer.baseAddress, buffer.count, 0)
        } while count < 0 && errno == EINTR
        switch count {
        case 1...:
            // A socket that gives less than the buffer holds is empty; the next bytes are another edge.
            if count < buffer.count, !slot.pointee.state.contains(.ending) {
                slot.pointee.state.remove(.readable)
            }
            table.queueIfNeeded(connection.index)
            return .received(connection, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        case 0:
            return receiveEnded(connection, slot, errno: 0)
        default:
            guard errno == EAGAIN else { return receiveEnded(connection, slot, errno: errno) }
            slot.pointee.state.subtract([.readable, .ending])
            return nil
        }
    }

    private mutating func receiveEnded(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<SocketSlot>, errno: Int32
    ) -> TransportEvent {
        slot.pointee.state.insert(.receiveEnded)
        slot.pointee.state.remove(.readable)
        return .receiveEnded(connection, errno: errno)
    }
}
