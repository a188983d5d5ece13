// SPDX-License-Identifier: Apache-2.0
//
// Sends of TLS connections. The order of sealing is the order of sending: a stage behind the send with the kernel
// waits until the kernel has taken that send. Rests on SecureTransport.

import Glibc
import MartletTLS
import MartletTransport

extension SecureTransport where Kernel: ~Copyable {
    mutating func send(_ connection: ConnectionID, _ bytes: UnsafeRawBufferPointer) {
        guard let link = link(connection) else { return kernel.send(connection, bytes) }
        var piece = iovec(
            iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
        withUnsafePointer(to: &piece) {
            seal(connection, link, UnsafeBufferPointer(start: $0, count: 1))
        }
    }

    mutating func send(_ connection: ConnectionID, vectors: UnsafeBufferPointer<iovec>) {
        guard let link = link(connection) else {
            return kernel.send(connection, vectors: vectors)
        }
        seal(connection, link, vectors)
    }

    /// Seals the first bytes of a send of the loop, and sends them.
    private mutating func seal(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ pieces: UnsafeBufferPointer<iovec>
    ) {
        guard link.pointee.hasSession, link.pointee.phase != .closing,
            !sessions[id.index].pointee.hasClosed
        else {
            // Before the end of the handshake nothing can be sent, and after an alert nothing may.
            if link.pointee.phase != .closing {
                told.append(.sent(id, byteCount: 0, errno: ENOTCONN))
            }
            return
        }
        let session = sessions[id.index]
        let bound =
            stages.usedBytes < SecureBounds.stagedBytesMax
            ? SecureBounds.sendBytesMax : SecureBounds.sendBytesWhenFull
        var plainBytes = 0
        for piece in pieces where plainBytes < bound { plainBytes += piece.iov_len }
        plainBytes = min(plainBytes, bound)
        let block = stages.take(records.sealedBytesMax(plainBytes, session))
        let count = records.seal(session, pieces, plainBytes: plainBytes, into: block)
        send(Stage(block: block, count: count, plainBytes: plainBytes), id, link)
    }

    /// Sends bytes as they are: a flight of the handshake.
    mutating func sendRaw(
        _ bytes: [UInt8], _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>
    ) {
        guard !bytes.isEmpty else { return }
        let block = stages.take(bytes.count)
        block.copyBytes(from: bytes)
        send(Stage(block: block, count: bytes.count), id, link)
    }

    /// RFC 8446 §4.6.3: sends the KEY UPDATE that the peer waits for.
    mutating func sendKeyUpdate(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        guard !sessions[id.index].pointee.hasClosed else { return }
        let block = stages.take(TLSRecordLayer.keyUpdateBytes)
        let count = records.changeKeyIfDue(sessions[id.index], into: block)
        send(Stage(block: block, count: count), id, link)
    }

    /// Sends the alert with which the connection ends.
    mutating func sealAlert(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        let block = stages.take(TLSRecordLayer.alertBytes)
        let count = records.sealAlert(link.pointee.alert, sessions[id.index], into: block)
        send(Stage(block: block, count: count), id, link)
    }

    private mutating func send(
        _ stage: Stage, _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>
    ) {
        guard stage.count > 0 else { return stages.giveBack(stage.block) }
        guard link.pointee.inFlight != nil else {
            link.pointee.inFlight = stage
            kernel.send(id, stage.rest)
            return
        }
        guard let before = link.pointee.next else {
            link.pointee.next = stage
            return
        }
        // Records of TLS alone are short, so joining them to what waits costs little.
        let count = before.count + stage.count
        let block = stages.take(count)
        block.copyMemory(from: before.rest)
        UnsafeMutableRawBufferPointer(rebasing: block[before.count...]).copyMemory(from: stage.rest)
        link.pointee.next = Stage(
            block: block, count: count, plainBytes: before.plainBytes + stage.plainBytes)
        stages.giveBack(before.block)
        stages.giveBack(stage.block)
    }

    /// Handles the end of a send of the kernel.
    mutating func sent(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ byteCount: Int,
        _ errno: Int32
    ) -> TransportEvent? {
        guard var stage = link.pointee.inFlight else { return nil }
        stage.sentBytes += byteCount
        guard errno == 0 else {
            stages.giveBack(stage.block)
            link.pointee.inFlight = nil
            var plainBytes = stage.plainBytes
            if let next = link.pointee.next {
                plainBytes += next.plainBytes
                stages.giveBack(next.block)
                link.pointee.next = nil
            }
            guard plainBytes > 0 else { return nil }
            return .sent(id, byteCount: taken(of: stage, id), errno: errno)
        }
        guard stage.sentBytes == stage.count else {
            link.pointee.inFlight = stage
            kernel.send(id, stage.rest)
            return nil
        }
        stages.giveBack(stage.block)
        link.pointee.inFlight = link.pointee.next
        link.pointee.next = nil
        if let next = link.pointee.inFlight {
            kernel.send(id, next.rest)
        } else if link.pointee.endsSending {
            kernel.endSending(id)
        }
        return stage.plainBytes > 0 ? .sent(id, byteCount: stage.plainBytes, errno: 0) : nil
    }

    /// Plain bytes of a failed send that the peer can have: those of whole records.
    private func taken(of stage: Stage, _ id: ConnectionID) -> Int {
        let perRecord = TLSLimits.recordPlainBytesMax
        let records = stage.sentBytes / (perRecord + TLSLimits.recordOverheadBytes)
        return min(stage.plainBytes, records * perRecord)
    }
}
