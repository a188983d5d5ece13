// SPDX-License-Identifier: Apache-2.0
//
// How far a day's report looks into mailboxes. Rests on Bench.

import MartletBase
import MartletEngine
import MartletStore
import Testing

@Suite("Reports without a row")
struct UnwrittenReportTests {
    let bench: Bench
    let instances: [Instance]
    var project: ProjectNumber { instances[0].project }

    init() throws {
        bench = try Bench()
        try bench.project("tides")
        instances = try bench.register(3, in: "tides")
    }

    private func send(timeToLive: UInt32) throws -> MessageSequence {
        let target = SendCommand.Target.token(instances[0].token.text)
        let (acceptance, _) = try bench.accepted(target, in: project, timeToLive: timeToLive)
        return MessageSequence(acceptance.messageNumber)
    }

    private func counts(of sequence: MessageSequence) throws -> ReportCounts? {
        let (project, limits, now) = (project, bench.limits, bench.now)
        return try bench.store.read { (transaction) throws in
            try transaction.report(of: sequence, in: project, limits: limits, now: now)
        }?.counts
    }

    private func rowCount() throws -> Int { try bench.rowCounts(["reports"])[0] }

    @Test(
        "REP-1: a message for one instance has a report before anything is counted, and after it has left"
    )
    func fates() throws {
        let sequences = try [1000, 1000, 10, 1000].map { try send(timeToLive: $0) }
        for sequence in sequences {
            let counts = try counts(of: sequence)
            #expect(counts?[.targeted] == 1 && counts?.pending == 1)
        }
        #expect(try rowCount() == 0)
        // Sent and acknowledged apart, acknowledged at once, expired, unregistered.
        let sent = SentCount(
            project: project, sequence: sequences[0], app: instances[0].app, count: 1)
        let now = bench.now
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.countSent([sent], now: now)
        }
        #expect(try rowCount() == 1)
        #expect(try counts(of: sequences[0])?[.sent] == 1)
        try bench.acknowledge(instances[0], sequences[1].rawValue)
        #expect(try rowCount() == 2)
        for sequence in sequences.prefix(2) {
            let counts = try counts(of: sequence)
            #expect(counts?[.acknowledged] == 1 && counts?.pending == 0)
        }
        try bench.expectClean()
        bench.now = bench.now.advanced(bySeconds: 11)
        try bench.sweep()
        #expect(try counts(of: sequences[2])?[.expired] == 1)
        _ = try bench.apply(.unregister(project: project, ordinal: instances[0].ordinal))
        #expect(try counts(of: sequences[3])?[.unregistered] == 1)
        #expect(try rowCount() == 4)
        try bench.expectClean()
    }

    @Test("REP-1: a message that is stored for nobody has a row of its own")
    func notStored() throws {
        let (acceptance, _) = try bench.accepted(.topic("nobody"), in: project)
        #expect(try rowCount() == 1)
        #expect(try counts(of: MessageSequence(acceptance.messageNumber))?[.targeted] == 0)
        try bench.expectClean()
    }
}

@Suite("Reports of a day")
struct DayReportTests {
    private static let mailboxesMax = 100_000

    @Test("REP-1: who asks has 100,000 mailboxes looked into; what is in the others is pending")
    func bounded() throws {
        let bench = try Bench(mapBytes: 1 << 28)
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
        var limits = MailboxLimits.none
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
