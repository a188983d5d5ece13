// SPDX-License-Identifier: Apache-2.0
//
// Random histories beside the naive broker. `make mailbox-histories` runs more of them, or one by its
// seed. Rests on HistoryRunner.

import Foundation
import TestSupport
import Testing

@Suite("Histories of mailboxes beside a naive broker", .serialized)
struct HistoryTests {
    /// Histories of every run of the tests; two idle cores need about a minute. Without optimisation a hundredth.
    private static let count: UInt64 = rounds(rounds(10_000))

    private static func setting(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }

    @Test(
        "TTL-1…4 COL-1…4 STO-1 STO-2 PRI-1 REG-3 REG-4 MSG-5 MSG-7…10 QUO-1 QUO-6: every device gets what a broker kept message by message gives"
    )
    func random() async throws {
        let first = Self.setting("TESTS_MAILBOX_FIRST")
        if let seed = Self.setting("TESTS_MAILBOX_SEED") {
            let told = try HistoryRunner.told(seed: seed, first: first ?? seed)
            if let told { Issue.record("\(told)") }
            return
        }
        let count = Self.setting("TESTS_MAILBOX_COUNT") ?? Self.count
        let start = first ?? 1
        let began = Date()
        let failuresMax = Int(Self.setting("TESTS_MAILBOX_FAILURES") ?? 5)
        // On a thread of its own: tests that wait for each other have theirs meanwhile.
        let (ran, failed) = try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result {
                        try HistoryRunner.run(
                            start..<(start + count), workers: 2,
                            failuresMax: failuresMax)
                    })
            }
        }
        print(
            "\(ran) histories in \(Date().timeIntervalSince(began)) s, \(failed.count) differed")
        guard !failed.isEmpty else {
            #expect(ran == count)
            return
        }
        for one in failed { print("seed \(one.seed): \(one.difference.suffix(400))") }
        let told = try failed.prefix(5).compactMap {
            try HistoryRunner.told(seed: $0.seed, first: $0.first)
        }
        let shortest = told.min { $0.steps < $1.steps }
        Issue.record("\(failed.map(\.seed)): \(shortest.map { "\($0)" } ?? "not again")")
    }

    @Test(
        "OPS-7: every device gets the same from a store that has its rows from a log, and both stores are equal after each row"
    )
    func redone() throws {
        let count = rounds(100)
        let first = 500_000_000 as UInt64
        let (ran, failed) = try HistoryRunner.run(
            first..<first + UInt64(count), workers: 2, in: .redoneStore)
        #expect(ran == count)
        #expect(failed.isEmpty, "\(failed.map { "\($0.seed): \($0.difference.suffix(800))" })")
    }

    @Test(
        "a mailbox is read to its end, however much of it was delivered on connections before",
        arguments: [1_182_818] as [UInt64])
    func readsOn(seed: UInt64) throws {
        #expect(try HistoryRunner.run(seed..<(seed + 1), workers: 1).failed.isEmpty)
    }

    @Test(
        "STO-1 REP-1: a collection reads each log anew, also one that an earlier collection left unfinished",
        arguments: [100_691_316] as [UInt64])
    func collectsAnew(seed: UInt64) throws {
        #expect(try HistoryRunner.run(seed..<(seed + 1), workers: 1).failed.isEmpty)
    }

    @Test(
        "REP-1 TTL-3: a message whose time was over counts as expired, whatever comes before that is handled",
        arguments: [
            // A cancellation in the millisecond of the end; a scheduled message with the collapse key of the expired.
            20_823_331..<20_823_332, 30_001_900..<30_001_923,
        ] as [Range<UInt64>])
    func countsAsExpired(seeds: Range<UInt64>) throws {
        #expect(try HistoryRunner.run(seeds, workers: 1).failed.isEmpty)
    }

    @Test(
        "a rule left out of the model is noticed within 300 histories",
        arguments: [
            EagerMailbox.BrokenRule.collapseKeepsFirst, .evictsFirstWritten, .overflowKeepsLast,
            .discardCountsFew,
        ])
    func canary(rule: EagerMailbox.BrokenRule) throws {
        #expect(try !HistoryRunner.run(1..<301, workers: 2, rule: rule).failed.isEmpty)
    }
}
