// SPDX-License-Identifier: Apache-2.0
//
// Received bytes of TLS connections: the handshake's (SecureTransport+Handshakes), then records. Rests on
// SecureTransport.

import Glibc
import MartletBase
import MartletCrypto
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

extension SecureTransport where Kernel: ~Copyable {
    mutating func received(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ bytes: UnsafeRawBufferPointer
    ) -> TransportEvent? {
        switch link.pointee.phase {
        case .shaking: return feed(id, link, bytes)
        case .open:
            chunk = (id, UnsafeMutableRawBufferPointer(mutating: bytes))
            return openChunk()
        case .unread: return receivedLate(id, link, bytes)
        case .plain, .ended, .closing: return nil
        }
    }

    mutating func receiveEnded(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ errno: Int32
    ) -> TransportEvent? {
        switch link.pointee.phase {
        case .shaking where errno == 0 && link.pointee.opening?.mayFinish ?? false:
            link.pointee.endsAfterStep = true
            return nil
        case .unread, .shaking, .open:
            // RFC 8446 §6.1: without close_notify the stream was cut off, by whomever.
            if errno == 0, link.pointee.phase == .open {
                counters.truncations.add(1, ordering: .relaxed)
            }
            return end(id, link, errno: errno == 0 ? ECONNABORTED : errno)
        case .plain, .ended, .closing: return nil
        }
    }

    /// Opens the next record with data of the current chunk.
    mutating func openChunk() -> TransportEvent? {
        guard let (id, bytes) = chunk else { return nil }
        guard let link = link(id), link.pointee.phase == .open else {
            dropChunk()
            return nil
        }
        let session = sessions[id.index]
        var rest = bytes
        do throws(TLSAlert) {
            switch try records.next(session, from: &rest) {
            case .data(let data):
                chunk = (id, rest)
                link.pointee.toldKeptBytes = 0
                return .received(id, data)
            case .nothing:
                dropChunk()
                if session.pointee.owesKeyUpdate { sendKeyUpdate(id, link) }
                if let event = endIfOver(id, link) { return event }
                let kept = UInt32(session.pointee.keptBytes)
                guard kept != link.pointee.toldKeptBytes else { return nil }
                // The loop counts the bytes of an unfinished record.
                link.pointee.toldKeptBytes = kept
                return .received(id, UnsafeRawBufferPointer(start: nil, count: 0))
            case .closed:
                dropChunk()
                return end(id, link, errno: 0)
            case .failed:
                dropChunk()
                return end(id, link, errno: ECONNRESET)
            }
        } catch {
            dropChunk()
            link.pointee.alert = error
            fail(id, "a record is wrong (\(error))")
            return end(id, link, errno: EBADMSG)
        }
    }

    /// Counts a failure, and keeps the reason for the loop.
    mutating func fail(_ id: ConnectionID, _ reason: String) {
        counters.failures.add(1, ordering: .relaxed)
        failures[id.index] = reason
    }

    private mutating func dropChunk() {
        chunk = nil
        chunkOwned?.deallocate()
        chunkOwned = nil
    }

    /// Tells the loop that receiving has ended. Bytes that still come are not read.
    mutating func end(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, errno: Int32
    ) -> TransportEvent {
        link.pointee.phase = .ended
        endOpening(id, link)
        kernel.pauseReceive(id)
        return .receiveEnded(id, errno: errno)
    }
}
