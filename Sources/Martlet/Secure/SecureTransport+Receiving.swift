// SPDX-License-Identifier: Apache-2.0
//
// Received bytes of TLS connections: first the handshake's, then records. Rests on SecureTransport.

import Glibc
import MartletBase
import MartletTLS
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
        case .plain, .ended, .closing: return nil
        }
    }

    mutating func receiveEnded(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ errno: Int32
    ) -> TransportEvent? {
        switch link.pointee.phase {
        case .shaking where errno == 0 && link.pointee.opening?.isStepQueued ?? false:
            link.pointee.endsAfterStep = true
            return nil
        case .shaking, .open:
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
    private mutating func fail(_ id: ConnectionID, _ reason: String) {
        counters.failures.add(1, ordering: .relaxed)
        failures[id.index] = reason
    }

    private mutating func dropChunk() {
        chunk = nil
        chunkOwned?.deallocate()
        chunkOwned = nil
    }

    /// Tells the loop that receiving has ended. Bytes that still come are not read.
    private mutating func end(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, errno: Int32
    ) -> TransportEvent {
        link.pointee.phase = .ended
        endOpening(id, link)
        kernel.pauseReceive(id)
        return .receiveEnded(id, errno: errno)
    }

    // MARK: Handshakes

    /// Gives bytes to the handshake, or keeps them until the first record is whole.
    /// - Returns: an event without bytes if other bytes are kept than the loop was told of.
    private mutating func feed(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ bytes: UnsafeRawBufferPointer
    ) -> TransportEvent? {
        guard let server, let opening = link.pointee.opening else { return nil }
        if let handshake = opening.handshake {
            give(bytes, to: handshake, id, link)
            return nil
        }
        if opening.firstRecord.isEmpty, SecureOpening.isRecord(bytes) {
            give(bytes, to: begin(id, opening, server), id, link)
            return nil
        }
        opening.firstRecord.append(contentsOf: bytes)
        if opening.firstRecord.withUnsafeBytes({ SecureOpening.isRecord($0) }) {
            let handshake = begin(id, opening, server)
            opening.firstRecord.withUnsafeBytes { give($0, to: handshake, id, link) }
            opening.firstRecord = []
        }
        let kept = UInt32(opening.firstRecord.count)
        guard kept != link.pointee.toldKeptBytes else { return nil }
        link.pointee.toldKeptBytes = kept
        return .received(id, UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private mutating func give(
        _ bytes: UnsafeRawBufferPointer, to handshake: TLSHandshake, _ id: ConnectionID,
        _ link: UnsafeMutablePointer<SecureLink>
    ) {
        handshake.receive(bytes)
        if handshake.waitingBytes > SecureBounds.handshakeBytesMax, !link.pointee.isFull {
            link.pointee.isFull = true
            kernel.pauseReceive(id)
        }
        guard let opening = link.pointee.opening, !opening.isStepQueued else { return }
        opening.isStepQueued = true
        steps.append(id, of: opening.address)
    }

    /// Begins a handshake. Past the bound, the oldest handshake of the address with most handshakes ends.
    private mutating func begin(
        _ id: ConnectionID, _ opening: SecureOpening, _ server: TLSServer
    ) -> TLSHandshake {
        let handshake = TLSHandshake(server.current)
        opening.handshake = handshake
        shaking.insert(id, from: opening.address)
        if shaking.count > SecureBounds.handshakesMax, let first = shaking.first,
            let address = shaking.largest, let ended = link(first)
        {
            // `logStrangers` tells of them together: a line for each would hide other failures in a flood.
            counters.failures.add(1, ordering: .relaxed)
            counters.crowdedOut.add(1, ordering: .relaxed)
            counters.crowdedFrom.withLock { $0 = address }
            told.append(end(first, ended, errno: ETIMEDOUT))
        }
        return handshake
    }

    mutating func endOpening(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        guard let opening = link.pointee.opening else { return }
        if opening.handshake != nil { shaking.remove(id) }
        link.pointee.opening = nil
    }

    /// Takes the next step of a handshake, unless the turn has had its steps.
    /// - Returns: an event of the step; nil also after a step without an event if a chunk or an event waits.
    mutating func takeStep() -> TransportEvent? {
        while stepsLeft > 0, let id = steps.next() {
            guard let link = link(id), link.pointee.phase == .shaking,
                let opening = link.pointee.opening, let handshake = opening.handshake
            else { continue }
            opening.isStepQueued = false
            stepsLeft -= 1
            if let event = step(id, link, handshake) { return event }
            if chunk != nil { return nil }
        }
        return nil
    }

    private mutating func step(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ handshake: TLSHandshake
    ) -> TransportEvent? {
        let outcome = handshake.step()
        let output = handshake.takeOutput()
        sendRaw(output, id, link)
        switch outcome {
        case .waits: break
        case .failed(let error):
            fail(id, error.reason)
            // Bytes that are no TLS at all, such as HELLO in plain text, get no alert.
            if !handshake.hasAnswered { sendRaw(Self.plainAnswer, id, link) }
            return end(id, link, errno: EPROTO)
        case .done:
            guard let secrets = handshake.secrets(lastOutput: output) else {
                fail(id, "the handshake has no keys")
                return end(id, link, errno: EPROTO)
            }
            begin(id, link, handshake, secrets)
        }
        if link.pointee.isFull {
            link.pointee.isFull = false
            if !link.pointee.isPaused { kernel.resumeReceive(id) }
        }
        // The records of the last chunk come before the end.
        return chunk == nil ? endIfOver(id, link) : nil
    }

    /// The answer to a client that speaks the protocol in plain text. The error is not final, because a network or a
    /// proxy may be at fault.
    private static var plainAnswer: [UInt8] {
        var writer = WireWriter()
        let error = MartletError(
            .protocolViolation, "This port speaks TLS; connect over TLS (--tls or --ca).")
        BrokerFrame.error(ErrorFrame(correlation: 0, error: error)).encode(into: &writer)
        return writer.bytes
    }

    /// The end of receiving, if the end came while the handshake waited for its turn.
    private mutating func endIfOver(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>
    ) -> TransportEvent? {
        guard link.pointee.endsAfterStep else { return nil }
        link.pointee.endsAfterStep = false
        return receiveEnded(id, link, 0)
    }

    private mutating func begin(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>, _ handshake: TLSHandshake,
        _ secrets: borrowing TLSSecrets
    ) {
        records.begin(sessions[id.index], secrets)
        link.pointee.hasSession = true
        link.pointee.phase = .open
        if let subject = handshake.clientName, let expires = handshake.clientCertificateEnd {
            certificates[id.index] = VerifiedCertificate(subject: subject, expires: expires)
        }
        counters.handshakes.add(1, ordering: .relaxed)
        if handshake.isResumed { counters.resumptions.add(1, ordering: .relaxed) }
        let rest = handshake.takeRest()
        endOpening(id, link)
        guard !rest.isEmpty else { return }
        let owned = UnsafeMutableRawBufferPointer.allocate(byteCount: rest.count, alignment: 16)
        owned.copyBytes(from: rest)
        chunkOwned = owned
        chunk = (id, owned)
    }
}
