// SPDX-License-Identifier: Apache-2.0
//
// The requests that wait for an answer. A correlation belongs to at most one request at a time, over all
// connections. The loss of a connection fails exactly the requests of the connection. Pure.

package struct RequestTable<Waiter> {
    /// NET-3: the broker stops reading a connection with more outstanding requests.
    package static var outstandingMax: Int { 1024 }

    private struct Entry {
        var connection: UInt64
        var waiter: Waiter
    }

    private var entries: [UInt32: Entry] = [:]
    private var last: UInt32 = 0

    package init() {}

    package var count: Int { entries.count }

    /// Returns a correlation without an outstanding request. Never 0.
    package mutating func nextCorrelation() -> UInt32 {
        repeat { last &+= 1 } while last == 0 || entries[last] != nil
        return last
    }

    package mutating func insert(_ waiter: Waiter, correlation: UInt32, connection: UInt64) {
        precondition(
            entries[correlation] == nil, "Correlation \(correlation) is already outstanding.")
        entries[correlation] = Entry(connection: connection, waiter: waiter)
    }

    /// Removes the waiter for an answer; nil if the request no longer waits.
    package mutating func remove(_ correlation: UInt32) -> Waiter? {
        entries.removeValue(forKey: correlation)?.waiter
    }

    /// Removes the waiters of a lost connection, in the order of their correlations.
    package mutating func removeAll(ofConnection connection: UInt64) -> [Waiter] {
        let lost = entries.filter { $0.value.connection == connection }
        for correlation in lost.keys { entries.removeValue(forKey: correlation) }
        return lost.sorted { $0.key < $1.key }.map(\.value.waiter)
    }
}
