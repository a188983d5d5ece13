// SPDX-License-Identifier: Apache-2.0
//
// Counts the gateway's open connections by address (GW-15). One address cannot take all connections, and silent connections of
// several addresses do not either.
//
// An address with all the connections that it may have loses one of a stranger to the newcomer: the oldest that has sent no
// request in two seconds, such as a silent one or half a handshake, else the oldest that waits for no answer, else the oldest
// of the last two seconds. So who shares an address with silent connections is served. If each connection waits for an
// answer, the newcomer is closed.
//
// When seven eighths of all connections are in use, connections of strangers end that are older than two seconds: the
// address with most connections loses its oldest stranger, and so on until a 64th of all connections is free. Of the last
// sixteenth, newcomers may take a half; past that, strangers of any age end. A connection counts as a stranger's until
// one of its requests had a right credential. A search sorts the connections, some 3 ms for 8192 of them, and frees
// enough for many arrivals; a search that found less is not repeated at once. A proxy has no bound, because it stands
// for many clients. Rests on GatewayPeer.

import Logging
import Martlet
import Synchronization

/// Counts the connections of each address, and makes room for others.
final class ConnectionTable: Sendable {
    private struct State {
        var lastNumber: UInt64 = 0
        var peers: [UInt64: GatewayPeer] = [:]
        /// The numbers of an address' connections in the order of arrival.
        var numbers: [PeerAddress: [UInt64]] = [:]
        /// Before this time a search begins only if the reserve is touched.
        var nextSearch: ContinuousClock.Instant?

        mutating func remove(_ number: UInt64) -> GatewayPeer? {
            guard let peer = peers.removeValue(forKey: number) else { return nil }
            var left = numbers.removeValue(forKey: peer.address.network) ?? []
            left.remove(at: left.partitioningIndex { $0 >= number })
            if !left.isEmpty { numbers[peer.address.network] = left }
            return peer
        }

        /// The connection of an address that makes room for a newcomer; nil: each of them waits for an answer, or had a
        /// right credential.
        func leastOfUse(of address: PeerAddress) -> UInt64? {
            let late = ContinuousClock.now - ConnectionTable.silentMax
            var (idle, young): (UInt64?, UInt64?)
            for number in numbers[address] ?? [] {
                guard let peer = peers[number], !peer.isTrusted, !peer.isBusy else { continue }
                if peer.hasRequest || peer.isWebSocket {
                    idle = idle ?? number
                } else if peer.arrived < late {
                    return number
                } else {
                    young = young ?? number
                }
            }
            return idle ?? young
        }
    }

    /// Shortest time between two lines in the log.
    private static let silence = Duration.seconds(60)

    /// Time after a search that found too few strangers.
    private static let rest = Duration.milliseconds(100)
    /// Time in which an honest client presents its credential. Longer than its handshake and its first request.
    private static let silentMax = Duration.seconds(2)

    /// Connections at which strangers begin to make room.
    private let fullCount: Int
    /// Connections that are kept free for newcomers.
    private let reservedCount: Int
    private let most: Int
    /// Connections that make room at a time.
    private let roomCount: Int
    private let perAddressMax: Int
    private let line: PacedLine
    private let state = Mutex(State())

    init(most: Int, perAddress: Int, _ logger: Logger) {
        fullCount = max(1, most - max(1, most / 8))
        roomCount = max(1, most / 64)
        reservedCount = max(1, most / 16)
        self.most = most
        perAddressMax = perAddress
        line = PacedLine(every: Self.silence) { count in
            logger.warning(
                "HTTP connections without a right credential were closed, because others need their places",
                metadata: ["count": "\(count)"])
        }
    }

    /// Counts a connection, and ends strangers if many connections are in use.
    /// - Returns: the number for `leave`; nil if the address has too many connections.
    func enter(_ peer: GatewayPeer) -> UInt64? {
        let (number, ended) = state.withLock { state -> (UInt64?, [GatewayPeer]) in
            let address = peer.address.network
            var ended: [GatewayPeer] = []
            if !peer.isProxy, state.numbers[address]?.count ?? 0 >= perAddressMax {
                guard let least = state.leastOfUse(of: address), let other = state.remove(least)
                else { return (nil, []) }
                ended.append(other)
            }
            if state.peers.count >= fullCount { ended += makeRoom(&state) }
            state.lastNumber += 1
            state.peers[state.lastNumber] = peer
            state.numbers[address, default: []].append(state.lastNumber)
            return (state.lastNumber, ended)
        }
        for stranger in ended { stranger.end() }
        peer.turnAway(ended.count + (number == nil ? 1 : 0))
        line.add(ended.count)
        return number
    }

    /// Notes the end of a counted connection.
    func leave(_ number: UInt64) {
        state.withLock { state in _ = state.remove(number) }
    }

    /// Waits until all WebSockets have ended, for some seconds at most: the server waits for tasks of connections alone,
    /// and WebSockets have none.
    func waitForWebSockets() async {
        for _ in 0..<Self.looks {
            let isOpen = state.withLock { $0.peers.values.contains(where: \.isWebSocket) }
            guard isOpen else { return }
            try? await Task.sleep(for: Self.look)
        }
    }

    private static let look = Duration.milliseconds(20)
    private static let looks = 250

    /// Removes the strangers that make room. The place of a stranger is the number of connections that its address
    /// would have if the address lost its older strangers before.
    private func makeRoom(_ state: inout State) -> [GatewayPeer] {
        let now = ContinuousClock.now
        let isReserve = state.peers.count >= most - reservedCount
        if let next = state.nextSearch, next > now, !isReserve { return [] }
        var left = state.numbers.mapValues(\.count)
        var strangers: [(place: Int, number: UInt64)] = []
        var silent: Set<UInt64> = []
        for number in state.peers.keys.sorted() {
            guard let peer = state.peers[number], !peer.isTrusted, !peer.isProxy else { continue }
            let place = left[peer.address.network, default: 0]
            left[peer.address.network] = place - 1
            strangers.append((place, number))
            if peer.arrived < now - Self.silentMax { silent.insert(number) }
        }
        // The last place must come free again, because no connection is accepted without a place.
        let mustEnd =
            isReserve
            && (strangers.count > reservedCount / 2 || state.peers.count >= most - 1)
        if !mustEnd { strangers.removeAll { !silent.contains($0.number) } }
        state.nextSearch = strangers.count < roomCount ? now + Self.rest : nil
        strangers.sort { ($1.place, $0.number) < ($0.place, $1.number) }
        return strangers.prefix(roomCount).compactMap { state.remove($0.number) }
    }
}

extension [UInt64] {
    /// The first index whose element is of the second half: the elements are sorted by `isSecond`.
    fileprivate func partitioningIndex(_ isSecond: (UInt64) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if isSecond(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
