// SPDX-License-Identifier: Apache-2.0
//
// Messages for later and cancelling (MSG-10), sends that are repeated (MSG-9).
// Rests on SendBench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Scheduled, cancelled and repeated messages")
struct SchedulingTests {
    private func scheduled(
        _ target: SendCommand.Target, in seconds: Int64, _ bench: SendBench,
        lifespan: Lifespan = .longest
    ) -> SendCommand {
        var message = SendCommand(target: target, body: [7], lifespan: lifespan)
        message.sendAt = bench.now.advanced(bySeconds: seconds)
        message.variants[0].priority = .high
        message.variants[0].collapse = .named("k")
        return message
    }

    private func fanouts(_ outcomes: [Outcome]) -> [Fanout] {
        outcomes.flatMap { outcome -> [Fanout] in
            if case .accepted(_, let fanouts) = outcome { fanouts } else { [] }
        }
    }

    @Test(
        "MSG-10: a scheduled message goes to who is there when it is due, also after a restart, once"
    )
    func due() throws {
        let bench = try SendBench()
        let (first, second) = (try bench.register(), try bench.register())
        try bench.subscribe([first], to: "t")
        let (later, none) = try bench.accepted(scheduled(.topic("t"), in: 100, bench))
        #expect(later.recipientCount == 0)
        #expect(none.isEmpty)
        let (now, _) = try bench.accepted(SendCommand(target: .topic("t"), body: [1]))
        #expect(now.messageNumber == later.messageNumber + 1)
        try bench.restart()
        bench.wait(seconds: 99.999)
        #expect(try bench.advance().isEmpty)
        try bench.subscribe([second], to: "t")
        bench.wait(seconds: 0.001)
        let sent = fanouts(try bench.advance())
        try #require(sent.count == 1)
        #expect(sent[0].header.number == later.messageNumber)
        #expect(sent[0].header.sequence.rawValue > now.messageNumber)
        #expect(sent[0].header.priority == .high)
        #expect(sent[0].header.isCollapsible)
        #expect(sent[0].recipients.ordinals == [0, 1])
        #expect(try bench.advance().isEmpty)
        #expect(try bench.mailbox(first).bodies == [[1], [7]])
        #expect(try bench.mailbox(second).bodies == [[7]])
        try bench.expectClean()
    }

