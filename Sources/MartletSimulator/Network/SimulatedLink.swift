// SPDX-License-Identifier: Apache-2.0
//
// One connection: bytes in both directions, in order, with delays that differ from connection to
// connection; a socket's buffer that fills when the peer does not read; and every way in which a
// connection ends. Bytes of a send are read when the send ends, which is when the kernel may still read
// them: whoever overwrites them before is found out. Rests on Agenda.

import Glibc
import MartletRing

/// A connection between a client and a loop.
final class SimulatedLink {
    let number: Int
    private let network: SimulatedNetwork
    private let port: SimulatedPort
    private weak var client: SimulatedClient?
    /// The loop's name for it, once it has been accepted.
    var id = ConnectionID(index: .max, generation: 0)

    var clientNumber: Int? { client?.number }

    // The client's side.
    private(set) var isClientOpen = true
    private var isReading = true
    private var unread: [UInt8] = []
    private var clientHears: Int64 = 0
    private var isEnded = false

    // The loop's side.
    private(set) var isClosing = false
    private var isAccepted = false
    private var isStreamEnded = false
    private var isPeerGone = false
    var isReceiveWanted = true
    private var kernelBytes: [UInt8] = []
    private var endErrno: Int32?
    private var loopHears: Int64 = 0
    private var sending: [UnsafeRawBufferPointer]?
    /// Bytes that the socket holds: sent, and not read by the client.
    private var socketBytes = 0
    /// What was on its way when it was reset is lost.
    private var isReset = false
    private var hasVanished = false

    init(number: Int, network: SimulatedNetwork, port: SimulatedPort, client: SimulatedClient) {
        self.number = number
        self.network = network
        self.port = port
        self.client = client
        toLoop { link in
            guard link.port.accept(link) else {
                link.endForClient()
                return
            }
            link.isAccepted = true
        }
        toClient { link in if link.isClientOpen { link.client?.opened(link) } }
    }

    // MARK: Ways

    /// Something that reaches the loop's machine after all that went before.
    private func toLoop(_ action: @escaping (SimulatedLink) -> Void) {
        loopHears = max(loopHears, network.agenda.now + network.delay())
        network.agenda.at(loopHears) { action(self) }
    }

    private func toClient(_ action: @escaping (SimulatedLink) -> Void) {
        clientHears = max(clientHears, network.agenda.now + network.delay())
        network.agenda.at(clientHears) { action(self) }
    }

    // MARK: What the client does

    func write(_ bytes: [UInt8]) {
        guard isClientOpen else { return }
        toLoop { $0.arrived(bytes) }
    }

    /// Reads no more for a while, or goes on.
    func setReading(_ reads: Bool) {
        guard isClientOpen, reads != isReading else { return }
        isReading = reads
        if reads { network.agenda.after(1) { self.readUnread() } }
    }

    enum Ending {
        /// The client has said everything and looks at nothing that comes.
        case finished
        /// Both sides hear of it, what is on its way is lost.
        case reset
        /// The client's machine vanishes: the loop hears nothing.
        case vanished
    }

    func end(_ ending: Ending) {
        guard isClientOpen else { return }
        isClientOpen = false
        unread = []
        switch ending {
        case .finished:
            toLoop { $0.streamEnded(0) }
            isPeerGone = true
        case .reset:
            isReset = true
            toLoop { $0.streamEnded(ECONNRESET) }
            isPeerGone = true
        case .vanished:
            hasVanished = true
            return
        }
        progress()
    }

    /// The client's machine is back, knows nothing of the connection and says so.
    func returnFromVanishing() {
        guard hasVanished else { return }
        hasVanished = false
        isReset = true
        toLoop { $0.streamEnded(ECONNRESET) }
        isPeerGone = true
        progress()
    }

    // MARK: What the loop does

