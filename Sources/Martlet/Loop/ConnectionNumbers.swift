// SPDX-License-Identifier: Apache-2.0
//
// The numbers of connections, which decide on the connection of an instance that stays. Rests on the committer, for
// devices with a connection elsewhere.

package import MartletBase
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import Synchronization

/// Numbers the connections of devices, over all loops of a broker. A later connection of an instance has a higher number,
/// and stays. GW-11: the sessions of the door to push services have numbers below all numbers of connections, so a
/// connection of the device always stays, and the store forgets no connection when such a session ends.
///
/// OPS-7: numbers of a node rise with the time, so of two connections of an instance on two nodes the later has the higher
/// number. Connections of one millisecond have unequal numbers too, because the last bits are those of the node's run:
///
///     milliseconds since 1970 (44 bits) ‖ count in the millisecond (8) ‖ run (12)
package final class ConnectionNumbers: Sendable {
    /// OPS-7: what one of several nodes knows of its numbers.
    package struct Node: Sendable {
        let clock: @Sendable () -> Instant
        let run: @Sendable () -> UInt32
        let epoch: @Sendable () -> UInt32

        /// - Parameters:
        ///   - run: the run of the node's process; 0: the process has no run yet.
        ///   - epoch: the last epoch. The door of a later epoch has the higher numbers.
        package init(
            clock: @escaping @Sendable () -> Instant, run: @escaping @Sendable () -> UInt32,
            epoch: @escaping @Sendable () -> UInt32
        ) {
            (self.clock, self.run, self.epoch) = (clock, run, epoch)
        }
    }

    /// Numbers up to here are of the door's sessions: more than a broker has in a lifetime, and the numbers of
    /// connections of a broker alone stay below 2^53, up to which JSON numbers are exact.
    private static let bridgeMax: UInt64 = 1 << 40
    /// OPS-7: bits of a run in a number. Two living nodes have equal bits if one of them has had a multiple of 4096 starts
    /// of processes after it.
    private static let runBits: UInt64 = 12
    /// OPS-7: bits below the milliseconds. A node with more than 256 connections in a millisecond, five times as many as a
    /// broker opens, runs ahead of the clock for a moment.
    private static let millisecondBits: UInt64 = 20
    /// OPS-7: sessions of the door of an epoch before their numbers run into those of the next epoch.
    private static let bridgesPerEpoch: UInt64 = 1 << 24

    private let last = Atomic<UInt64>(bridgeMax)
    private let lastBridge = Atomic<UInt64>(0)
    /// nil: the broker is alone.
    private let node: Node?

    package init(_ node: Node? = nil) { self.node = node }

    package func next(isBridge: Bool = false) -> UInt64 {
        guard let node else {
            return isBridge
                ? lastBridge.add(1, ordering: .relaxed).newValue
                : last.add(1, ordering: .relaxed).newValue
        }
        if isBridge {
            // The numbers begin again after 65,536 takeovers.
            let turn = UInt64(node.epoch()) % (Self.bridgeMax / Self.bridgesPerEpoch)
            return Self.next(lastBridge, atLeast: turn * Self.bridgesPerEpoch)
        }
        let counts = Self.millisecondBits - Self.runBits
        let time = UInt64(max(node.clock().millisecondsSince1970, 0)) << counts
        let run = UInt64(node.run()) & (1 << Self.runBits - 1)
        return Self.next(last, atLeast: time, bits: Self.runBits) | run
    }

    /// The next number that is not below `least`.
    /// - Parameter bits: lowest bits that do not count: they are 0 in the number, and of any value in the last number.
    private static func next(
        _ last: borrowing Atomic<UInt64>, atLeast least: UInt64, bits: UInt64 = 0
    ) -> UInt64 {
        while true {
            let before = last.load(ordering: .relaxed)
            let number = max((before >> bits) + 1, least) << bits
            if last.compareExchange(expected: before, desired: number, ordering: .relaxed).exchanged
            {
                return number
            }
        }
    }

    static func isBridge(_ number: UInt64) -> Bool { number <= bridgeMax }

    /// GW-11, OPS-7: whether a device has a connection of its own at another node.
    static func isElsewhere(
        _ ordinal: Ordinal, in project: ProjectNumber, _ committer: Committer,
        _ transaction: borrowing Transaction
    ) throws(StorageError) -> Bool {
        guard let node = committer.node else { return false }
        return try transaction.connections.isOpen(
            ordinal, in: project, above: bridgeMax, besides: node.run)
    }
}
