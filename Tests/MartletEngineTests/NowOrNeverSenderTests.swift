// SPDX-License-Identifier: Apache-2.0
//
// Now-or-never messages are sent from a snapshot, beside the one thread that writes (TTL-2). What their sender remembers
// between two messages must never be older than its snapshot: here it works on a store that changes under it, beside a model
// of sets of names. Rests on Bench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Messages that are not stored")
struct NowOrNeverSenderTests {
    private static func sending(_ limits: BrokerLimits = .none) -> NowOrNeverSending {
        NowOrNeverSending(
            programs: SharedPrograms(), limits: LimitsInForce(limits),
            book: FanoutBook(limits: limits),
            numbers: NowOrNeverNumbers())
    }

    private static func message(_ target: SendCommand.Target) -> SendCommand {
        SendCommand(target: target, body: [7], lifespan: .seconds(0))
    }

    private static func send(
        _ message: SendCommand, in project: ProjectNumber, _ sender: inout NowOrNeverSender,
        _ bench: Bench, inProgressCount: Int = 0
    ) throws -> Outcome {
        let now = bench.now
        return try bench.store.read { (transaction) throws in
            try sender.send(
                message, in: project, inProgressCount: inProgressCount, now: now, transaction)
        }
    }

    @Test(
        "TTL-2 CON-5 CON-11: recipients are those of the last commit, whatever was remembered",
        arguments: 0..<rounds(24))
    func snapshots(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = Bench()
        var projects: [String: ProjectNumber] = [:]
        for name in ["tides", "winds"] { projects[name] = try bench.project(name) }
        var sender = NowOrNeverSender(Self.sending())
        var instances: [Instance] = []
        var subscribers: [String: Set<Token>] = [:]
        for _ in 0..<120 {
            let name = random.chance(70) ? "tides" : "winds"
            let project = projects[name]!
            let own = instances.filter { $0.project == project }
            let topic = random.chance(60) ? "storm" : "calm"
            let key = name + topic
            switch random.number(0...9) {
            case 0, 1: instances += try bench.register(random.number(1...40), in: name)
            case 2, 3:
                let some = own.filter { _ in random.chance(40) }
                guard !some.isEmpty else { continue }
                try bench.change(.subscribe, topic, some, in: project)
                subscribers[key, default: []].formUnion(some.map(\.token))
            case 4:
                let some = own.filter { _ in random.chance(30) }
                guard !some.isEmpty else { continue }
                try bench.change(.unsubscribe, topic, some, in: project)
                subscribers[key, default: []].subtract(some.map(\.token))
            case 5:
                guard let gone = own.randomElement(using: &random) else { continue }
                _ = try bench.apply(.unregister(project: project, ordinal: gone.ordinal))
                instances.removeAll { $0.token == gone.token }
                for place in ["storm", "calm"] { subscribers[name + place]?.remove(gone.token) }
            case 6:
                // What is stored changes no set, and what fails changes nothing.
                _ = try bench.accepted(.topic(topic), in: project)
                try bench.applyInVain([.register(bench.newInstance(in: name))])
            default:
                let outcome = try Self.send(
                    Self.message(.topic(topic)), in: project, &sender, bench)
                guard case .accepted(let acceptance, let fanouts) = outcome else {
                    throw Unexpected(outcome)
                }
                let wanted = subscribers[key] ?? []
                #expect(acceptance.recipientCount == UInt64(wanted.count))
                let ordinals = own.filter { wanted.contains($0.token) }.map(\.ordinal)
                #expect(
                    fanouts.flatMap(\.recipients.single).count == ordinals.count
                        && ordinals.allSatisfy { ordinal in
                            fanouts.contains { $0.recipients.contains(ordinal) }
                        })
                #expect(fanouts.allSatisfy { !$0.header.sequence.isStored })
            }
        }
    }

    @Test("TTL-2 REP-1: nothing is stored; what is counted is written with a later transaction")
    func counts() throws {
        let bench = Bench()
        try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        let project = instances[0].project
        try bench.change(.subscribe, "storm", instances, in: project)
        let sending = Self.sending()
        var sender = NowOrNeverSender(sending)
        let before = try bench.store.read { (transaction) throws in transaction.snapshot }
        for target in [.topic("storm"), .token(instances[0].token.text), .topic("nobody")]
            as [SendCommand.Target]
        {
            guard case .accepted = try Self.send(Self.message(target), in: project, &sender, bench)
            else { throw Unexpected(.done) }
        }
        #expect(try bench.store.read { (transaction) throws in transaction.snapshot } == before)
        let counts = sending.counts.take()
        try #require(counts.map { $0.counts[.targeted] } == [4])
        #expect(counts.map { $0.counts[.nowOrNever] } == [4])
        #expect(sending.counts.isEmpty)
        // A transaction that failed gives them back.
        sending.counts.giveBack(counts)
        #expect(sending.counts.take() == counts)
        _ = try bench.apply(.count(counts))
        let day = counts[0].day
        let reports = try bench.store.read { (transaction) throws in
            try transaction.reporting.reportDays(day...day, in: project)
        }
        #expect(reports.map { $0.counts[.targeted] } == [4])
        try bench.expectClean()
    }

    @Test("TTL-2 FAN-1: as many as there are places may be in progress on a loop")
    func room() throws {
        var limits = BrokerLimits.none
        limits.fanoutsInProgressMax = 3
        let bench = Bench()
        try bench.project("tides")
        let instances = try bench.register(2, in: "tides")
        let project = instances[0].project
        try bench.change(.subscribe, "storm", instances, in: project)
        var sender = NowOrNeverSender(Self.sending(limits))
        let fanout = Self.message(.topic("storm"))
        guard
            case .accepted = try Self.send(fanout, in: project, &sender, bench, inProgressCount: 2)
        else { throw Unexpected(.done) }
        let refused = try Self.send(fanout, in: project, &sender, bench, inProgressCount: 3)
        #expect(refusal(refused) == .resourceExhausted)
        // A message to one instance waits for nothing.
        let direct = Self.message(.token(instances[0].token.text))
        guard
            case .accepted = try Self.send(direct, in: project, &sender, bench, inProgressCount: 3)
        else { throw Unexpected(.done) }
    }

    @Test("TTL-2: what leaves something behind for later goes the way of stored messages")
    func others() {
        let now = Instant(millisecondsSince1970: 1000)
        let plain = Self.message(.topic("storm"))
        #expect(NowOrNeverSender.takes(plain, at: now))
        var kept = plain
        kept.idempotencyKey = "k"
        var receipts = plain
        receipts.options.wantsReceipts = true
        var later = plain
        later.sendAt = now
        var checked = plain
        checked.validateOnly = true
        var rest = plain
        rest.notReceived = 4
        var mixed = plain
        mixed.variants.append(
            OutgoingVariant(platforms: PlatformSet(.web), lifespan: .seconds(1), body: [8]))
        // A loop's devices would wait for so many look-ups.
        let targets = (0...NowOrNeverSending.targetsMax).map { SendCommand.Target.topic("t\($0)") }
        let many = Self.message(.several(targets))
        #expect(NowOrNeverSender.takes(Self.message(.several(Array(targets.dropLast()))), at: now))
        for other in [kept, receipts, later, checked, rest, mixed, many] {
            #expect(!NowOrNeverSender.takes(other, at: now))
        }
        var past = plain
        past.variants[0].lifespan = .until(now)
        #expect(NowOrNeverSender.takes(past, at: now))
        past.variants[0].lifespan = .until(now.advanced(bySeconds: 1))
        #expect(!NowOrNeverSender.takes(past, at: now))
    }
}

extension Recipients {
    fileprivate func contains(_ ordinal: Ordinal) -> Bool {
        switch self {
        case .one(let one): one == ordinal
        case .many(let set): set.view.contains(ordinal)
        }
    }

    fileprivate var single: [Ordinal] {
        switch self {
        case .one(let one): return [one]
        case .many(let set):
            var ordinals: [Ordinal] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
            }
            return ordinals
        }
    }
}
