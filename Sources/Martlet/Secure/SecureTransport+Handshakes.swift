// SPDX-License-Identifier: Apache-2.0
//
// Handshakes: the first record of a peer, and the steps of OpenSSL until the session begins. `HandshakePlaces` says
// which connections are read; the others wait in the kernel. Rests on SecureTransport.

import Glibc
import MartletBase
import MartletCrypto
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

extension SecureTransport where Kernel: ~Copyable {
    /// A new connection of a TLS port is read now, or left unread until its turn comes.
    mutating func accepted(_ id: ConnectionID, from address: PeerAddress) {
        let isRead = handshakes.arrive(id, from: address, at: monotonic())
        (links + Int(id.index)).initialize(
            to: SecureLink(
                phase: isRead ? .shaking : .unread, generation: id.generation,
                opening: SecureOpening(from: address)))
        // Nothing is received before the next call of the kernel's `nextEvent`.
        if !isRead { kernel.pauseReceive(id) }
    }

    /// Reads waiting connections as far as there is room. A peer that has given up meanwhile costs one receive, which
    /// tells its end.
    mutating func readWaiting() {
        let now = monotonic()
        repeat {
            while let id = handshakes.next(at: now) {
                guard let link = link(id) else { continue }
                link.pointee.phase = .shaking
                if !link.pointee.isPaused { kernel.resumeReceive(id) }
            }
            // Each place that a silent peer gives up is taken before another peer is judged.
        } while setAside(at: now) || endSilent(at: now)
    }

    /// Reads no more of a peer that has said nothing, while others wait.
    private mutating func setAside(at now: Int64) -> Bool {
        guard let id = handshakes.yield(at: now), let link = link(id) else { return false }
        link.pointee.phase = .unread
        link.pointee.opening?.wasRead = true
        kernel.pauseReceive(id)
        return true
    }

    /// What came before the reading of a peer ended.
    mutating func receivedLate(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ bytes: UnsafeRawBufferPointer
    ) -> TransportEvent? {
        guard let address = link.pointee.opening?.address else { return nil }
        handshakes.resume(id, from: address, at: monotonic())
        link.pointee.phase = .shaking
        if !link.pointee.isPaused { kernel.resumeReceive(id) }
        return feed(id, link, bytes)
    }

    /// Ends the handshake of a silent peer while others wait for its place.
    private mutating func endSilent(at now: Int64) -> Bool {
        guard let id = handshakes.silent(at: now), let link = link(id),
            let address = link.pointee.opening?.address
        else { return false }
        // `logStrangers` tells of them together: a line for each would hide other failures in a flood.
        counters.failures.add(1, ordering: .relaxed)
        counters.crowdedOut.add(1, ordering: .relaxed)
        counters.crowdedFrom.withLock { $0 = address }
        told.append(end(id, link, errno: ETIMEDOUT))
        return true
    }

    /// Gives bytes to the handshake, or keeps them until the first record is whole.
    /// - Returns: an event without bytes if other bytes are kept than the loop was told of.
    mutating func feed(
        _ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>,
        _ bytes: UnsafeRawBufferPointer
    ) -> TransportEvent? {
        guard let server, let opening = link.pointee.opening else { return nil }
        if let handshake = opening.handshake {
            give(bytes, to: handshake, id, link)
            return nil
        }
        if opening.firstRecord.isEmpty, SecureOpening.isRecord(bytes) {
            give(bytes, to: begin(opening, server), id, link)
            return nil
        }
        opening.firstRecord.append(contentsOf: bytes)
        if opening.firstRecord.withUnsafeBytes({ SecureOpening.isRecord($0) }) {
            let handshake = begin(opening, server)
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
        handshakes.hear(id)
        if handshake.waitingBytes > SecureBounds.handshakeBytesMax, !link.pointee.isFull {
            link.pointee.isFull = true
            kernel.pauseReceive(id)
        }
        guard let opening = link.pointee.opening, !opening.isStepQueued else { return }
        opening.isStepQueued = true
        steps.append(id, of: opening.address)
    }

    private func begin(_ opening: SecureOpening, _ server: TLSServer) -> TLSHandshake {
        let handshake = TLSHandshake(server.current)
        opening.handshake = handshake
        return handshake
    }

    mutating func endOpening(_ id: ConnectionID, _ link: UnsafeMutablePointer<SecureLink>) {
        guard link.pointee.opening != nil else { return }
        handshakes.leave(id)
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
        case .waits:
            handshakes.waitForPeer(id, hasAnswered: !output.isEmpty, at: monotonic())
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
    mutating func endIfOver(
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
