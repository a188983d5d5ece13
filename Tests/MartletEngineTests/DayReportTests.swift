// SPDX-License-Identifier: Apache-2.0
//
// How far a day's report looks into mailboxes. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Reports of a day")
struct DayReportTests {
    private static let mailboxesMax = 100_000

    @Test("REP-1: who asks has 100,000 mailboxes looked into; what is in the others is pending")
    func bounded() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        for start in stride(from: 0, to: Self.mailboxesMax + 1, by: 8192) {
            let count = min(8192, Self.mailboxesMax + 1 - start)
            _ = try bench.apply(
                (0..<count).map { _ in .register(bench.newInstance(in: "tides", app: "com.a")) })
        }
        // The second message discards both.
        for _ in 0..<2 {
            let outcome = try bench.apply(
                .send(
                    project: project,
                    message: SendCommand(target: .condition("!('x' in topics)"), body: [7])))
            guard case .accepted(let acceptance, _) = outcome else { throw Unexpected(outcome) }
            #expect(acceptance.recipientCount == UInt64(Self.mailboxesMax + 1))
        }
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 1
        let (now, all) = (bench.now, limits)
        let reports = try bench.store.read { (transaction) throws in
            try Reports.page(
                from: now.day, through: now.day, in: project, after: "", limit: 10, limits: all,
                now: now, transaction)
        }.entries
        #expect(reports.map { $0.counts[.discardedTooMany] } == [2 * UInt64(Self.mailboxesMax)])
        #expect(reports.map(\.counts.pending) == [2])
    }
}
