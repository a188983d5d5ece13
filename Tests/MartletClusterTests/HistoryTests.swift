// SPDX-License-Identifier: Apache-2.0
//
// Histories of three nodes on a log in memory: whatever fails, no accepted row is lost. Each guard has a canary:
// without the guard some history must go wrong.

import MartletCluster
import MartletRows
import MartletSimulator
import TestSupport
import Testing

@Suite("Histories of a cluster's log")
struct HistoryTests {
    private static let seeds: Range<UInt64> = 0..<300

    @Test(
        "OPS-7: no accepted row is lost, no refused row is written, and all stores are the log",
        arguments: [false, true])
    func histories(ignoresLease: Bool) {
        var (acceptedCount, takeoverCount, doubtCount) = (0, 0, 0)
        let count = rounds(Self.seeds.count)
        for seed in Self.seeds.prefix(count) {
            let history = History(
                seed: seed, options: HistoryOptions(ignoresLease: ignoresLease))
            let faults = history.run()
            #expect(faults.isEmpty, "seed \(seed)")
            // The time of peace alone is long enough for this.
            #expect(history.acceptedCount > 50, "seed \(seed)")
            acceptedCount += history.acceptedCount
            takeoverCount += history.takeoverCount
            doubtCount += history.doubtCount
        }
        #expect(acceptedCount > 100 * count)
        #expect(takeoverCount > 2 * count)
        #expect(doubtCount > 2 * count)
    }

    @Test("OPS-7: a seed determines its history")
    func determined() {
        let (one, other) = (History(seed: 7), History(seed: 7))
        #expect(one.run() == other.run())
        #expect(one.nodes.map(\.store) == other.nodes.map(\.store))
        #expect(!one.nodes[0].store.isEmpty)
    }

    /// The first history that goes wrong.
    private static func firstFault(_ options: HistoryOptions) -> (seed: UInt64, faults: [String])? {
        for seed in seeds {
            let faults = History(seed: seed, options: options).run()
            if !faults.isEmpty { return (seed, faults) }
        }
        return nil
    }

    @Test(
        "OPS-7: a log without its fence, its confirmations or its warnings is found out",
        arguments: [DatabaseCanary.fence, .confirmation, .warning])
    func databaseCanary(canary: DatabaseCanary) {
        #expect(Self.firstFault(HistoryOptions(database: canary)) != nil)
    }

    @Test(
        "OPS-7: a node that answers a doubt, or answers or stores before the log, is found out",
        arguments: [
            NodeCanary.doubtIsAcceptance, .doubtIsRefusal, .earlyAnswer, .earlyStore,
        ])
    func nodeCanary(canary: NodeCanary) {
        #expect(Self.firstFault(HistoryOptions(node: canary)) != nil)
    }

    @Test(
        "OPS-7: nodes stop when a promoted standby lacks accepted rows; without chains they go on")
    func lostRows() {
        var (stoppedCount, unequalCount) = (0, 0)
        let count = max(12, rounds(40))
        for seed in 0..<UInt64(count) {
            let guarded = History(seed: seed, options: HistoryOptions(losesRows: true))
            let guardedFaults = guarded.run()
            #expect(!guardedFaults.contains { $0.contains("the store of") }, "seed \(seed)")
            stoppedCount += guarded.nodes.count { $0.isStopped }
            let blind = History(seed: seed, options: HistoryOptions(node: .chain, losesRows: true))
            let faults = blind.run()
            if faults.contains(where: { $0.contains("the store of") }) { unequalCount += 1 }
        }
        #expect(stoppedCount > count / 2)
        #expect(unequalCount > count / 4)
    }
}
