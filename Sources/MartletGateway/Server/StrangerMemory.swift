// SPDX-License-Identifier: Apache-2.0
//
// Bounds the memory of requests without a valid credential: heads, bodies, unread answers, and what the server keeps for a
// request (GW-15). Such requests have a small memory of their own, and an address has a part of that memory.
//
// When the memory is full, the address with most bytes loses its oldest request, so that slow bodies of few addresses
// do not close the door to others. A newcomer whose address itself holds most is refused. A search looks at the
// addresses with open requests, of which the memory admits some 2000. An address is an IPv4 address, or the first 64
// bits of an IPv6 address. Rests on PeerAddress and Limits.

import Martlet
import Synchronization

/// The memory of strangers' requests.
final class StrangerMemory: Sendable {
    /// One request's part of the memory. The request gives its part back with `giveBack`.
    final class Part: Sendable {
        private let memory: StrangerMemory
        private let number: UInt64

        fileprivate init(_ memory: StrangerMemory, _ number: UInt64) {
            self.memory = memory
            self.number = number
        }

        /// Adds bytes to the part.
        /// - Returns: false if the memory is full, the address has its share, or the request had to make room.
        func take(_ byteCount: Int) -> Bool { memory.take(byteCount, for: number) }

        /// Ends the part. A second call has no effect.
        func giveBack() { memory.giveBack(number) }
    }

    private struct Request {
        let address: PeerAddress
        var bytes = 0
        let end: @Sendable () -> Void
    }

    private struct Holder {
        var bytes = 0
        var requests: Set<UInt64> = []
    }

    private struct State {
        var bytes = 0
        var turnedAwayCount: UInt64 = 0
        var lastNumber: UInt64 = 0
        var requests: [UInt64: Request] = [:]
        var holders: [PeerAddress: Holder] = [:]

        mutating func remove(_ number: UInt64) -> Request? {
            guard let request = requests.removeValue(forKey: number) else { return nil }
            bytes -= request.bytes
            holders[request.address]?.bytes -= request.bytes
            holders[request.address]?.requests.remove(number)
            if holders[request.address]?.requests.isEmpty == true {
                holders[request.address] = nil
            }
            return request
        }

        /// Removes the oldest request of the address that holds most.
        /// - Returns: nil if no address holds more than `least` bytes.
        mutating func removeOldest(ofMoreThan least: Int) -> Request? {
            guard let largest = holders.values.max(by: { $0.bytes < $1.bytes }),
                largest.bytes > least, let oldest = largest.requests.min()
            else { return nil }
            return remove(oldest)
        }
    }

    private let bytesMax: Int
    private let bytesPerAddressMax: Int
    private let state = Mutex(State())

    init(
        bytesMax: Int = Limits.httpStrangerBytesMax,
        perAddress: Int = Limits.httpStrangerBytesPerAddressMax
    ) {
        self.bytesMax = bytesMax
        bytesPerAddressMax = perAddress
    }

    /// Bytes of all requests.
    var bytes: Int { state.withLock { $0.bytes } }
    /// Requests and connections that were refused, or made room.
    var turnedAwayCount: UInt64 { state.withLock { $0.turnedAwayCount } }

    /// Counts connections or streams of strangers that were refused, or made room.
    func turnAway(_ count: Int) {
        if count > 0 { state.withLock { $0.turnedAwayCount += UInt64(count) } }
    }

    /// Begins the part of a request, with no bytes.
    /// - Parameter end: ends the request when the request must make room. Any thread may call the function.
    func begin(_ address: PeerAddress, end: @escaping @Sendable () -> Void) -> Part {
        let number = state.withLock { state in
            state.lastNumber += 1
            state.requests[state.lastNumber] = Request(address: address.network, end: end)
            state.holders[address.network, default: Holder()].requests.insert(state.lastNumber)
            return state.lastNumber
        }
        return Part(self, number)
    }

    private func take(_ byteCount: Int, for number: UInt64) -> Bool {
        var ended: [Request] = []
        defer { for request in ended { request.end() } }
        return state.withLock { state in
            guard let address = state.requests[number]?.address else { return false }
            let held = (state.holders[address]?.bytes ?? 0) + byteCount
            guard held <= bytesPerAddressMax else {
                state.turnedAwayCount += 1
                return false
            }
            while state.bytes + byteCount > bytesMax {
                state.turnedAwayCount += 1
                guard let oldest = state.removeOldest(ofMoreThan: held) else { return false }
                ended.append(oldest)
            }
            state.bytes += byteCount
            state.requests[number]?.bytes += byteCount
            state.holders[address]?.bytes = held
            return true
        }
    }

    private func giveBack(_ number: UInt64) {
        state.withLock { state in _ = state.remove(number) }
    }
}
