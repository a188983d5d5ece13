// SPDX-License-Identifier: Apache-2.0
//
// Reports that lie in the records of their messages, and how long reports are kept (REP-1), with a list of
// messages as the model. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Reports without a row")
struct UnwrittenReportTests {
    let bench: Bench
    let instances: [Instance]
    var project: ProjectNumber { instances[0].project }

    init() throws {
        bench = Bench()
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
            try transaction.reporting.report(of: sequence, in: project, limits: limits, now: now)
        }?.counts
    }

    private func rowCount() throws -> Int { try bench.rowCounts([.reports])[0] }

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
            try transaction.reports.countSent([sent], now: now)
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

    @Test(
        "REP-1: the latest reports are kept, and those of a time, with and without a row",
        arguments: 0..<rounds(40) as Range<UInt64>)
    func kept(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var limits = BrokerLimits.none
        limits.reportsPerProjectMax = random.number(0...9)
        limits.reportSeconds = random.number(30...200)
        let bench = Bench(limits: limits)
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "storm", instances, in: project)
        var all: [(sequence: UInt64, accepted: Instant)] = []
        var kept = all[...]
        for _ in 0..<60 {
            switch random.number(0...9) {
            case 0...4:
                let target: SendCommand.Target =
                    switch random.number(0...3) {
                    case 0: .topic("storm")
                    case 1: .topic("nobody")
                    default: .token(instances[random.number(0...2)].token.text)
                    }
                let (acceptance, _) = try bench.accepted(
                    target, in: project, timeToLive: UInt32(random.number(1...300)))
                all.append((acceptance.messageNumber, bench.now))
                kept.append((acceptance.messageNumber, bench.now))
                if limits.reportsPerProjectMax > 0 {
                    kept = kept.suffix(limits.reportsPerProjectMax)
                }
            case 5...6:
                guard let message = all.randomElement(using: &random) else { continue }
                try bench.acknowledge(instances[random.number(0...2)], 0, [message.sequence])
            case 7:
                guard let message = all.randomElement(using: &random) else { continue }
                let sent = SentCount(
                    project: project, sequence: MessageSequence(message.sequence),
                    app: instances[0].app, count: 1)
                let now = bench.now
                try bench.store.write { (transaction) throws(StorageError) in
                    try transaction.reports.countSent([sent], now: now)
                }
            default:
                // A clock may be set back.
                bench.now = bench.now.advanced(bySeconds: Int64(random.number(-20...90)))
                try bench.sweep()
                let last = bench.now.advanced(bySeconds: -Int64(limits.reportSeconds))
                while let oldest = kept.first, oldest.accepted <= last { kept.removeFirst() }
            }
            let now = bench.now
            let known = try bench.store.read { (transaction) throws in
                try all.filter {
                    try transaction.reporting.report(
                        of: MessageSequence($0.sequence), in: project, limits: limits, now: now)
                        != nil
                }
            }
            #expect(known.map(\.sequence) == kept.map(\.sequence))
            let counted = try bench.store.read { (transaction) throws in
                try transaction.projects.project(project)?.reportCount
            }
            #expect(counted == UInt64(kept.count))
            try bench.expectClean()
        }
    }
}