    @Test(
        "MSG-10: a scheduled message's life counts from when it is due; one that was to be over by then is not sent"
    )
    func life() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let target = SendCommand.Target.token(instance.token.text)
        let start = bench.now
        _ = try bench.accepted(scheduled(target, in: 10, bench, lifespan: .seconds(5)))
        _ = try bench.accepted(scheduled(target, in: 10, bench, lifespan: .seconds(60)))
        _ = try bench.accepted(scheduled(target, in: 10, bench, lifespan: .seconds(0)))
        // The broker is away for a while.
        bench.wait(seconds: 20)
        let sent = fanouts(try bench.advance())
        try #require(sent.map(\.header.sequence.isStored) == [true, false])
        #expect(sent[0].header.expires == start.advanced(bySeconds: 70))
        #expect(try bench.mailbox(instance).bodies == [[7]])
    }

    @Test(
        "REP-3: a scheduled message whose only token is gone when it is due has a report of nobody")
    func nobodyLeft() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let (accepted, _) = try bench.accepted(
            scheduled(.token(instance.token.text), in: 10, bench))
        _ = try bench.apply(
            .unregisterToken(project: bench.tides, token: instance.token.text))
        bench.wait(seconds: 20)
        #expect(fanouts(try bench.advance()).isEmpty)
        let (now, limits) = (bench.now, bench.limits)
        let counts = try bench.store.read { (transaction) throws in
            try Reports.message(
                accepted.messageNumber, in: bench.tides, limits: limits, now: now, transaction
            )?.counts
        }
        #expect(counts?[.targeted] == 0)
    }

    private func rotate(_ instance: Instance, _ bench: SendBench) throws -> Token {
        let outcome = try bench.apply(
            .rotate(
                project: bench.tides, ordinal: instance.ordinal, holder: instance.holder,
                token: bench.token()))
        guard case .rotated(let token) = outcome else { throw Surprise(outcome) }
        return token
    }

    @Test(
        "REG-4 MSG-10: a message to a token reaches its instance, however often the token is rotated before it is due"
    )
    func rotated() throws {
        let bench = try SendBench()
        let (device, other, leaver) = (
            try bench.register(), try bench.register(), try bench.register()
        )
        try bench.subscribe([other], to: "t")
        let target = SendCommand.Target.token(device.token.text)
        // Accepted before: it is in the mailbox, which follows.
        _ = try bench.accepted(
            SendCommand(target: target, body: [1], lifespan: .seconds(100)))
        _ = try bench.accepted(scheduled(target, in: 10, bench, lifespan: .seconds(60)))
        let several = SendCommand.Target.several([
            target, .token("nobody"), .topic("t"), .token(leaver.token.text),
        ])
        var toSeveral = scheduled(several, in: 20, bench)
        toSeveral.variants[0].body = [8]
        toSeveral.variants[0].collapse = .none
        _ = try bench.accepted(toSeveral)
        // More often than former tokens are known for.
        for _ in 0..<Limits.formerTokensMax + 2 { _ = try rotate(device, bench) }
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: leaver.ordinal))
        let next = try bench.register()
        #expect(next.ordinal == leaver.ordinal, "The next holder has the ordinal.")
        try bench.restart()
        bench.wait(seconds: 10)
        #expect(fanouts(try bench.advance()).count == 1)
        bench.wait(seconds: 10)
        let sent = fanouts(try bench.advance())
        #expect(
            sent.flatMap(\.recipients.ordinals) == [device.ordinal, other.ordinal].map(\.rawValue))
        #expect(try bench.mailbox(device).bodies == [[1], [7], [8]])
        #expect(try bench.mailbox(other).bodies == [[8]])
        #expect(try bench.mailbox(next).bodies.isEmpty)
        // Senders are told that the former token is none.
        #expect(try bench.refused(SendCommand(target: target, body: [2])).word == .unregistered)
        try bench.expectClean()
    }

    private func stored(_ number: UInt64, _ bench: SendBench) throws -> ScheduledMessage {
        let project = bench.tides
        let found = try bench.store.read { (transaction) throws in
            try transaction.scheduled.message(number, in: project)
        }
        return try #require(found)
    }

    @Test("MSG-10: a waiting message is stored in these bytes")
    func storedBytes() throws {
        func little(_ value: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: value.littleEndian) { Array($0) }
        }
        let bench = try SendBench()
        let device = try bench.register()
        try bench.subscribe([device], to: "t")
        let (earlier, _) = try bench.accepted(SendCommand(target: .topic("t"), body: [1]))
        let end = bench.now.advanced(bySeconds: 60)
        var message = SendCommand(
            target: .several([.topic("t"), .token(device.token.text), .token("x")]),
            variants: [
                OutgoingVariant(
                    platforms: PlatformSet(.android), lifespan: .seconds(60), priority: .high,
                    collapse: .named("k"), body: [7, 8]),
                OutgoingVariant(
                    platforms: PlatformSet(.apple), lifespan: .until(end), collapse: .app,
                    restrictedPackageName: "p", body: [9]),
                OutgoingVariant(
                    platforms: PlatformSet(.web), lifespan: .seconds(5),
                    collapse: .opaque(topic: "o"), body: [6]),
            ], options: MessageOptions(wantsReceipts: true), notReceived: earlier.messageNumber)
        message.sendAt = bench.now.advanced(bySeconds: 10)
        let waiting = try bench.accepted(message).acceptance.messageNumber
        let token = Array(device.token.text.utf8)
        var targets: [UInt8] = [2, 1, 0, 0, 0, 0x74, 1]
        targets += little(UInt32(token.count)) + token
        targets += [1, 1, 0, 0, 0, 0x78]
        var bytes: [UInt8] = [2, 5]
        bytes += little(UInt32(targets.count)) + targets
        bytes += [3] + little(earlier.messageNumber) + [3]
        bytes += [1, 2, 0, 60, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0x6B, 0, 0, 0, 0, 0]
        bytes += [2, 0, 0, 0, 7, 8]
        bytes += [2, 1, 1] + little(end.millisecondsSince1970)
        bytes += [1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0x70, 1, 0, 0, 0, 9]
        bytes += [4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0x6F, 0, 0, 0, 0, 0]
        bytes += [1, 0, 0, 0, 6]
        bytes += [2, 0, 0, 0, 1] + little(device.ordinal.rawValue) + little(device.holder.word)
        bytes += [0]
        #expect(try stored(waiting, bench).bytes == bytes)
    }

    @Test("MSG-10: a waiting message of an earlier program, without addressees, is sent")
    func withoutAddressees() throws {
        let bench = try SendBench()
        let device = try bench.register()
        let target = SendCommand.Target.token(device.token.text)
        let waiting = try bench.accepted(scheduled(target, in: 10, bench)).acceptance.messageNumber
        var former = try stored(waiting, bench)
        let addresseeBytes = 4 + 1 + 4 + 8
        former.bytes = [1] + former.bytes.dropFirst().dropLast(addresseeBytes)
        let (message, project) = (former, bench.tides)
        try bench.store.write { (transaction) throws(StorageError) in
            _ = try transaction.scheduled.remove(waiting, in: project)
            try transaction.scheduled.put(message)
        }
        bench.wait(seconds: 10)
        #expect(fanouts(try bench.advance()).count == 1)
        #expect(try bench.mailbox(device).bodies == [[7]])
        try bench.expectClean()
    }

    @Test("REG-4 FAN-1: a message that waits for room reaches whom its tokens named")
    func rotatedWhileDeferred() throws {
        var limits = BrokerLimits()
        limits.fanoutsInProgressMax = 1
        let bench = try SendBench(limits, countsFanouts: true)
        let devices = try (0..<100).map { _ in try bench.register() }
        try bench.subscribe(devices, to: "t")
        let (first, _) = try bench.accepted(SendCommand(target: .topic("t"), body: [1]))
        let target = SendCommand.Target.several(devices.map { .token($0.token.text) })
        let (waiting, _) = try bench.accepted(SendCommand(target: target, body: [2]))
        #expect(waiting.deferredPlace == 1)
        _ = try rotate(devices[3], bench)
        try bench.end(first.messageNumber)
        #expect(fanouts(try bench.advance()).count == 1)
        #expect(try bench.mailbox(devices[3]).bodies == [[1], [2]])
        try bench.expectClean()
    }

    @Test("MSG-10: what is wrong with a message is told when it is scheduled")
    func refusals() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let day: Int64 = 86_400
        #expect(
            try bench.refused(scheduled(.topic("no one"), in: 1, bench)).word == .invalidArgument)
        #expect(
            try bench.refused(scheduled(.condition("'a' in"), in: 1, bench)).word
                == .invalidArgument)
        let stranger = SendCommand.Target.token(bench.token().text)
        #expect(try bench.refused(scheduled(stranger, in: 1, bench)).word == .unregistered)
        let target = SendCommand.Target.token(instance.token.text)
        let tooFar = try bench.refused(scheduled(target, in: 28 * day + 1, bench))
        #expect(tooFar.word == .invalidArgument)
        #expect(tooFar.field == "send_at")
        let tooLong = scheduled(target, in: 1, bench, lifespan: .seconds(2_419_201))
        #expect(try bench.refused(tooLong).field == "time_to_live")
        var other = scheduled(target, in: 1, bench)
        other.variants[0].restrictedPackageName = "other"
        #expect(try bench.refused(other).field == "restricted_package_name")
        var tried = scheduled(target, in: 28 * day, bench)
        tried.validateOnly = true
        #expect(
            try bench.accepted(tried).acceptance == Acceptance(messageNumber: 0, recipientCount: 0))
        // An instant that is past means now.
        #expect(try bench.accepted(scheduled(target, in: -1, bench)).fanouts.count == 1)
        // Whoever left in the meantime gets nothing, and nobody is bothered.
        _ = try bench.accepted(scheduled(target, in: 1, bench))
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: instance.ordinal))
        bench.wait(seconds: 1)
        #expect(fanouts(try bench.advance()).isEmpty)
        #expect(try bench.advance().isEmpty)
        try bench.expectClean()
    }

    @Test(
        "MSG-10: more scheduled messages than one step takes are all sent, in the order of their instants"
    )
    func many() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        for index in 0..<150 as Range<Int64> {
            var message = SendCommand(
                target: .token(instance.token.text), body: [UInt8(150 - index)])
            message.sendAt = bench.now.advanced(bySeconds: 200 - index)
            _ = try bench.accepted(message)
        }
        bench.wait(seconds: 300)
        #expect(fanouts(try bench.advance()).map(\.body) == (1...150).map { [UInt8($0)] })
        try bench.expectClean()
    }

    private func cancel(_ number: UInt64, _ bench: SendBench) throws -> Outcome {
        try bench.apply(.cancel(project: bench.tides, number: number))
    }

    @Test(
        "MSG-10: who has not got a cancelled message does not get it, and it is known how many have"
    )
    func cancelling() throws {
        let bench = try SendBench()
        let few = try (0..<4).map { _ in try bench.register() }
        let rest = try (0..<96).map { _ in try bench.register() }
        try bench.subscribe(few, to: "few")
        try bench.subscribe(few + rest, to: "many")
        for (topic, takers) in [("few", few.prefix(3)), ("many", (few + rest).prefix(40))] {
            var message = SendCommand(target: .topic(topic), body: [1])
            if topic == "many" {
                message.sendAt = bench.now.advanced(bySeconds: 1)
            }
            let (acceptance, _) = try bench.accepted(message)
            bench.wait(seconds: 1)
            _ = try bench.advance()
            let sequence = try bench.store.read { (transaction) throws in
                try transaction.messages.sequence(
                    ofNumber: acceptance.messageNumber, in: bench.tides)
            }!
            #expect((sequence.rawValue == acceptance.messageNumber) == (topic == "few"))
            // Singly, with everything before it in all lanes or in its own, and others in theirs.
            var (ownLane, otherLane) = (LaneMarks(.none), LaneMarks(.none))
            ownLane[Lane(.normal, isCollapsible: false)] = sequence
            otherLane[Lane(.high, isCollapsible: false)] = sequence
            var acknowledgements: [(Instance, LaneMarks, [UInt64])] = [(rest[95], otherLane, [])]
            for (index, taker) in takers.enumerated() {
                switch index % 3 {
                case 0: acknowledgements.append((taker, LaneMarks(sequence), []))
                case 1: acknowledgements.append((taker, LaneMarks(.none), [sequence.rawValue]))
                default: acknowledgements.append((taker, ownLane, []))
                }
            }
            for (instance, through, single) in acknowledgements {
                _ = try bench.apply(
                    .acknowledge([
                        Acknowledgement(
                            project: bench.tides, ordinal: instance.ordinal, through: through,
                            single: single)
                    ]))
            }
            func delivered() throws -> UInt64 {
                try bench.store.read { (transaction) throws in
                    try Delivered.count(
                        of: acceptance.messageNumber, in: bench.tides, transaction)
                }
            }
            #expect(try delivered() == UInt64(takers.count))
            guard
                case .cancelled(_, let number, let stopped) = try cancel(
                    acceptance.messageNumber, bench)
            else { throw Surprise("no cancellation") }
            #expect(number == acceptance.messageNumber)
            #expect(stopped == sequence)
            #expect(try delivered() == UInt64(takers.count))
            #expect(try few.map { try bench.mailbox($0).bodies } == [[], [], [], []])
            #expect(try bench.mailbox(rest[95]).bodies == [])
            #expect(refusal(try cancel(acceptance.messageNumber, bench)) == .notFound)
        }
        try bench.expectClean()
    }

    @Test(
        "MSG-10 REP-1: a cancellation counts as expired whose time was over, be it by no millisecond"
    )
    func cancellingAtAnEnd() throws {
        let bench = try SendBench()
        let takers = [
            try bench.register(on: .web), try bench.register(), try bench.register(on: .apple),
        ]
        try bench.subscribe(takers, to: "gales")
        var message = SendCommand(target: .topic("gales"), body: [1])
        message.variants = [
            OutgoingVariant(platforms: PlatformSet(.web), lifespan: .seconds(1), body: [1]),
            OutgoingVariant(platforms: PlatformSet(.android), lifespan: .seconds(10), body: [2]),
            OutgoingVariant(platforms: PlatformSet(.apple), lifespan: .seconds(2), body: [3]),
        ]
        let (acceptance, _) = try bench.accepted(message)
        bench.wait(seconds: 1)
        guard case .cancelled = try cancel(acceptance.messageNumber, bench) else {
            throw Surprise("no cancellation")
        }
        _ = try bench.advance()
        let sequence = MessageSequence(acceptance.messageNumber)
        let (limits, now) = (bench.limits, bench.now)
        let counts = try bench.store.read { (transaction) throws in
            try transaction.reporting.report(
                of: sequence, in: bench.tides, limits: limits, now: now)
        }?.counts
        #expect(counts?[.expired] == 1)
        #expect(counts?[.cancelled] == 2)
        try bench.expectClean()
    }

    @Test(
        "MSG-10: a message that is still scheduled is cancelled before it reaches anybody; an unknown number is NOT_FOUND"
    )
    func cancelScheduled() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let (later, _) = try bench.accepted(
            scheduled(.token(instance.token.text), in: 10, bench))
        guard case .cancelled(_, later.messageNumber, nil) = try cancel(later.messageNumber, bench)
        else { throw Surprise("no cancellation") }
        bench.wait(seconds: 10)
        #expect(fanouts(try bench.advance()).isEmpty)
        for number in [0, later.messageNumber, 99, .max] as [UInt64] {
            #expect(refusal(try cancel(number, bench)) == .notFound)
        }
        try bench.expectClean()
    }

    @Test(
        "MSG-9: a repeated send has the first one's answer and does nothing, for 24 hours, also after a restart"
    )
    func repeated() throws {
        let bench = try SendBench()
        let instances = [try bench.register(), try bench.register()]
        try bench.subscribe(instances, to: "t")
        var message = SendCommand(target: .topic("t"), body: [1])
        message.idempotencyKey = String(repeating: "k", count: 128)
        let (first, fanouts) = try bench.accepted(message)
        #expect(fanouts.count == 1)
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: instances[1].ordinal))
        try bench.restart()
        bench.wait(seconds: 86_399)
        let (second, none) = try bench.accepted(message)
        #expect(second == first)
        #expect(none.isEmpty)
        #expect(try bench.mailbox(instances[0]).bodies == [[1]])
        var other = message
        other.variants[0].body = [2]
        #expect(try bench.refused(other).field == "idempotency_key")
        other = message
        other.target = .topic("u")
        #expect(try bench.refused(other).word == .invalidArgument)
        let changes: [(inout SendCommand) -> Void] = [
            { $0.variants[0].lifespan = .seconds(60) },
            { $0.variants[0].lifespan = .until(Instant(millisecondsSince1970: 60)) },
            { $0.variants[0].priority = .high }, { $0.variants[0].collapse = .app },
            { $0.variants[0].collapse = .named("k") },
            { $0.variants[0].restrictedPackageName = "com.example.tides" },
            { $0.options.wantsReceipts = true }, { $0.sendAt = Instant(millisecondsSince1970: 1) },
        ]
        for change in changes {
            other = message
            change(&other)
            #expect(try bench.refused(other).field == "idempotency_key")
            // MSG-7: a check says so too.
            other.validateOnly = true
            #expect(try bench.refused(other).field == "idempotency_key")
        }
        // A check of the same message is one.
        other = message
        other.validateOnly = true
        #expect(try bench.accepted(other).acceptance.messageNumber == 0)
        bench.wait(seconds: 1)
        _ = try bench.advance()
        let (third, _) = try bench.accepted(message)
        #expect(third.messageNumber > first.messageNumber)
        #expect(third.recipientCount == 1)
        try bench.expectClean()
    }

    @Test(
        "MSG-9: keys of projects are their own, a refused send leaves none, a checked one neither, and a scheduled one does"
    )
    func keys() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        _ = try bench.apply(.createProject(id: "other", senderID: 1, conditionTopicsMax: 0))
        let stranger = try bench.register(in: "other")
        func message(_ instance: Instance) -> SendCommand {
            var message = SendCommand(target: .token(instance.token.text), body: [1])
            message.idempotencyKey = "k"
            return message
        }
        var checked = message(instance)
        checked.validateOnly = true
        _ = try bench.accepted(checked)
        // Refused: another project's token.
        #expect(try bench.refused(message(stranger)).word == .senderIDMismatch)
        let (first, _) = try bench.accepted(message(instance))
        let foreign = try bench.apply(
            .send(project: stranger.project, message: message(stranger)))
        guard case .accepted(_, let fanouts) = foreign else { throw Surprise(foreign) }
        #expect(fanouts.count == 1)
        #expect(try bench.accepted(message(instance)).acceptance == first)

        var later = message(instance)
        later.idempotencyKey = "l"
        later.sendAt = bench.now.advanced(bySeconds: 10)
        let (scheduled, _) = try bench.accepted(later)
        #expect(try bench.accepted(later).acceptance == scheduled)
        bench.wait(seconds: 20)
        #expect(self.fanouts(try bench.advance()).count == 1)
        #expect(try bench.accepted(later).acceptance == scheduled)
        for key in ["", String(repeating: "k", count: 129), String(repeating: "ä", count: 65)] {
            var bad = message(instance)
            bad.idempotencyKey = key
            #expect(try bench.refused(bad).field == "idempotency_key")
        }
        try bench.expectClean()
    }

    private func refusal(_ outcome: Outcome) -> ErrorWord? {
        if case .refused(let error) = outcome { error.word } else { nil }
    }
}
