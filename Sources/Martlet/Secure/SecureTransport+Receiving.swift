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
        case .shaking:
            feed(id, link, bytes)
            return nil
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
        case .shaking where link.pointee.isStepQueued && errno == 0:
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
        endHandshake(link)
        kernel.pauseReceive(id)
        return .receiveEnded(id, errno: errno)
    }

    // MARK: Handshakes

    private mutating func feed(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ bytes: UnsafeRawBufferPointer
    ) {
        guard let server else { return }
        if link.pointee.handshake == nil {
            // A connection without bytes costs no handshake.
            link.pointee.handshake = TLSHandshake(server.current)
            // Ended handshakes stay in the list until the list is long.
            if shaking.count >= 4 * SecureBounds.handshakesMax {
                let ended = shaking
                shaking = ended.filter { isShaking($0) }
            }
            shaking.append(id)
            shakingCount += 1
            if shakingCount > SecureBounds.handshakesMax { endOldest() }
        }
        guard let handshake = link.pointee.handshake else { return }
        handshake.receive(bytes)
        if handshake.waitingBytes > SecureBounds.handshakeBytesMax, !link.pointee.isFull {
            link.pointee.isFull = true
            kernel.pauseReceive(id)
        }
        guard !link.pointee.isStepQueued else { return }
        link.pointee.isStepQueued = true
        steps.append(id)
    }

    /// Ends the oldest handshake in progress.
    private mutating func endOldest() {
        guard let index = shaking.firstIndex(where: { isShaking($0) }) else { return }
        let id = shaking[index]
        shaking.removeFirst(index + 1)
        guard let link = link(id) else { return }
        fail(id, "too many handshakes are in progress, and this is the oldest")
        told.append(end(id, link, errno: ETIMEDOUT))
    }

    private func isShaking(_ id: ConnectionID) -> Bool {
        link(id)?.pointee.handshake != nil
    }

    mutating func endHandshake(_ link: UnsafeMutablePointer<SecureLink>) {
        guard link.pointee.handshake != nil else { return }
        link.pointee.handshake = nil
        shakingCount -= 1
    }

    /// Takes the next step of a handshake, unless the turn has had its steps.
    /// - Returns: an event of the step; nil also after a step without an event if a chunk or an event waits.
    mutating func takeStep() -> TransportEvent? {
        while stepsLeft > 0, stepsTaken < steps.count {
            let id = steps[stepsTaken]
            stepsTaken += 1
            if stepsTaken == steps.count {
                steps.removeAll(keepingCapacity: true)
                stepsTaken = 0
            }
            guard let link = link(id), link.pointee.phase == .shaking,
                let handshake = link.pointee.handshake
            else { continue }
            link.pointee.isStepQueued = false
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
        endHandshake(link)
        guard !rest.isEmpty else { return }
        let owned = UnsafeMutableRawBufferPointer.allocate(byteCount: rest.count, alignment: 16)
        owned.copyBytes(from: rest)
        chunkOwned = owned
        chunk = (id, owned)
    }
}
