// SPDX-License-Identifier: Apache-2.0
//
// Messages to several targets and to groups, with everything that may keep an instance from getting them
// (GRP-5, MSG-1, QUO-1, FAN-1). Rests on SendBench.

import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("Messages to several targets")
struct MulticastTests {
    private func ordinals(_ fanouts: [Fanout]) -> [UInt32] {
        fanouts.flatMap(\.recipients.ordinals).sorted()
    }

    private func message(
        _ targets: [SendCommand.Target], body: [UInt8] = [1], validateOnly: Bool = false
    ) -> SendCommand {
        SendCommand(target: .several(targets), body: body, validateOnly: validateOnly)
    }

    private func group(
        _ bench: SendBench, _ members: [Instance], named name: String = "g", byte: UInt8 = 7
    ) throws -> SendCommand.Target {
        let key = GroupKey(bytes: [UInt8](repeating: byte, count: 24))
        let outcome = try bench.apply(
            .createGroup(
                project: bench.tides, name: name, key: key, tokens: members.map(\.token.text)))
        guard case .group = outcome else { throw Surprise(outcome) }
        return .group(key.text)
    }

    @Test(
        "MSG-1: tokens, topics, conditions and a group in one message: each instance gets it once")
    func union() throws {
        let bench = try SendBench(.none)
        let all = try (0..<8).map { _ in try bench.register() }
        try bench.subscribe([all[0], all[1]], to: "a")
        try bench.subscribe([all[1], all[2]], to: "b")
        try bench.subscribe([all[3]], to: "c")
        let group = try group(bench, [all[3], all[4]])
        let (acceptance, fanouts) = try bench.accepted(
            message([
                .token(all[0].token.text), .topic("a"),
                .condition("'b' in topics && 'a' in topics"),
                .topic("nobody"), group, .token(all[5].token.text), .topic("/topics/b"),
            ]))
        #expect(acceptance.recipientCount == 6)
        #expect(acceptance.named == .tokens(successCount: 2, failures: []))
        #expect(ordinals(fanouts) == all[...5].map(\.ordinal.rawValue))
        try #require(fanouts.count == 1 && fanouts[0].header.kind == .several)
        #expect(fanouts[0].header.from == "4711")
        for (index, instance) in all.enumerated() {
            #expect(try bench.mailbox(instance).bodies == (index < 6 ? [[1]] : []))
        }
        try bench.expectClean()
    }

