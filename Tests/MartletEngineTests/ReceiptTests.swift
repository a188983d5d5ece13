// SPDX-License-Identifier: Apache-2.0
//
// Receipts (RCP-1, RCP-2). Rests on SendBench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Receipts")
struct ReceiptTests {
    private func tell(
        _ kind: ReceiptKind, _ streamID: UInt64, _ instance: Instance, _ bench: SendBench
    ) throws -> Outcome {
        try bench.apply(
            .receipt(
                project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                kind: kind, streamID: streamID))
    }

    private func isKept(_ outcome: Outcome) throws -> Bool {
        guard case .receiptKept(let project) = outcome else { throw Surprise(outcome) }
        return project != nil
    }

    private func wanted(_ target: SendCommand.Target, lifespan: Lifespan = .longest) -> SendCommand
    {
        var message = SendCommand(target: target, body: [1], lifespan: lifespan)
        message.options.wantsReceipts = true
        return message
    }

    @Test(
        "RCP-2: each kind is kept once per instance and message, in order, until a sender has taken it, also after a restart"
    )
    func receipts() throws {
        let bench = try SendBench()
        let instances = [try bench.register(), try bench.register()]
        try bench.subscribe(instances, to: "t")
        let (acceptance, fanouts) = try bench.accepted(wanted(.topic("t")))
        let header = try #require(fanouts.first).header
        #expect(header.options.wantsReceipts)
        let id = header.sequence.rawValue
        for (instance, kind, kept) in [
            (0, .received, true), (0, .received, false), (0, .opened, true), (1, .displayed, true),
            (0, .displayed, true), (0, .opened, false),
        ] as [(Int, ReceiptKind, Bool)] {
            #expect(try isKept(tell(kind, id, instances[instance], bench)) == kept)
        }
        try bench.restart()
        #expect(try !isKept(tell(.opened, id, instances[0], bench)))
        let all = try bench.receipts()
        #expect(all.map(\.event) == [1, 2, 3, 4])
        #expect(all.map(\.kind) == [.received, .opened, .displayed, .displayed])
        #expect(all.map(\.token) == [0, 0, 1, 0].map { instances[$0].token })
        #expect(all.allSatisfy { $0.messageNumber == acceptance.messageNumber })
        #expect(all.allSatisfy { $0.at == bench.now })
        _ = try bench.apply(.takeReceipts(project: bench.tides, through: 2))
        #expect(try bench.receipts().map(\.event) == [3, 4])
        #expect(try bench.receipts(after: 3).map(\.event) == [4])
        _ = try bench.apply(.takeReceipts(project: bench.tides, through: 4))
        #expect(try isKept(tell(.received, id, instances[1], bench)))
        #expect(try bench.receipts().map(\.event) == [5])
        try bench.expectClean()
    }

