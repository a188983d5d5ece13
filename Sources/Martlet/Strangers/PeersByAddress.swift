// SPDX-License-Identifier: Apache-2.0
//
// Connections by the address of their peers, for bounds that a single address must not use up: at the bound, the oldest
// connection of the address with most connections ends. So a stranger with a thousand connections pays with its own, and
// an honest peer beside the stranger stays. Of addresses with equally many connections, the address that has had so many
// for longest pays.
//
//     lists[3] ─► address ─► address          the addresses with three connections, longest first
//     lists[2] ─► address
//     lists[1] ─► address ─► … ─► address
//
// A connection that comes or goes moves its address to the neighbouring list, so each change takes the same time, however
// many addresses there are. Rests on PeerAddress.

package import MartletBase

/// Connections by the address of their peers. The caller reduces an address to its network.
package struct PeersByAddress<Peer: Hashable> {
    /// A connection may come, go and come again, also from another address: a proxy names the client late. The number
    /// tells the arrivals of a connection apart.
    private struct Arrival {
        let connection: Peer
        let number: UInt64
    }

    private struct Group {
        let address: PeerAddress
        /// Oldest first. The first arrival is present, and some of the others are gone.
        var arrivals: ArraySlice<Arrival> = []
        var count = 0
        /// The neighbours among the groups with as many connections; -1: none.
        var previous = -1
        var next = -1
    }

    private var groups: [Group] = []
    private var freeGroups: [Int] = []
    private var numbers: [PeerAddress: Int] = [:]
    /// The present connections, with the number of the arrival.
    private var homes: [Peer: (group: Int, arrival: UInt64)] = [:]
    private var lastArrival: UInt64 = 0
    /// First and last group with so many connections; -1: none.
    private var lists: [(first: Int, last: Int)] = [(-1, -1)]
    private var largestCount = 0

    package init() {}

    package var count: Int { homes.count }

    package func count(of address: PeerAddress) -> Int {
        numbers[address].map { groups[$0].count } ?? 0
    }

    /// The oldest connection of the address with most connections.
    package var first: Peer? {
        largestCount > 0 ? groups[lists[largestCount].first].arrivals.first?.connection : nil
    }

    package mutating func insert(_ connection: Peer, from address: PeerAddress) {
        precondition(homes[connection] == nil, "A connection comes once.")
        let number = numbers[address] ?? makeGroup(address)
        lastArrival += 1
        homes[connection] = (number, lastArrival)
        groups[number].arrivals.append(Arrival(connection: connection, number: lastArrival))
        move(number, to: groups[number].count + 1)
    }

    /// Has no effect for an unknown connection.
    package mutating func remove(_ connection: Peer) {
        guard let number = homes.removeValue(forKey: connection)?.group else { return }
        move(number, to: groups[number].count - 1)
        guard groups[number].count > 0 else {
            numbers[groups[number].address] = nil
            groups[number].arrivals = []
            freeGroups.append(number)
            return
        }
        while let first = groups[number].arrivals.first, !isPresent(first) {
            groups[number].arrivals.removeFirst()
        }
        // Connections that are gone make up three quarters at most, so the time is that of the departures.
        if groups[number].arrivals.count > 4 * groups[number].count + 16 {
            groups[number].arrivals = groups[number].arrivals.filter(isPresent)[...]
        }
    }

    private func isPresent(_ arrival: Arrival) -> Bool {
        homes[arrival.connection]?.arrival == arrival.number
    }

    private mutating func makeGroup(_ address: PeerAddress) -> Int {
        let group = Group(address: address)
        let number: Int
        if let free = freeGroups.popLast() {
            groups[free] = group
            number = free
        } else {
            number = groups.count
            groups.append(group)
        }
        numbers[address] = number
        return number
    }

    /// Moves a group to the end of the list for another number of connections.
    private mutating func move(_ number: Int, to count: Int) {
        let before = groups[number].count
        if before > 0 {
            let (previous, next) = (groups[number].previous, groups[number].next)
            if previous >= 0 { groups[previous].next = next } else { lists[before].first = next }
            if next >= 0 { groups[next].previous = previous } else { lists[before].last = previous }
        }
        groups[number].count = count
        if count > 0 {
            if count == lists.count { lists.append((-1, -1)) }
            let last = lists[count].last
            groups[number].previous = last
            groups[number].next = -1
            if last >= 0 { groups[last].next = number } else { lists[count].first = number }
            lists[count].last = number
        }
        if count > largestCount {
            largestCount = count
        } else if before == largestCount, lists[before].first < 0 {
            // The group itself has one connection fewer now.
            largestCount = count
        }
    }
}