    @Test("A token that is not good is told by its index, and the message is for the others")
    func failures() throws {
        let bench = try SendBench(.none)
        let good = try bench.register()
        let foreign: Instance = try {
            _ = try bench.apply(.createProject(id: "other", senderID: 1, conditionTopicsMax: 0))
            return try bench.register(in: "other")
        }()
        let apple = try bench.register(app: "com.other", on: .apple)
        var command = message([
            .token("x"), .token(good.token.text), .topic("nobody"), .token(bench.token().text),
            .token(foreign.token.text), .token(apple.token.text), .token(good.token.text),
        ])
        command.variants[0].restrictedPackageName = "com.example.tides"
        for isOnlyChecked in [true, false] {
            command.validateOnly = isOnlyChecked
            let (acceptance, fanouts) = try bench.accepted(command)
            #expect(acceptance.recipientCount == 1)
            #expect(
                acceptance.named
                    == .tokens(
                        successCount: 2,
                        failures: [
                            .init(index: 0, word: .invalidArgument),
                            .init(index: 3, word: .unregistered),
                            .init(index: 4, word: .senderIDMismatch),
                            .init(index: 5, word: .invalidArgument),
                        ]))
            #expect(ordinals(fanouts) == (isOnlyChecked ? [] : [good.ordinal.rawValue]))
        }
        // Nobody is left: accepted for nobody.
        let (nobody, none) = try bench.accepted(message([.token("x"), .token("y")]))
        #expect(nobody.recipientCount == 0 && nobody.messageNumber > 0 && none.isEmpty)
    }

    @Test("MSG-1: what is malformed besides tokens refuses the message and is named by its index")
    func malformed() throws {
        var limits = BrokerLimits.none
        limits.multicastTokensMax = 3
        let bench = try SendBench(limits)
        let token = SendCommand.Target.token(try bench.register().token.text)
        let cases: [([SendCommand.Target], String)] = [
            ([], "targets"), ([token, token, token, token], "targets"),
            ([token, .topic("a b")], "targets[1]"),
            ([.condition("'a' in")], "targets[0]"),
            ([token, token, .group("g")], "targets[2]"),
            ([.several([token])], "targets"),
            (Array(repeating: .topic("a"), count: 101), "targets"),
        ]
        for (targets, field) in cases {
            for later in [nil, bench.now.advanced(bySeconds: 60)] {
                var command = message(targets)
                command.sendAt = later
                let refused = try bench.refused(command)
                #expect(refused.word == .invalidArgument && refused.field == field)
            }
        }
        #expect(try bench.refused(message([.condition("'a' in")])).byteOffset != nil)
        #expect(
            try bench.accepted(message(Array(repeating: .topic("a"), count: 100))).acceptance
                .recipientCount == 0)
    }

    @Test("GRP-5 QUO-1: a member whose device had too much, or of another app, is a failure")
    func groupFailures() throws {
        var limits = BrokerLimits.none
        limits.deviceMessagesPerMinute = 2
        let bench = try SendBench(limits)
        let busy = try bench.register()
        let idle = try bench.register()
        let other = try bench.register(app: "com.other")
        let target = try group(bench, [busy, idle, other])
        for _ in 0..<2 {
            _ = try bench.accepted(SendCommand(target: .token(busy.token.text), body: [0]))
        }
        var command = SendCommand(target: target, body: [5])
        command.variants[0].restrictedPackageName = "com.example.tides"
        let (acceptance, fanouts) = try bench.accepted(command)
        #expect(acceptance.recipientCount == 1 && acceptance.rateLimitedCount == 1)
        #expect(
            acceptance.named
                == .group(
                    successCount: 1,
                    failures: [
                        .init(token: busy.token, word: .quotaExceeded),
                        .init(token: other.token, word: .invalidArgument),
                    ]))
        #expect(ordinals(fanouts) == [idle.ordinal.rawValue])
        #expect(try bench.mailbox(other).bodies.isEmpty)
        // All are over their limit: accepted for nobody.
        _ = try bench.accepted(SendCommand(target: .token(idle.token.text), body: [0]))
        let (last, none) = try bench.accepted(SendCommand(target: target, body: [6]))
        #expect(last.recipientCount == 1 && none.count == 1)
        let (rest, nothing) = try bench.accepted(
            message([.token(busy.token.text), .token(idle.token.text), .token(busy.token.text)]))
        #expect(rest.recipientCount == 0 && rest.rateLimitedCount == 2 && nothing.isEmpty)
        #expect(
            rest.named
                == .tokens(
                    successCount: 0,
                    failures: (0..<3).map { .init(index: $0, word: .quotaExceeded) })
        )
        try bench.expectClean()
    }

    @Test("MSG-9: a repeated message gets its first answer, its failures included")
    func repeated() throws {
        let bench = try SendBench(.none)
        let (one, two) = (try bench.register(), try bench.register())
        let target = try group(bench, [one, two])
        var several = message([.token(one.token.text), .token("x"), .token(bench.token().text)])
        several.idempotencyKey = "s"
        var few = SendCommand(target: target, body: [2])
        few.variants[0].restrictedPackageName = "com.other"
        few.idempotencyKey = "g"
        for command in [several, few] {
            let (first, _) = try bench.accepted(command)
            guard first.named != .none else { throw Surprise(first) }
            try bench.restart()
            let (again, fanouts) = try bench.accepted(command)
            #expect(again == first && fanouts.isEmpty)
            var other = command
            other.target = .several([.token(one.token.text), .token("x")])
            #expect(try bench.refused(other).field == "idempotency_key")
        }
        try bench.expectClean()
    }

    @Test("MSG-10: scheduled, members and union are those of the instant at which it is sent")
    func scheduled() throws {
        let bench = try SendBench(.none)
        let all = try (0..<4).map { _ in try bench.register() }
        let target = try group(bench, [all[0], all[1]])
        var few = SendCommand(target: target, body: [1])
        few.sendAt = bench.now.advanced(bySeconds: 60)
        #expect(
            try bench.accepted(few).acceptance.named == .group(successCount: 0, failures: []))
        var several = message([.token(all[0].token.text), .token("x"), .topic("t"), target])
        several.sendAt = few.sendAt
        #expect(
            try bench.accepted(several).acceptance.named
                == .tokens(successCount: 1, failures: [.init(index: 1, word: .invalidArgument)]))
        guard case .group(let key) = target else { return }
        for (operation, member) in [(GroupOperation.add, all[2]), (.remove, all[1])] {
            _ = try bench.apply(
                .changeGroup(
                    project: bench.tides, name: "g", key: key, change: operation,
                    tokens: [member.token.text]))
        }
        try bench.subscribe([all[3]], to: "t")
        try bench.restart()
        bench.wait(seconds: 60)
        let sent = try bench.advance()
        #expect(sent.count == 2)
        #expect(try bench.mailbox(all[0]).bodies.count == 2)
        #expect(try bench.mailbox(all[1]).bodies.isEmpty)
        #expect(try bench.mailbox(all[2]).bodies.count == 2)
        #expect(try bench.mailbox(all[3]).bodies.count == 1)
        try bench.expectClean()
    }

    @Test(
        "FAN-1 FAN-5: a message to one token never waits and is not counted; one to a group or to several targets is"
    )
    func admission() throws {
        var limits = BrokerLimits.none
        limits.fanoutsInProgressMax = 1
        let bench = try SendBench(limits, countsFanouts: true)
        let all = try (0..<21).map { _ in try bench.register() }
        try bench.subscribe(Array(all[..<3]), to: "t")
        let tokens = all.map { SendCommand.Target.token($0.token.text) }
        let members = try group(bench, Array(all[..<20]))
        let (first, _) = try bench.accepted(SendCommand(target: .topic("t"), body: [1]))
        for target in [tokens[0], .several([tokens[0]])] {
            let (acceptance, fanouts) = try bench.accepted(SendCommand(target: target, body: [2]))
            #expect(acceptance.deferredPlace == 0 && acceptance.recipientCount == 1)
            #expect(fanouts.count == 1 && fanouts.allSatisfy { $0.progress == nil })
        }
        let waiting: [[SendCommand.Target]] = [
            tokens + [.token("x")], [tokens[0], .topic("t")], [members, tokens[0]], [members],
            Array(tokens[..<2]),
        ]
        for (index, targets) in waiting.enumerated() {
            let (acceptance, fanouts) = try bench.accepted(message(targets, body: [3]))
            #expect(acceptance.deferredPlace == UInt64(index + 1) && fanouts.isEmpty)
            if index == 0 {
                #expect(
                    acceptance.named
                        == .tokens(
                            successCount: 21, failures: [.init(index: 21, word: .invalidArgument)]))
            }
        }
        let (grouped, _) = try bench.accepted(SendCommand(target: members, body: [4]))
        #expect(grouped.deferredPlace == 6, "GRP-5: who its members are is said all the same")
        #expect(grouped.named == .group(successCount: 20, failures: []))
        #expect(try bench.mailbox(all[20]).bodies.isEmpty)
        try bench.restart()
        _ = try bench.advance()
        #expect(first.recipientCount == 3)
        #expect(try bench.mailbox(all[20]).bodies == [[3]])
        try bench.expectClean()
    }

    @Test(
        "MSG-10 RCP-1: a message to a group is cancelled, and receipts of it are taken, as any other's"
    )
    func cancelled() throws {
        let bench = try SendBench(.none)
        let (one, two) = (try bench.register(), try bench.register())
        var command = SendCommand(target: try group(bench, [one, two]), body: [1])
        command.options.wantsReceipts = true
        let (acceptance, _) = try bench.accepted(command)
        let told = try bench.apply(
            .receipt(
                project: bench.tides, ordinal: one.ordinal, holder: one.holder, kind: .opened,
                streamID: acceptance.messageNumber))
        guard case .receiptKept(.some) = told else { throw Surprise(told) }
        #expect(try bench.receipts().map(\.token) == [one.token])
        let outcome = try bench.apply(
            .cancel(project: bench.tides, number: acceptance.messageNumber))
        guard case .cancelled(_, _, .some) = outcome else { throw Surprise(outcome) }
        for instance in [one, two] { #expect(try bench.mailbox(instance).bodies.isEmpty) }
        try bench.expectClean()
    }

    @Test("Ten thousand tokens in one message")
    func manyTokens() throws {
        let bench = try SendBench(BrokerLimits())
        let all = (0..<10_000).map { _ in bench.token() }
        let members = try (0..<50).map { _ in try bench.register() }
        var targets = all.map { SendCommand.Target.token($0.text) }
        for (index, member) in members.enumerated() {
            targets[index * 200] = .token(member.token.text)
        }
        let (acceptance, fanouts) = try bench.accepted(message(targets))
        guard case .tokens(50, let failures) = acceptance.named else { throw Surprise(acceptance) }
        #expect(failures.count == 9950 && failures.allSatisfy { $0.word == .unregistered })
        #expect(ordinals(fanouts) == members.map(\.ordinal.rawValue))
        #expect(try bench.refused(message(targets + [targets[0]])).field == "targets")
    }
}
