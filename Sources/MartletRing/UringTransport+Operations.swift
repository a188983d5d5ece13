// SPDX-License-Identifier: Apache-2.0
//
// Turns a loop's requests for a connection into entries of the submission ring. A request causes a system call only
// if the ring is full. A cancel names its operation by user data, which the kernel finds by hash; by descriptor the
// kernel would walk all armed operations of the ring. Rests on Ring.

internal import CLiburing
internal import Glibc
public import MartletTransport

extension UringTransport {
    /// The slot of a connection that accepts operations, or nil.
    @inline(__always)
    private func liveSlot(_ connection: ConnectionID) -> UnsafeMutablePointer<ConnectionSlot>? {
        guard Int(connection.index) < connectionsMax else { return nil }
        let slot = memory.slots + Int(connection.index)
        guard slot.pointee.generation == connection.generation,
            slot.pointee.state.isSuperset(of: .open), slot.pointee.state.isDisjoint(with: .closing)
        else { return nil }
        return slot
    }

    /// Queues a send. Bytes past 2^31 - 1 are not sent, so `.sent` reports a short send. A second send before `.sent`
    /// ends the process.
    public mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        guard let slot = liveSlot(connection) else { return }
        beginSend(slot)
        let entry = ring.nextSubmission()
        // The kernel counts in 31 bits, so a longer send becomes a short send.
        io_uring_prep_send(
            entry, Int32(bitPattern: connection.index), bytes.baseAddress,
            min(bytes.count, Int(Int32.max)), Int32(MSG_NOSIGNAL))
        entry.pointee.flags = Kernel.fixedFile
        entry.pointee.user_data = Operation.send.userData(connection)
    }

    /// Sends several pieces as one.
    /// - Parameter vectors: the first of `count` values of type `iovec`.
    mutating func gather(_ connection: ConnectionID, vectors: UnsafeRawPointer?, count: Int) {
        guard let slot = liveSlot(connection) else { return }
        precondition(count <= Kernel.vectorsMax, "the kernel gathers 1024 vectors at most")
        beginSend(slot)
        let entry = ring.nextSubmission()
        let header = memory.messageHeaders.baseAddress! + ring.place(of: entry)
        header.pointee.msg_iov = UnsafeMutableRawPointer(mutating: vectors)?
            .assumingMemoryBound(to: iovec.self)
        header.pointee.msg_iovlen = count
        io_uring_prep_sendmsg(
            entry, Int32(bitPattern: connection.index), header, UInt32(MSG_NOSIGNAL))
        entry.pointee.flags = Kernel.fixedFile
        entry.pointee.user_data = Operation.send.userData(connection)
    }

    @inline(__always)
    private func beginSend(_ slot: UnsafeMutablePointer<ConnectionSlot>) {
        precondition(
            slot.pointee.state.isDisjoint(with: .sending),
            "a send of this connection is in flight; gather and send after `.sent`")
        slot.pointee.state.insert(.sending)
    }

    /// Cancels the armed receive, at the next submission.
    public mutating func pauseReceive(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection), slot.pointee.state.contains(.receiveWanted) else {
            return
        }
        slot.pointee.state.remove(.receiveWanted)
        if slot.pointee.state.contains(.receiving) { cancel(.receive, of: connection) }
    }

    /// Arms a receive again, unless the stream has ended. After a pause whose cancel is still in flight, the
    /// completion of the cancelled receive arms the next.
    public mutating func resumeReceive(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        slot.pointee.state.insert(.receiveWanted)
        // If the cancelled receive has not completed yet, its completion arms the next receive.
        armReceiveIfWanted(connection, slot)
    }

    /// Queues a shutdown of the sending half. A send in flight ends the process, so `endSending` follows `.sent`.
    public mutating func endSending(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection),
            slot.pointee.state.isDisjoint(with: .shuttingDown)
        else { return }
        precondition(
            slot.pointee.state.isDisjoint(with: .sending),
            "a send of this connection is in flight; end sending after `.sent`")
        shutDown(connection, slot, .endSending, Int32(SHUT_WR))
    }

    /// Cancels the operations of the connection and closes the descriptor after the last completion. On kernels
    /// before 6.13 a shutdown comes first, so that the peer sees the end at once.
    public mutating func close(_ connection: ConnectionID) {
        guard let slot = liveSlot(connection) else { return }
        slot.pointee.state.insert(.closing)
        slot.pointee.state.remove(.receiveWanted)
        // If the shutdown of the sending half is in flight, `completedShutdown` starts the full shutdown.
        if isShutdownNeeded, slot.pointee.state.isDisjoint(with: .shuttingDown) {
            shutDown(connection, slot, .shutdown, Int32(SHUT_RDWR))
        }
        if slot.pointee.state.contains(.receiving) { cancel(.receive, of: connection) }
        if slot.pointee.state.contains(.sending) { cancel(.send, of: connection) }
        closeIfQuiet(connection, slot)
    }

    // MARK: Steps shared with completions

    mutating func shutDown(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<ConnectionSlot>,
        _ operation: Operation, _ halves: Int32
    ) {
        slot.pointee.state.insert(.shuttingDown)
        let entry = ring.nextSubmission()
        io_uring_prep_shutdown(entry, Int32(bitPattern: connection.index), halves)
        entry.pointee.flags = Kernel.fixedFile
        entry.pointee.user_data = operation.userData(connection)
    }

    /// Arms a multishot receive unless a receive is in flight, the loop wants none, or the stream has ended.
    mutating func armReceiveIfWanted(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<ConnectionSlot>
    ) {
        guard slot.pointee.state.contains(.receiveWanted),
            slot.pointee.state.isDisjoint(with: [.receiving, .receiveEnded])
        else { return }
        slot.pointee.state.insert(.receiving)
        let entry = ring.nextSubmission()
        io_uring_prep_recv_multishot(entry, Int32(bitPattern: connection.index), nil, 0, 0)
        entry.pointee.flags = Kernel.fixedFile | Kernel.bufferSelect
        entry.pointee.buf_group = Kernel.receiveBufferGroup
        entry.pointee.user_data = Operation.receive.userData(connection)
    }

    /// Closes the descriptor of a closing connection when no other operation of the connection is in flight.
    mutating func closeIfQuiet(
        _ connection: ConnectionID, _ slot: UnsafeMutablePointer<ConnectionSlot>
    ) {
        guard slot.pointee.state.contains(.closing),
            slot.pointee.state.isDisjoint(with: .inFlight)
        else { return }
        slot.pointee.state.insert(.closeQueued)
        let entry = ring.nextSubmission()
        io_uring_prep_close_direct(entry, connection.index)
        entry.pointee.user_data = Operation.close.userData(connection)
    }

    mutating func cancel(_ operation: Operation, of connection: ConnectionID) {
        let entry = ring.nextSubmission()
        io_uring_prep_cancel64(entry, operation.userData(connection), 0)
        entry.pointee.flags = Kernel.skipSuccess
        entry.pointee.user_data = Operation.cancel.userData(connection)
    }
}
