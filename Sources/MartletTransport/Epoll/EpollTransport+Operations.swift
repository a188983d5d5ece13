// SPDX-License-Identifier: Apache-2.0
//
// The requests of a loop for a connection. Sends and ends happen at once; their outcomes come as events of the next
// turn. Pausing and resuming cost no system call. Rests on SocketTable and StuckSend.

public import Glibc

extension EpollTransport {
    /// UIO_MAXIOV: the largest number of vectors in one sendmsg.
    private static var vectorsMax: Int { 1024 }

    /// The slot of a connection that accepts operations, or nil.
    @inline(__always)
    private func liveSlot(_ connection: ConnectionID) -> UnsafeMutablePointer<SocketSlot>? {
        guard Int(connection.index) < connectionsMax else { return nil }
        let slot = table.slots + Int(connection.index)
        guard slot.pointee.generation == connection.generation,
            slot.pointee.state.contains(.open), !slot.pointee.state.contains(.closing)
        else { return nil }
        return slot
    }

    // MARK: Sending

    /// Sends at once. Bytes past 2^31 - 1 are not sent, so `.sent` reports a short send. A second send before `.sent`
    /// ends the process.
    public mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        guard let slot = liveSlot(connection) else { return }
        beginSend(slot)
        let count = min(bytes.count, Int(Int32.max))
        var sent = -1
        if !slot.pointee.state.contains(.full) {
            sent = Glibc.send(
                slot.pointee.descriptor, bytes.baseAddress, count, Int32(MSG_NOSIGNAL))
            if finish(slot, sent, of: count) { return table.queueIfNeeded(connection.index) }
        }
        let vector = iovec(
            iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: count)
        withUnsafePointer(to: vector) {
            hold(connection.index, UnsafeBufferPointer(start: $0, count: 1))
        }
    }

    /// Sends several pieces at once. More than 1024 vectors, or a second send before `.sent`, end the process.
    public mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {
        guard let slot = liveSlot(connection) else { return }
        precondition(vectors.count <= Self.vectorsMax, "the kernel gathers 1024 vectors at most")
        beginSend(slot)
        if !slot.pointee.state.contains(.full), gather(slot, vectors) {
            table.queueIfNeeded(connection.index)
        } else {
            hold(connection.index, vectors)
        }
    }

    /// Tries the connection's waiting send again.
    mutating func sendStuck(_ index: UInt32, _ slot: UnsafeMutablePointer<SocketSlot>) {
        guard let send = stuck[index], gather(slot, UnsafeBufferPointer(send.vectors)) else {
            return
        }
        drop(index)
    }

    @inline(__always)
    private func beginSend(_ slot: UnsafeMutablePointer<SocketSlot>) {
        precondition(
            !slot.pointee.state.contains(.sending),
            "a send of this connection is in flight; gather and send after `.sent`")
        slot.pointee.state.insert(.sending)
    }

    /// - Returns: whether the send is done; false if the socket has no room.
    private func gather(
        _ slot: UnsafeMutablePointer<SocketSlot>, _ vectors: UnsafeBufferPointer<iovec>
    ) -> Bool {
        var header = msghdr()
        header.msg_iov = UnsafeMutablePointer(mutating: vectors.baseAddress)
        header.msg_iovlen = vectors.count
        let sent = sendmsg(slot.pointee.descriptor, &header, Int32(MSG_NOSIGNAL))
        var count = 0
        for vector in vectors { count += vector.iov_len }
        return finish(slot, sent, of: count)
    }

    /// Notes the outcome of a system call that sends.
    /// - Returns: whether the send is done; false if the socket has no room.
    @inline(__always)
    private func finish(
        _ slot: UnsafeMutablePointer<SocketSlot>, _ sent: Int, of count: Int
    ) -> Bool {
        if sent == count {
            slot.pointee.sendResult = Int32(sent)
        } else if sent >= 0 {
            // The socket has taken what it had room for. An attempt to send the rest would fail.
            slot.pointee.sendResult = Int32(sent)
            slot.pointee.state.insert(.full)
        } else if errno == EAGAIN {
            slot.pointee.state.insert(.full)
            return false
        } else {
            slot.pointee.sendResult = -errno
        }
        slot.pointee.state.insert(.sendDone)
        return true
    }

    private mutating func hold(_ index: UInt32, _ vectors: UnsafeBufferPointer<iovec>) {
        stuck[index] = StuckSend(copying: vectors)
    }

    private mutating func drop(_ index: UInt32) {
        stuck.removeValue(forKey: index)?.free()
    }

    // MARK: Receiving

    /// Leaves bytes in the socket until `resumeReceive`.
    public mutating func pauseReceive(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        slot.pointee.state.remove(.receiveWanted)
    }

    /// Receives again; bytes that wait in the socket come in the next turn.
    public mutating func resumeReceive(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        slot.pointee.state.insert(.receiveWanted)
        table.queueIfNeeded(connection.index)
    }

    // MARK: Ending

    /// Ends the sending half at once. A send in flight ends the process, so `endSending` follows `.sent`.
    public mutating func endSending(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        precondition(
            !slot.pointee.state.contains(.sending),
            "a send of this connection is in flight; end sending after `.sent`")
        shutdown(slot.pointee.descriptor, Int32(SHUT_WR))
    }

    /// Closes the socket at once. A waiting send is cancelled.
    public mutating func close(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        slot.pointee.state.insert(.closing)
        if slot.pointee.state.contains(.sending), !slot.pointee.state.contains(.sendDone) {
            drop(connection.index)
            slot.pointee.sendResult = -ECANCELED
            slot.pointee.state.insert(.sendDone)
        }
        Glibc.close(slot.pointee.descriptor)
        table.queueIfNeeded(connection.index)
    }
}
