// SPDX-License-Identifier: Apache-2.0
//
// Work for strangers, served in turns by address: an address with much work waits for itself, and an address with one
// piece of work waits for one piece of each other address. Rests on PeerAddress.

package import MartletBase

/// A queue that serves the addresses in turns. The queue takes networks: the caller cuts an address to its prefix.
package struct AddressTurns<Element> {
    private var queues: [PeerAddress: ArraySlice<Element>] = [:]
    /// The addresses with elements. The first address is served next.
    private var turns: ArraySlice<PeerAddress> = []
    package private(set) var count = 0
    /// Addresses that a call looks at: some microseconds.
    private static var looksMax: Int { 64 }

    package init() {}

    package var isEmpty: Bool { count == 0 }

    package func count(of address: PeerAddress) -> Int { queues[address]?.count ?? 0 }

    package mutating func append(_ element: Element, of address: PeerAddress) {
        count += 1
        guard queues[address] == nil else {
            queues[address]?.append(element)
            return
        }
        queues[address] = [element]
        turns.append(address)
    }

    /// Takes the first element of the next address that may go. Addresses that may not are looked at again after the
    /// others.
    package mutating func next(
        where mayGo: (PeerAddress) -> Bool
    ) -> (element: Element, address: PeerAddress)? {
        for _ in 0..<min(turns.count, Self.looksMax) {
            guard let address = turns.first else { break }
            if mayGo(address) { return next().map { ($0, address) } }
            turns.append(turns.removeFirst())
        }
        return nil
    }

    /// Drops the elements that are not to be kept.
    package mutating func keep(where isKept: (Element) -> Bool) {
        for (address, queue) in queues {
            let kept = queue.filter(isKept)
            count -= queue.count - kept.count
            queues[address] = kept.isEmpty ? nil : kept[...]
        }
        turns = turns.filter { queues[$0] != nil }[...]
    }

    /// The addresses that are served next, up to the bound of a look.
    package var nextAddresses: ArraySlice<PeerAddress> { turns.prefix(Self.looksMax) }

    /// Takes the first element of the next address.
    package mutating func next() -> Element? {
        guard let address = turns.popFirst(), let element = queues[address]?.popFirst() else {
            return nil
        }
        count -= 1
        if queues[address]?.isEmpty ?? true {
            queues[address] = nil
        } else {
            turns.append(address)
        }
        return element
    }
}
