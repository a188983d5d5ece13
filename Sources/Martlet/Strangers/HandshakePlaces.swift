// SPDX-License-Identifier: Apache-2.0
//
// Which connections of a TLS port a loop reads while they have no session. A handshake that has begun is finished:
// newcomers past the bound wait, unread, and cost a descriptor and some bytes. So a crowd that comes back at once is
// served as fast as the loop can, one after another, and not one handshake is thrown away for the next.
//
//     arrive ──► begun ──► leave           while there is room
//        └─────► waiting ──► begun         later: addresses in turns, each in the order of its arrivals
//                waiting ◄── begun         a peer that says nothing lets the next one try
//
// A single address must not hold all places, nor some hundred silent peers keep the others out:
//
// - An address begins another handshake only while more places are free than it holds. One address has at most half of
//   the places, two have a third each, and so on.
// - While others wait, a peer that has not answered for some seconds gives its place up to one of its own address, or of
//   an address with fewer places. So a crowd costs no slow peer its place whose address has one alone.
//
// Rests on AddressTurns.

package import MartletBase
package import MartletTransport

/// The places for handshakes of a loop.
package struct HandshakePlaces {
    private struct Begun {
        let address: PeerAddress
        /// When the peer was last sent something, or was first read.
        var since: Int64
        /// Whether the peer has answered, and waits for the loop.
        var isHeard = false
        /// Whether the peer has ever sent a whole record.
        var hasSpoken = false
    }

    private let placesMax: Int
    private let silentMillisecondsMax: Int64
    private var begun: [ConnectionID: Begun] = [:]
    /// Begun handshakes by the address of their peers.
    private var counts: [PeerAddress: Int] = [:]
    /// The waiting connections, and the order of their turns. Some in the order are gone.
    private var waiting: Set<ConnectionID> = []
    private var order = AddressTurns<ConnectionID>()
    /// When handshakes began to wait for their peers, in this order. Some have gone on since.
    private var silences: ArraySlice<(id: ConnectionID, since: Int64)> = []
    /// When connections were first read, in this order. Some have spoken or gone since.
    private var unspoken: ArraySlice<(id: ConnectionID, since: Int64)> = []

    /// - Parameters:
    ///   - placesMax: handshakes in progress at a time.
    ///   - silentMillisecondsMax: silence of a peer after which others get its place.
    package init(placesMax: Int, silentMillisecondsMax: Int64) {
        self.placesMax = placesMax
        self.silentMillisecondsMax = silentMillisecondsMax
    }

    package var begunCount: Int { begun.count }
    package var hasWaiting: Bool { !waiting.isEmpty }

    /// A connection has come.
    /// - Parameters:
    ///   - address: the network of the peer's address.
    ///   - now: milliseconds of a monotonic clock, as in all calls.
    /// - Returns: whether the connection is read from now on; false: its turn comes by `next`.
    package mutating func arrive(
        _ connection: ConnectionID, from address: PeerAddress, at now: Int64
    ) -> Bool {
        guard order.count(of: address) > 0 || !mayBegin(address) else {
            begin(connection, address, now)
            return true
        }
        waiting.insert(connection)
        order.append(connection, of: address)
        return false
    }

    /// Takes the next waiting connection, to be read from now on; nil: none, or no place for any.
    package mutating func next(at now: Int64) -> ConnectionID? {
        while let (connection, address) = nextInOrder() {
            guard waiting.remove(connection) != nil else { continue }
            begin(connection, address, now)
            return connection
        }
        return nil
    }

    /// The peer of a handshake has sent something.
    package mutating func hear(_ connection: ConnectionID) {
        begun[connection]?.isHeard = true
        begun[connection]?.hasSpoken = true
    }

    /// A connection that is read and has not spoken lets a waiting one have its place, and waits for another turn. Peers
    /// speak as soon as they are connected, so silent ones cost the others a moment each. The caller reads no more of it.
    /// - Returns: nil if there is none, or nobody waits.
    package mutating func yield(at now: Int64) -> ConnectionID? {
        while hasWaiting, let first = unspoken.first {
            guard let one = begun[first.id], !one.hasSpoken, one.since == first.since else {
                unspoken.removeFirst()
                continue
            }
            guard now - first.since > Self.unspokenMillisecondsMax else { return nil }
            unspoken.removeFirst()
            leave(first.id)
            waiting.insert(first.id)
            order.append(first.id, of: one.address)
            return first.id
        }
        return nil
    }

    /// A waiting connection has spoken before its reading ended: it is read on.
    package mutating func resume(
        _ connection: ConnectionID, from address: PeerAddress, at now: Int64
    ) {
        if waiting.remove(connection) != nil { begin(connection, address, now) }
    }

    /// A ClientHello lies behind the end of TCP's handshake, and comes with it or a moment later.
    private static let unspokenMillisecondsMax: Int64 = 100

    /// The loop has taken what the peer sent.
    /// - Parameter hasAnswered: whether the peer was sent something. Bytes that lead to nothing do not end a silence.
    package mutating func waitForPeer(
        _ connection: ConnectionID, hasAnswered: Bool, at now: Int64
    ) {
        guard var one = begun[connection] else { return }
        one.isHeard = false
        if hasAnswered { one.since = now }
        begun[connection] = one
        note(connection, one.since)
    }

    /// The handshake or the connection has ended. Has no effect for an unknown connection.
    package mutating func leave(_ connection: ConnectionID) {
        guard let one = begun.removeValue(forKey: connection) else {
            guard waiting.remove(connection) != nil else { return }
            // Most in the order are gone when this happens, so the time is that of their arrivals.
            if order.count > 2 * waiting.count + 64 { order.keep { waiting.contains($0) } }
            return
        }
        let count = counts[one.address, default: 1] - 1
        counts[one.address] = count > 0 ? count : nil
    }

    /// A handshake whose peer has been silent for too long while others wait; nil: none. The caller ends it.
    package mutating func silent(at now: Int64) -> ConnectionID? {
        while let first = silences.first, !isSilent(first) { silences.removeFirst() }
        guard hasWaiting, let first = silences.first, now - first.since > silentMillisecondsMax
        else { return nil }
        let fewest = order.nextAddresses.map { counts[$0, default: 0] }.min() ?? .max
        for one in silences.prefix(Self.silentLooksMax) {
            guard now - one.since > silentMillisecondsMax else { return nil }
            guard isSilent(one), let address = begun[one.id]?.address,
                order.count(of: address) > 0 || fewest < counts[address, default: 0]
            else { continue }
            return one.id
        }
        return nil
    }

    /// Peers looked at in a call, because some may keep their places: some microseconds.
    private static let silentLooksMax = 256

    private mutating func nextInOrder() -> (element: ConnectionID, address: PeerAddress)? {
        guard hasWaiting else { return nil }
        let (counts, free) = (counts, placesMax - begun.count)
        return order.next { counts[$0, default: 0] < free }
    }

    private func mayBegin(_ address: PeerAddress) -> Bool {
        counts[address, default: 0] < placesMax - begun.count
    }

    private mutating func begin(_ connection: ConnectionID, _ address: PeerAddress, _ now: Int64) {
        begun[connection] = Begun(address: address, since: now)
        counts[address, default: 0] += 1
        note(connection, now)
        unspoken.append((connection, now))
        if unspoken.count > 4 * begun.count + 64 {
            unspoken = unspoken.filter { begun[$0.id]?.hasSpoken == false }[...]
        }
    }

    private func isSilent(_ one: (id: ConnectionID, since: Int64)) -> Bool {
        begun[one.id].map { $0.since == one.since && !$0.isHeard } ?? false
    }

    private mutating func note(_ connection: ConnectionID, _ since: Int64) {
        silences.append((connection, since))
        // Most have gone on when this happens, so the time is that of the notes.
        if silences.count > 4 * begun.count + 64 { silences = silences.filter(isSilent)[...] }
    }
}
