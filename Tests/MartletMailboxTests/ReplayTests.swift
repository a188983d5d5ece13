// SPDX-License-Identifier: Apache-2.0
//
// The replay of a log beside the naive mailbox. Rests on ReplayHistory.

import MartletBase
import MartletEngine
import TestSupport
import Testing

@Suite("A log is replayed as its messages were stored")
struct ReplayTests {
    private static let stepsMax = 40

    /// The first seed of a range whose life differs, with the shortest beginning that does.
    private func firstDifference(
        _ seeds: ClosedRange<UInt64>, brokenRule: EagerMailbox.BrokenRule = .none
    ) -> (seed: UInt64, steps: Int, text: String)? {
        for seed in seeds {
            let history = ReplayHistory(seed: seed, brokenRule: brokenRule)
            guard history.run(steps: Self.stepsMax) != nil else { continue }
            for steps in 1...Self.stepsMax {
                let short = ReplayHistory(seed: seed, brokenRule: brokenRule, isTold: true)
                guard let text = short.run(steps: steps) else { continue }
                return (seed, steps, (short.story + [text]).joined(separator: "\n"))
            }
        }
        return nil
    }

    @Test(
        "COL-1 COL-3 STO-1 STO-2 TTL-3: replaying a random log gives what a mailbox kept message by message holds"
    )
    func random() {
        // Without optimisation a hundredth.
        if let found = firstDifference(1...rounds(rounds(100_000))) {
            Issue.record("seed \(found.seed), \(found.steps) steps:\n\(found.text)")
        }
    }

    @Test(
        "a rule left out of the model is noticed",
        arguments: [
            EagerMailbox.BrokenRule.collapseKeepsFirst, .evictsFirstWritten, .overflowKeepsLast,
            .expiresLate, .discardCountsFew,
        ])
    func canary(rule: EagerMailbox.BrokenRule) {
        #expect(firstDifference(1...2000, brokenRule: rule) != nil)
    }
}
