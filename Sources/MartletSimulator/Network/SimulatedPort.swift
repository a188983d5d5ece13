// SPDX-License-Identifier: Apache-2.0
//
// A loop's side of the network: the table of the loop's connections, and the completions for the loop's next turn.
// Received bytes are lent for one event and overwritten afterwards: code that keeps the bytes longer is found out.
// Rests on SimulatedLink.

import Glibc
import MartletBase
import MartletTransport

/// The port of a loop, where connections arrive.
final class SimulatedPort {
    enum Completion {
        case accepted(SimulatedLink)
        case received(SimulatedLink, [UInt8])
        case receiveEnded(SimulatedLink, Int32)
        case sent(SimulatedLink, Int, Int32)
        case closed(SimulatedLink)
    }

    let number: Int
    /// The machine of the port's process.
    let machine: Int
    let network: SimulatedNetwork
    var isAccepting = true
    private(set) var connectionCount = 0
    private var links: [SimulatedLink?]
    private var generations: [UInt32]
    private var free: [UInt32]
    private var completions: [Completion] = []
    private var next = 0
    private let lent: UnsafeMutableRawBufferPointer
    /// Bytes of one receive buffer.
    static let receiveBytes = 2048

    init(number: Int, machine: Int = 0, network: SimulatedNetwork, connectionsMax: Int) {
        self.number = number
        self.machine = machine
        self.network = network
        links = Array(repeating: nil, count: connectionsMax)
        generations = Array(repeating: 0, count: connectionsMax)
        free = (0..<UInt32(connectionsMax)).reversed()
        lent = .allocate(byteCount: Self.receiveBytes, alignment: 1)
    }

    deinit { lent.deallocate() }

    var hasCompletions: Bool { next < completions.count }

    /// The connection with this ID; nil for a closing connection, because operations are then ignored.
    func link(_ connection: ConnectionID) -> SimulatedLink? {
        guard let link = links[Int(connection.index)], link.id == connection, !link.isClosing
        else { return nil }
        return link
    }

    func accept(_ link: SimulatedLink) -> Bool {
        guard isAccepting, let index = free.popLast() else { return false }
        link.id = ConnectionID(index: index, generation: generations[Int(index)])
        links[Int(index)] = link
        connectionCount += 1
        complete(.accepted(link))
        return true
    }

    func complete(_ completion: Completion) {
        completions.append(completion)
        network.wake(number, on: machine)
    }

    func wake(_ other: Int) { network.wake(other, on: machine) }

    func nextEvent() -> TransportEvent? {
        while next < completions.count {
            let completion = completions[next]
            next += 1
            if next == completions.count {
                completions.removeAll(keepingCapacity: true)
                next = 0
            }
            if let event = event(of: completion) { return event }
        }
        memset(lent.baseAddress!, 0xDB, lent.count)
        return nil
    }

    private func event(of completion: Completion) -> TransportEvent? {
        switch completion {
        case .accepted(let link): return .accepted(link.id)
        case .received(let link, let bytes):
            guard !link.isClosing else { return nil }
            lent.copyBytes(from: bytes)
            return .received(link.id, UnsafeRawBufferPointer(rebasing: lent[..<bytes.count]))
        case .receiveEnded(let link, let errno):
            return link.isClosing ? nil : .receiveEnded(link.id, errno: errno)
        case .sent(let link, let count, let errno):
            return .sent(link.id, byteCount: count, errno: errno)
        case .closed(let link):
            let index = Int(link.id.index)
            links[index] = nil
            generations[index] = (generations[index] + 1) & 0xFF_FFFF
            free.append(link.id.index)
            connectionCount -= 1
            return .closed(link.id)
        }
    }

    /// Brings the machines of vanished clients back.
    func returnVanished() { for link in links { link?.returnFromVanishing() } }

    /// Ends the port with its process: the kernel resets all connections.
    func die() {
        isAccepting = false
        completions = []
        next = 0
        for link in links { link?.processDied() }
        links = links.map { _ in nil }
    }
}
