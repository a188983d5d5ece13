// SPDX-License-Identifier: Apache-2.0
//
// Runs histories by the thousand on several environments, and shortens those that differ.
// Rests on History.

import Foundation
import MartletBase
import Synchronization

/// A history that differed, and the first of those before it that were run in the same environment.
struct FailedHistory: Sendable {
    let seed: UInt64
    let first: UInt64
    let difference: String
}

/// The same, step by step.
struct ToldHistory: Sendable, CustomStringConvertible {
    let failed: FailedHistory
    let steps: Int
    let story: [String]

    var description: String {
        let first = failed.first == failed.seed ? "" : " FIRST=\(failed.first)"
        return """
            make mailbox-histories SEED=\(failed.seed)\(first)  (\(steps) steps)
            \(story.joined(separator: "\n"))
            \(failed.difference)
            """
    }
}

enum HistoryRunner {
    static let stepsMax = 30
    /// Histories that share an environment, and with it what is swept.
    private static let historiesPerWorld: UInt64 = 50
    /// Environments of which one has its rows in a store. The others have them in memory, which is faster.
    private static let worldsPerStore: UInt64 = 10

    /// - Returns: what differed.
    private static func difference(
        _ world: World, seed: UInt64, steps: Int, _ rule: EagerMailbox.BrokenRule
    ) -> String? {
        do {
            let history = try History(world, seed: seed, brokenRule: rule)
            try history.run(steps: steps)
            return nil
        } catch { return "\(error)" }
    }

    /// The history with this seed, told step by step, as far as it has to go to differ: by itself, or
    /// else after those from `first` on in the same environment.
    static func told(
        seed: UInt64, first: UInt64, rule: EagerMailbox.BrokenRule = .none
    ) throws -> ToldHistory? {
        for steps in 0...stepsMax {
            let world = try World(.store)
            guard difference(world, seed: seed, steps: steps, rule) != nil else { continue }
            return try told(try World(.store), seed: seed, first: seed, steps: steps, rule)
        }
        guard first < seed else { return nil }
        let world = try World(.store)
        for before in first..<seed { _ = difference(world, seed: before, steps: stepsMax, rule) }
        return try told(world, seed: seed, first: first, steps: stepsMax, rule)
    }

    private static func told(
        _ world: World, seed: UInt64, first: UInt64, steps: Int, _ rule: EagerMailbox.BrokenRule
    ) throws -> ToldHistory? {
        let history = try History(world, seed: seed, brokenRule: rule, isTold: true)
        do { try history.run(steps: steps) } catch {
            let failed = FailedHistory(seed: seed, first: first, difference: "\(error)")
            return ToldHistory(failed: failed, steps: steps, story: history.story)
        }
        return nil
    }

    /// Runs the histories of a range of seeds, each once, as many of them as there is time for.
    /// - Parameter place: where the rows of all environments are; nil: mostly in memory.
    /// - Returns: how many it ran, and those that differed, about `failuresMax` at most.
    static func run(
        _ seeds: Range<UInt64>, workers: Int,
        failuresMax: Int = 1, rule: EagerMailbox.BrokenRule = .none, in place: World.Place? = nil
    ) throws -> (count: Int, failed: [FailedHistory]) {
        let failed = Mutex<[FailedHistory]>([])
        let count = Atomic(0)
        // Which histories share an environment is in their seeds alone, so that they can be repeated.
        let next = Atomic(seeds.lowerBound)
        let finished = DispatchSemaphore(value: 0)
        @Sendable func work() throws {
            while true {
                let first = next.wrappingAdd(historiesPerWorld, ordering: .relaxed).oldValue
                guard first < seeds.upperBound else { return }
                let rows =
                    place ?? (first / historiesPerWorld % worldsPerStore == 0 ? .store : .memory)
                var world = try World(rows)
                var begun = first
                for seed in first..<min(first + historiesPerWorld, seeds.upperBound) {
                    if failed.withLock({ $0.count }) >= failuresMax { return }
                    count.add(1, ordering: .relaxed)
                    guard let text = difference(world, seed: seed, steps: stepsMax, rule) else {
                        continue
                    }
                    failed.withLock {
                        $0.append(FailedHistory(seed: seed, first: begun, difference: text))
                    }
                    world = try World(rows)
                    begun = seed + 1
                }
            }
        }
        let threads = (0..<workers).map { _ in
            Thread {
                do { try work() } catch {
                    failed.withLock {
                        $0.append(FailedHistory(seed: .max, first: .max, difference: "\(error)"))
                    }
                }
                finished.signal()
            }
        }
        for thread in threads {
            thread.stackSize = 8 << 20
            thread.start()
        }
        for _ in threads { finished.wait() }
        return (
            count.load(ordering: .relaxed), failed.withLock { $0.sorted { $0.seed < $1.seed } }
        )
    }
}
