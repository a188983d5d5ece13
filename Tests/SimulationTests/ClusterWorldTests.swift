// SPDX-License-Identifier: Apache-2.0
//
// Worlds with a cluster of three nodes, in which nodes and the log's servers fail in every way (OPS-7). The clients of such a
// world see what the clients of a lone broker see. Each guard has a canary: without the guard some world must go wrong.

import Foundation
import MartletSimulator
import Testing

@Suite("Simulated worlds of a cluster", .serialized)
struct ClusterWorldTests {
    /// Seeds of every run of the tests; `TESTS_SIMULATE_CLUSTER_SEEDS` is how many instead.
    private static let seedCount: UInt64 =
        ProcessInfo.processInfo.environment["TESTS_SIMULATE_CLUSTER_SEEDS"]
        .flatMap { UInt64($0) } ?? 500

    /// Worlds that have found a canary, so that a run need not search for one. After a change of the broker others may.
    private static let firstFound: [ClusterCanary: UInt64] = [
        .fence: 6, .doubt: 6, .warning: 42, .blindTakeover: 18, .lease: 600, .answer: 1,
        .reading: 18, .overtaken: 380,
    ]

    /// Runs worlds until enough have failed, on a thread that may wait.
    private static func run(
        _ seeds: Range<UInt64>, canary: ClusterCanary? = nil, failuresMax: Int
    ) async throws -> [Simulation.Verdict] {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result {
                        var verdicts: [Simulation.Verdict] = []
                        for seed in seeds {
                            let verdict = try Simulation.runCluster(seed: seed, canary: canary)
                            verdicts.append(verdict)
                            let failed = verdicts.count { !$0.failures.isEmpty }
                            if failed == failuresMax { break }
                        }
                        return verdicts
                    })
            }
        }
    }

    @Test(
        """
        OPS-7: nothing accepted is lost, no message comes to a wrong recipient or twice, and all \
        nodes have equal stores, whatever breaks
        """)
    func worlds() async throws {
        let verdicts = try await Self.run(0..<Self.seedCount, failuresMax: 5)
        for verdict in verdicts where !verdict.failures.isEmpty {
            Issue.record(
                """
                seed \(verdict.seed): \(verdict.failures.joined(separator: "; ")). \
                Replay: martlet-sim --cluster --seed \(verdict.seed) --trace
                """)
        }
        // A world without takeovers and deliveries would show nothing.
        #expect(verdicts.reduce(0) { $0 + $1.takeovers } > 2 * verdicts.count)
        #expect(verdicts.reduce(0) { $0 + $1.deliveries } > 10 * verdicts.count)
    }

    /// Runs a cluster with a slow log, on a thread that may wait.
    private static func runSlowLog(commit: Int64) async throws -> Simulation.SlowLogFigures {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result { try Simulation.runSlowLog(seed: 1, commit: commit) })
            }
        }
    }

    @Test(
        """
        OPS-7: while a commit of the log takes up to two seconds, a node stays active, and after its \
        end another one becomes active
        """,
        arguments: [500, 1000, 2000] as [Int64])
    func slowLog(commit: Int64) async throws {
        let figures = try await Self.runSlowLog(commit: commit)
        // A command without an answer for ten seconds is refused, and may be applied later.
        #expect(figures.failures.filter { !$0.contains("answered with UNAVAILABLE") } == [])
        // Pauses on the world's clock, in microseconds.
        #expect(figures.atChange < 20_000_000, "\(figures)")
        #expect(figures.later == 0, "\(figures)")
        #expect(figures.afterKill < 30_000_000, "\(figures)")
    }

    /// Seeds of worlds that found faults among many thousands. A change of the program may make other worlds of them.
    private static let foundFaults: [UInt64] = [
        30392, 31568, 32838, 33630, 33790, 33815, 35841, 36326, 37351, 37841,
        83796, 301243, 613074, 614511, 720456, 729158, 731205, 733987, 902529,
    ]

    @Test("OPS-7: worlds that found faults find them no more", arguments: foundFaults)
    func found(seed: UInt64) async throws {
        let verdicts = try await Self.run(seed..<seed + 1, failuresMax: 1)
        #expect(verdicts.flatMap(\.failures) == [])
    }

    @Test("OPS-7: the same seed makes the same world of a cluster")
    func sameSeed() async throws {
        let first = try await Self.run(0..<6, failuresMax: .max).map(\.hash)
        let second = try await Self.run(0..<6, failuresMax: .max).map(\.hash)
        #expect(first == second)
        #expect(Set(first).count == 6)
    }

    @Test(
        "OPS-7: a guard of the cluster that is given up is found out",
        arguments: ClusterCanary.allCases)
    func canary(_ canary: ClusterCanary) async throws {
        let first = Self.firstFound[canary] ?? 0
        let verdicts = try await Self.run(first..<first + 100, canary: canary, failuresMax: 1)
        #expect(
            verdicts.contains { !$0.failures.isEmpty }, "\(canary.rawValue) was not found")
    }
}
