// SPDX-License-Identifier: Apache-2.0
//
// Which requests wait for an answer. A correlation belongs to one request at a time, whatever
// connection it went out on; when a connection is lost, exactly its requests fail. Pure.

package struct RequestTable<Waiter> {
    /// NET-3: the broker reads no further past this many on one connection.
    package static var outstandingMax: Int { 1024 }

    private struct Entry {
        var connection: UInt64
        var waiter: Waiter
    }

    private var entries: [UInt32: Entry] = [:]
    private var last: UInt32 = 0

    package init() {}

    package var count: Int { entries.count }

    /// A correlation that no outstanding request has. Never 0.
    package mutating func nextCorrelation() -> UInt32 {
        repeat { last &+= 1 } while last == 0 || entries[last] != nil
        return last
    }

    package mutating func insert(_ waiter: Waiter, correlation: UInt32, connection: UInt64) {
        precondition(
            entries[correlation] == nil, "Correlation \(correlation) is already outstanding.")
        entries[correlation] = Entry(connection: connection, waiter: waiter)
    }

    /// Who waits for this answer; nil if nobody does any longer.
    package mutating func remove(_ correlation: UInt32) -> Waiter? {
        entries.removeValue(forKey: correlation)?.waiter
    }

    /// Everybody who waits for an answer on a connection that is gone.
    package mutating func removeAll(ofConnection connection: UInt64) -> [Waiter] {
        let lost = entries.filter { $0.value.connection == connection }
        for correlation in lost.keys { entries.removeValue(forKey: correlation) }
        return lost.sorted { $0.key < $1.key }.map(\.value.waiter)
    }
}