    func send(_ pieces: [UnsafeRawBufferPointer]) {
        precondition(sending == nil, "a send of this connection is in flight")
        sending = pieces
        network.sends(pieces, on: self)
        network.agenda.after(network.sendDelay()) { self.progress() }
    }

    func resumeReceive() {
        isReceiveWanted = true
        network.agenda.after(1) { self.receiveKept() }
    }

    func close() {
        isClosing = true
        if sending != nil {
            sending = nil
            port.complete(.sent(self, 0, ECANCELED))
        }
        port.complete(.closed(self))
        if network.chance(network.conditions.resetChance) { isReset = true }
        toClient { $0.endForClient() }
    }

    /// The broker's process was killed.
    func processDied() {
        isClosing = true
        sending = nil
        toClient { $0.endForClient() }
    }

    // MARK: At the loop's machine

    private func arrived(_ bytes: [UInt8]) {
        guard isAccepted, !isClosing, !isStreamEnded, !isReset else { return }
        kernelBytes += bytes
        receiveKept()
    }

    private func receiveKept() {
        guard isReceiveWanted, isAccepted, !isClosing else { return }
        while !kernelBytes.isEmpty {
            var count = min(kernelBytes.count, SimulatedPort.receiveBytes)
            if network.chance(network.conditions.splitChance) { count = network.number(1...count) }
            port.complete(.received(self, Array(kernelBytes.prefix(count))))
            kernelBytes.removeFirst(count)
        }
        if let errno = endErrno {
            endErrno = nil
            port.complete(.receiveEnded(self, errno))
        }
    }

    private func streamEnded(_ errno: Int32) {
        guard isAccepted, !isClosing, !isStreamEnded else { return }
        isStreamEnded = true
        if errno != 0 { kernelBytes = [] }
        endErrno = errno
        if errno != 0 { isReceiveWanted = true }
        receiveKept()
        progress()
    }

    /// A send goes on as far as the socket has room.
    private func progress() {
        guard let pieces = sending, !isClosing else { return }
        if isPeerGone, isStreamEnded {
            sending = nil
            port.complete(.sent(self, 0, EPIPE))
            return
        }
        let room = network.conditions.socketBytes - socketBytes
        guard room > 0 else { return }
        var bytes: [UInt8] = []
        for piece in pieces { bytes += piece }
        var count = min(bytes.count, room)
        if network.chance(network.conditions.shortSendChance) { count = network.number(1...count) }
        if count < bytes.count { bytes.removeLast(bytes.count - count) }
        sending = nil
        socketBytes += count
        network.trace.note("sent", number, count)
        bytes.withUnsafeBytes { network.trace.mix($0) }
        port.complete(.sent(self, count, 0))
        network.target(of: self).carry(bytes)
    }

    private func carry(_ bytes: [UInt8]) {
        toClient { link in
            guard link.isClientOpen, !link.isReset else { return }
            if link.isReading, link.unread.isEmpty {
                link.read(bytes)
            } else {
                link.unread += bytes
            }
        }
    }

    // MARK: At the client's

    private func read(_ bytes: [UInt8]) {
        socketBytes = max(0, socketBytes - bytes.count)
        if sending != nil { network.agenda.after(1) { self.progress() } }
        var rest = bytes[...]
        while !rest.isEmpty, isClientOpen {
            var count = rest.count
            if network.chance(network.conditions.splitChance) { count = network.number(1...count) }
            client?.received(Array(rest.prefix(count)), on: self)
            rest = rest.dropFirst(count)
        }
    }

    private func readUnread() {
        guard isClientOpen, isReading else { return }
        let bytes = unread
        unread = []
        if !bytes.isEmpty { read(bytes) }
        if isEnded { endForClient() }
    }

    private func endForClient() {
        guard isClientOpen else { return }
        isEnded = true
        // It finds the end behind what it has not read.
        guard isReading, unread.isEmpty else { return }
        isClientOpen = false
        client?.ended(self)
    }
}
