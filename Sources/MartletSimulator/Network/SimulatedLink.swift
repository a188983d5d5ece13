// SPDX-License-Identifier: Apache-2.0
//
// A connection: bytes in both directions, in order, with delays that differ from connection to connection; a socket
// buffer that fills up while the peer does not read; and every way in which a connection ends. The bytes of a send
// are read when the send ends, because the kernel may read them until then. Code that overwrites the bytes early is
// found out. Rests on Agenda.

import Glibc
import MartletBase
import MartletTransport

/// A connection between a client and a loop.
final class SimulatedLink {
    let number: Int
    private let network: SimulatedNetwork
    private let port: SimulatedPort
    private weak var client: SimulatedClient?
    /// The loop's ID for the connection, valid after the connection is accepted.
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
    /// Bytes in the socket: sent, and not yet read by the client.
    private var socketBytes = 0
    /// The connection was reset; bytes on their way are lost.
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

    /// Plans an action at the loop's machine, after a delay and behind all earlier actions.
    private func toLoop(_ action: @escaping (SimulatedLink) -> Void) {
        loopHears = max(loopHears, network.agenda.now + network.delay())
        network.agenda.at(loopHears) { action(self) }
    }

    private func toClient(_ action: @escaping (SimulatedLink) -> Void) {
        clientHears = max(clientHears, network.agenda.now + network.delay())
        network.agenda.at(clientHears) { action(self) }
    }

    // MARK: Actions of the client

    func write(_ bytes: [UInt8]) {
        guard isClientOpen else { return }
        toLoop { $0.arrived(bytes) }
    }

    /// Stops reading, or goes on.
    func setReading(_ reads: Bool) {
        guard isClientOpen, reads != isReading else { return }
        isReading = reads
        if reads { network.agenda.after(1) { self.readUnread() } }
    }

    enum Ending {
        /// The client has sent all its bytes, and ignores further bytes.
        case finished
        /// Both sides hear of the end, and bytes on their way are lost.
        case reset
        /// The client's machine vanishes, and the loop hears of no end.
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

    /// Resets the connection, because the client's machine is back and does not know the connection.
    func returnFromVanishing() {
        guard hasVanished else { return }
        hasVanished = false
        isReset = true
        toLoop { $0.streamEnded(ECONNRESET) }
        isPeerGone = true
        progress()
    }

    // MARK: Actions of the loop

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

    /// Ends the connection after a kill of the broker's process.
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

    /// Continues the send as far as the socket has room.
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
        // The client finds the end only behind its unread bytes.
        guard isReading, unread.isEmpty else { return }
        isClientOpen = false
        client?.ended(self)
    }
}