    @Test(
        "RCP-1: of a message whose sender did not ask, nothing is kept; after 28 days nothing is either"
    )
    func unwanted() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let target = SendCommand.Target.token(instance.token.text)
        let (_, plain) = try bench.accepted(SendCommand(target: target, body: [1]))
        #expect(try !isKept(tell(.received, plain[0].header.sequence.rawValue, instance, bench)))
        let (_, fanouts) = try bench.accepted(wanted(target))
        bench.wait(seconds: 2_419_199)
        _ = try bench.advance()
        #expect(try isKept(tell(.received, fanouts[0].header.sequence.rawValue, instance, bench)))
        bench.wait(seconds: 1)
        _ = try bench.advance()
        #expect(try !isKept(tell(.opened, fanouts[0].header.sequence.rawValue, instance, bench)))
        try bench.expectClean()
    }

    @Test(
        "RCP-1: a message that is now or never, and one that was scheduled, have receipts under their numbers"
    )
    func numbers() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let target = SendCommand.Target.token(instance.token.text)
        let (now, passing) = try bench.accepted(wanted(target, lifespan: .seconds(0)))
        var message = wanted(target)
        message.sendAt = bench.now.advanced(bySeconds: 5)
        let (later, _) = try bench.accepted(message)
        bench.wait(seconds: 5)
        let due = try bench.advance()
        guard case .accepted(_, let fanouts)? = due.first else { throw Surprise(due) }
        for fanout in passing + fanouts {
            #expect(fanout.header.options.wantsReceipts)
            #expect(try isKept(tell(.received, fanout.header.sequence.rawValue, instance, bench)))
        }
        #expect(
            try bench.receipts().map(\.messageNumber) == [now.messageNumber, later.messageNumber])
    }

    @Test(
        "RCP-1 RCP-2: of a message for few nobody else is ever believed, nor the ordinal's next holder"
    )
    func foreigners() throws {
        let bench = try SendBench()
        let instances = [try bench.register(), try bench.register(), try bench.register()]
        try bench.subscribe(Array(instances.prefix(2)), to: "t")
        let one = SendCommand.Target.token(instances[0].token.text)
        for message in [
            wanted(one), wanted(one, lifespan: .seconds(0)), wanted(.topic("t")),
            wanted(.topic("t"), lifespan: .seconds(0)),
        ] {
            let (_, fanouts) = try bench.accepted(message)
            let id = fanouts[0].header.sequence.rawValue
            func expectRefusals(_ location: SourceLocation = #_sourceLocation) throws {
                guard case .refused(let error) = try tell(.opened, id, instances[2], bench) else {
                    Issue.record("A foreigner is believed.", sourceLocation: location)
                    return
                }
                #expect(error.word == .notFound, sourceLocation: location)
            }
            try expectRefusals()
            // Nothing of the message itself is left.
            try bench.visit(instances[0])
            try bench.visit(instances[1])
            try expectRefusals()
            #expect(try isKept(tell(.opened, id, instances[0], bench)))
        }
        let (_, fanouts) = try bench.accepted(wanted(one))
        let id = fanouts[0].header.sequence.rawValue
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: instances[0].ordinal))
        let heir = try bench.register()
        #expect(heir.ordinal == instances[0].ordinal)
        guard case .refused = try tell(.opened, id, heir, bench) else {
            throw Surprise("An heir is believed.")
        }
        #expect(try bench.receipts().count == 4)
        try bench.expectClean()
    }

    @Test("RCP-2: what never existed is NOT_FOUND")
    func neverThere() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let target = SendCommand.Target.token(instance.token.text)
        let (_, stored) = try bench.accepted(wanted(target))
        let (_, passing) = try bench.accepted(wanted(target, lifespan: .seconds(0)))
        let last = stored[0].header.sequence.rawValue
        let live = passing[0].header.sequence.rawValue
        // 21 bits of a number that is not stored are a counter, those above it milliseconds.
        for streamID in [0, last + 1, 99, 1 << 62, live + 1 << 21, .max] as [UInt64] {
            for kind in [ReceiptKind.received, .displayed, .opened] {
                guard case .refused(let error) = try tell(kind, streamID, instance, bench) else {
                    Issue.record("\(streamID) is believed.")
                    continue
                }
                #expect(error.word == .notFound)
            }
        }
        #expect(try isKept(tell(.received, last, instance, bench)))
        #expect(try isKept(tell(.received, live, instance, bench)))
        try bench.expectClean()
    }

    @Test("RCP-1: recipients of several variants are all believed")
    func variants() throws {
        let bench = try SendBench()
        let instances = [
            try bench.register(), try bench.register(on: .apple), try bench.register(on: .web),
        ]
        try bench.subscribe(instances, to: "t")
        var message = SendCommand(
            target: .topic("t"),
            variants: [Platform.android, .apple].map { platform in
                OutgoingVariant(
                    platforms: PlatformSet(platform), lifespan: .longest, priority: .normal,
                    collapse: .none, body: [1])
            })
        message.options.wantsReceipts = true
        let (_, fanouts) = try bench.accepted(message)
        let id = fanouts[0].header.sequence.rawValue
        #expect(try isKept(tell(.received, id, instances[0], bench)))
        #expect(try isKept(tell(.received, id, instances[1], bench)))
        guard case .refused = try tell(.received, id, instances[2], bench) else {
            throw Surprise("A foreigner is believed.")
        }
    }

    @Test(
        "RCP-2: of an expired message for many everyone is believed, whether its rows are left or not",
        arguments: [true, false])
    func expired(hasRows: Bool) throws {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 1
        let bench = try SendBench(limits)
        let members = try (0..<100).map { _ in try bench.register() }
        let stranger = try bench.register()
        try bench.subscribe(members, to: "t")
        // Beside another message the rows of an expired one may still matter for a mailbox.
        if hasRows { _ = try bench.accepted(SendCommand(target: .topic("t"), body: [1])) }
        let (_, fanouts) = try bench.accepted(wanted(.topic("t"), lifespan: .seconds(10)))
        bench.wait(seconds: 11)
        _ = try bench.advance()
        #expect(try bench.store.check().counts.messages == (hasRows ? 2 : 0))
        let id = fanouts[0].header.sequence.rawValue
        for instance in [stranger, members[0]] {
            #expect(try isKept(tell(.opened, id, instance, bench)))
        }
        try bench.expectClean()
    }

    @Test("RCP-2: whoever is no recipient is refused while that is known, and so is whoever left")
    func strangers() throws {
        let bench = try SendBench()
        let members = try (0..<100).map { _ in try bench.register() }
        let stranger = try bench.register()
        try bench.subscribe(members, to: "t")
        let (_, fanouts) = try bench.accepted(wanted(.topic("t")))
        let id = fanouts[0].header.sequence.rawValue
        guard case .refused(let error) = try tell(.opened, id, stranger, bench) else {
            throw Surprise("A stranger is believed.")
        }
        #expect(error.word == .notFound)
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: members[0].ordinal))
        let next = try bench.register()
        #expect(next.ordinal == members[0].ordinal)
        guard case .refused(let gone) = try tell(.opened, id, members[0], bench) else {
            throw Surprise("Who left is believed.")
        }
        #expect(gone.word == .unregistered)
        #expect(try bench.receipts().isEmpty)
    }
}
