// SPDX-License-Identifier: Apache-2.0
//
// Worlds of fixed seeds in which everything must be as the specification says, and worlds that are
// broken on purpose, in which something must be found. `make simulate` runs more of the first.

import Dispatch
import Foundation
import MartletSimulator
import Synchronization
import Testing

@Suite("Simulated worlds", .serialized)
struct SimulationTests {
    /// Seeds of every run of the tests; `TESTS_SIMULATE_SEEDS` is how many instead.
    private static let seedCount: UInt64 =
        ProcessInfo.processInfo.environment["TESTS_SIMULATE_SEEDS"].flatMap { UInt64($0) } ?? 1000

    private typealias Found = (
        failed: [Simulation.Verdict], deliveries: Int, hashes: [UInt64: UInt64]
    )

    /// Runs worlds on all cores until all are done or enough have failed. Tests that wait for each
    /// other have their threads meanwhile.
    private static func run(
        _ seeds: Range<UInt64>, canary: Canary? = nil, failuresMax: Int
    ) async throws -> Found {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result { try work(seeds, canary: canary, failuresMax: failuresMax) })
            }
        }
    }

    private static func work(
        _ seeds: Range<UInt64>, canary: Canary?, failuresMax: Int
    ) throws -> Found {
        let next = Atomic(seeds.lowerBound)
        let failed = Mutex<[Simulation.Verdict]>([])
        let hashes = Mutex<[UInt64: UInt64]>([:])
        let trouble = Mutex<(any Error)?>(nil)
        let deliveries = Atomic(0)
        let threads = max(1, ProcessInfo.processInfo.activeProcessorCount)
        DispatchQueue.concurrentPerform(iterations: threads) { _ in
            while failed.withLock({ $0.count }) < failuresMax {
                let seed = next.add(1, ordering: .relaxed).oldValue
                guard seed < seeds.upperBound else { return }
                do {
                    let verdict = try Simulation.run(seed: seed, canary: canary)
                    deliveries.add(verdict.deliveries, ordering: .relaxed)
                    hashes.withLock { $0[seed] = verdict.hash }
                    if !verdict.failures.isEmpty { failed.withLock { $0.append(verdict) } }
                } catch {
                    trouble.withLock { $0 = error }
                    return
                }
            }
        }
        if let error = trouble.withLock({ $0 }) { throw error }
        return (
            failed.withLock { $0 }, deliveries.load(ordering: .relaxed), hashes.withLock { $0 }
        )
    }

    @Test(
        """
        TTL-4, QUO-1, FAN-2, FAN-3, FAN-6, OPS-4: messages reach their recipients, once, in order, \
        whatever breaks
        """)
    func worlds() async throws {
        let (failed, deliveries, _) = try await Self.run(0..<Self.seedCount, failuresMax: 5)
        for verdict in failed {
            Issue.record(
                """
                seed \(verdict.seed) (\(verdict.kind)): \
                \(verdict.failures.joined(separator: "; ")). \
                Replay: martlet-sim --seed \(verdict.seed) --trace
                """)
        }
        #expect(deliveries > 0)
    }

    @Test("the same seed makes the same world")
    func sameSeed() async throws {
        let first = try await Self.run(0..<48, failuresMax: .max)
        let second = try await Self.run(0..<48, failuresMax: .max)
        #expect(first.hashes.count == 48)
        #expect(first.hashes == second.hashes)
        #expect(Set(first.hashes.values).count == 48)
    }

    @Test("what is broken on purpose is found within 128 seeds", arguments: Canary.allCases)
    func canary(_ canary: Canary) async throws {
        let (failed, _, _) = try await Self.run(0..<128, canary: canary, failuresMax: 1)
        #expect(!failed.isEmpty, "\(canary.rawValue) was not found")
    }
}
