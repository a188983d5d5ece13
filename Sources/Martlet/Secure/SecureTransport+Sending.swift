// SPDX-License-Identifier: Apache-2.0
//
// Sends of TLS connections. The order of sealing is the order of sending: a stage behind the send with the kernel
// waits until the kernel has taken that send. Rests on SecureTransport.

import Glibc
import MartletCrypto
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
        let stage = stages.take(records.sealedBytesMax(plainBytes, session))
        let count = records.seal(session, pieces, plainBytes: plainBytes, into: stage.bytes)
        stage.pointee.plainBytes = UInt32(plainBytes)
        batchBytes += count
        send(stage, count, id, link)
    }

    /// Sends bytes as they are: a flight of the handshake.
    mutating func sendRaw(
        _ bytes: [UInt8], _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>
    ) {
        guard !bytes.isEmpty else { return }
        let stage = stages.take(bytes.count)
        stage.bytes.copyBytes(from: bytes)
        send(stage, bytes.count, id, link)
    }

    /// RFC 8446 §4.6.3: sends the KEY UPDATE that the peer waits for. Behind a send with the kernel the KEY UPDATE waits
    /// for the end of that send, and answers all requests until then: a peer that asks again and again without reading
    /// holds no memory for it.
    mutating func sendKeyUpdate(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        guard !sessions[id.index].pointee.hasClosed else { return }
        link.pointee.owesKeyUpdate = link.pointee.inFlight != nil
        guard !link.pointee.owesKeyUpdate else { return }
        let stage = stages.take(TLSRecordLayer.keyUpdateBytes)
        send(stage, records.changeKeyIfDue(sessions[id.index], into: stage.bytes), id, link)
    }

    /// Sends the alert with which the connection ends.
    mutating func sealAlert(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        let stage = stages.take(TLSRecordLayer.alertBytes)
        let count = records.sealAlert(
            link.pointee.alert, sessions[id.index], into: stage.bytes)
        send(stage, count, id, link)
    }

    /// Sends the first `count` bytes of a stage, behind the send in flight.
    private mutating func send(
        _ stage: UnsafeMutablePointer<Stage>, _ count: Int, _ id: ConnectionID,
        _ link: UnsafeMutablePointer<SecureLink>
    ) {
        guard count > 0 else { return stages.giveBack(stage) }
        stage.pointee.count = UInt32(count)
        guard link.pointee.inFlight != nil else {
            link.pointee.inFlight = stage
            kernel.send(id, stage.rest)
            return
        }
        guard let before = link.pointee.next else {
            link.pointee.next = stage
            return
        }
        // Only an alert follows a stage that waits, so the bytes are copied once.
        let beforeCount = Int(before.pointee.count)
        let joined = stages.take(beforeCount + count)
        joined.bytes.copyMemory(from: before.rest)
        UnsafeMutableRawBufferPointer(rebasing: joined.bytes[beforeCount...])
            .copyMemory(from: stage.rest)
        joined.pointee.count = UInt32(beforeCount + count)
        joined.pointee.plainBytes = before.pointee.plainBytes + stage.pointee.plainBytes
        link.pointee.next = joined
        stages.giveBack(before)
        stages.giveBack(stage)
    }

    /// Handles the end of a send of the kernel.
    mutating func sent(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ byteCount: Int,
        _ errno: Int32
    ) -> TransportEvent? {
        guard let stage = link.pointee.inFlight else { return nil }
        stage.pointee.sentBytes += UInt32(byteCount)
        let plainBytes = Int(stage.pointee.plainBytes)
        guard errno == 0 else {
            let taken = taken(of: stage)
            let isLoops = plainBytes > 0 || link.pointee.next?.pointee.plainBytes ?? 0 > 0
            stages.giveBack(stage)
            if let next = link.pointee.next { stages.giveBack(next) }
            link.pointee.inFlight = nil
            link.pointee.next = nil
            return isLoops ? .sent(id, byteCount: taken, errno: errno) : nil
        }
        guard stage.pointee.sentBytes == stage.pointee.count else {
            kernel.send(id, stage.rest)
            return nil
        }
        stages.giveBack(stage)
        link.pointee.inFlight = link.pointee.next
        link.pointee.next = nil
        if let next = link.pointee.inFlight {
            kernel.send(id, next.rest)
        } else if link.pointee.endsSending {
            kernel.endSending(id)
        } else if link.pointee.owesKeyUpdate, link.pointee.phase != .closing {
            // The session knows whether a send of the loop has brought the KEY UPDATE meanwhile.
            sendKeyUpdate(id, link)
        }
        return plainBytes > 0 ? .sent(id, byteCount: plainBytes, errno: 0) : nil
    }

    /// Plain bytes of a failed send that the peer can have: those of whole records.
    private func taken(of stage: UnsafeMutablePointer<Stage>) -> Int {
        let perRecord = TLSLimits.recordPlainBytesMax
        let records = Int(stage.pointee.sentBytes) / (perRecord + TLSLimits.recordOverheadBytes)
        return min(Int(stage.pointee.plainBytes), records * perRecord)
    }
}
