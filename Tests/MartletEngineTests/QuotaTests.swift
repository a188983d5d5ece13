// SPDX-License-Identifier: Apache-2.0
//
// The quota of a device (QUO-1) as senders meet it, and what leaving (REG-3) and a new token (REG-4)
// do with everything that is kept. Rests on SendBench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

@Suite("The quota of a device")
struct QuotaTests {
    private func bench() throws -> SendBench {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 3
        limits.deviceMessagesPerHour = 5
        return try SendBench(limits)
    }

    @Test(
        "QUO-1: a device's fourth message in a minute is QUOTA_EXCEEDED with the exact delay; in a fanout the device is skipped and counted"
    )
    func quota() throws {
        let bench = try bench()
        let (busy, idle) = (try bench.register(), try bench.register())
        try bench.subscribe([busy, idle], to: "t")
        let direct = SendCommand(target: .token(busy.token.text), body: [1])
        // MSG-7: a check takes nothing, and is told what the message would be told.
        var checked = direct
        checked.validateOnly = true
        for _ in 0..<3 {
            #expect(try bench.accepted(checked).acceptance.recipientCount == 1)
            #expect(try bench.accepted(direct).acceptance.recipientCount == 1)
        }
        for _ in 0..<2 {
            let refusal = try bench.refused(checked)
            #expect(refusal.word == .quotaExceeded)
            #expect(refusal.retryDelayMilliseconds == 20_000)
        }
        let refusal = try bench.refused(direct)
        #expect(refusal.word == .quotaExceeded)
        #expect(refusal.retryDelayMilliseconds == 20_000)
        let (many, fanouts) = try bench.accepted(SendCommand(target: .topic("t"), body: [2]))
        #expect(many.recipientCount == 1)
        #expect(many.rateLimitedCount == 1)
        #expect(fanouts.map(\.recipients.ordinals) == [[idle.ordinal.rawValue]])
        #expect(try bench.mailbox(busy).bodies.count == 3)
        bench.wait(seconds: 19.999)
        #expect(try bench.refused(direct).retryDelayMilliseconds == 1)
        #expect(try bench.refused(checked).retryDelayMilliseconds == 1)
        // TTL-2: what is now or never is not throttled, and takes nothing of what is.
        let passing = SendCommand(
            target: .token(busy.token.text), body: [3], lifespan: .seconds(0))
        #expect(try bench.accepted(passing).acceptance.recipientCount == 1)
        bench.wait(seconds: 0.001)
        #expect(try bench.accepted(passing).acceptance.recipientCount == 1)
        #expect(try bench.accepted(checked).acceptance.recipientCount == 1)
        #expect(try bench.accepted(direct).acceptance.recipientCount == 1)
        #expect(try bench.refused(direct).word == .quotaExceeded)
        // All devices over: accepted, for nobody.
        bench.wait(seconds: 60)
        for _ in 0..<3 { _ = try bench.accepted(SendCommand(target: .topic("t"), body: [4])) }
        let (nobody, none) = try bench.accepted(SendCommand(target: .topic("t"), body: [5]))
        #expect(nobody.recipientCount == 0)
        #expect(nobody.rateLimitedCount == 2)
        #expect(none.isEmpty)
        try bench.expectClean()
    }

    @Test(
        "QUO-1: a transaction that fails takes nothing, and a scheduled message skips a device that is over"
    )
    func failing() throws {
        let bench = try bench()
        let instance = try bench.register()
        let direct = SendCommand(target: .token(instance.token.text), body: [1])
        let send = Command.send(project: bench.tides, message: direct)
        for _ in 0..<4 { try bench.applyInVain([send, send, send]) }
        var later = direct
        later.sendAt = bench.now.advanced(bySeconds: 1)
        _ = try bench.accepted(later)
        for _ in 0..<3 { _ = try bench.accepted(direct) }
        try bench.applyInVain([send, send])
        #expect(try bench.refused(direct).retryDelayMilliseconds == 20_000)
        bench.wait(seconds: 1)
        guard case .accepted(let acceptance, let none)? = try bench.advance().first else {
            throw Surprise("The scheduled message is lost.")
        }
        #expect(acceptance.rateLimitedCount == 1)
        #expect(none.isEmpty)
        try bench.expectClean()
    }

    @Test("QUO-1: who gets the number of an instance that left begins with full buckets")
    func renewed() throws {
        let bench = try bench()
        let before = try bench.register()
        for _ in 0..<3 {
            _ = try bench.accepted(SendCommand(target: .token(before.token.text), body: [1]))
        }
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: before.ordinal))
        let after = try bench.register()
        #expect(after.ordinal == before.ordinal)
        #expect(
            try bench.accepted(SendCommand(target: .token(after.token.text), body: [1])).acceptance
                .recipientCount == 1)
    }
}

@Suite("Leaving, and a new token, with everything in play")
struct TokenTests {
    private func sent(to token: Token, _ bench: SendBench) throws -> ErrorWord? {
        let message = SendCommand(target: .token(token.text), body: [9])
        let outcome = try bench.apply(.send(project: bench.tides, message: message))
        if case .refused(let error) = outcome { return error.word }
        return nil
    }

    @Test("REG-4: a new token keeps topics, sets, mailbox and quota; the old one is UNREGISTERED")
    func rotate() throws {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 4
        let bench = try SendBench(limits)
        let instance = try bench.register(on: .apple)
        try bench.subscribe([instance], to: "t")
        #expect(try sent(to: instance.token, bench) == nil)
        let token = bench.token()
        let rotate = Command.rotate(
            project: bench.tides, ordinal: instance.ordinal, holder: instance.holder, token: token)
        try bench.applyInVain([rotate])
        #expect(try sent(to: instance.token, bench) == nil)
        guard case .rotated(token) = try bench.apply(rotate) else { throw Surprise("no token") }
        #expect(try sent(to: instance.token, bench) == .unregistered)
        #expect(try sent(to: token, bench) == nil)
        let (many, _) = try bench.accepted(
            SendCommand(
                target: .condition("'t' in topics"),
                variants: [OutgoingVariant(platforms: [.init(.apple)], body: [8])]))
        #expect(many.recipientCount == 1)
        #expect(try bench.mailbox(instance).bodies == [[9], [9], [9], [8]])
        #expect(try sent(to: token, bench) == .quotaExceeded)
        try bench.restart()
        #expect(try sent(to: instance.token, bench) == .unregistered)
        #expect(try sent(to: token, bench) == nil)
        // Who holds a device key that is not this instance's changes nothing.
        let other = try bench.register()
        let foreign = try bench.apply(
            .rotate(
                project: bench.tides, ordinal: instance.ordinal, holder: other.holder,
                token: bench.token()))
        guard case .refused(let error) = foreign else { throw Surprise(foreign) }
        #expect(error.word == .unregistered)
        try bench.expectClean()
    }

    @Test(
        "REG-4: an instance's last four former tokens let it in with its key, and lead nowhere else; they go with it"
    )
    func former() throws {
        let bench = try SendBench(BrokerLimits())
        let instance = try bench.register()
        let digest = instance.keyDigest
        func enters(_ token: Token, _ digest: SecretDigest) throws -> Token? {
            try bench.store.read { (transaction) throws in
                try? Authentication.device(
                    projectID: "tides", token: token.text, digest: digest, in: transaction
                ).instance.token
            }
        }
        var tokens = [instance.token]
        for _ in 0..<6 {
            tokens.append(bench.token())
            _ = try bench.apply(
                .rotate(
                    project: bench.tides, ordinal: instance.ordinal, holder: instance.holder,
                    token: tokens[tokens.count - 1]))
            let known = tokens.suffix(1 + Limits.formerTokensMax)
            for token in tokens {
                #expect(try enters(token, digest) == (known.contains(token) ? tokens.last : nil))
                #expect(
                    try enters(token, SecretDigest(bytes: [UInt8](repeating: 3, count: 32))) == nil)
                #expect(
                    try sent(to: token, bench) == (token == tokens.last ? nil : .unregistered))
            }
            try bench.expectClean()
        }
        try bench.restart()
        #expect(try enters(tokens[3], digest) == tokens[6])
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: instance.ordinal))
        for token in tokens { #expect(try enters(token, digest) == nil) }
        try bench.expectClean()
    }

    @Test("REG-6: another project's token is SENDER_ID_MISMATCH, for a scheduled message too")
    func mismatch() throws {
        let bench = try SendBench()
        _ = try bench.apply(.createProject(id: "other", senderID: 1, conditionTopicsMax: 0))
        let stranger = try bench.register(in: "other")
        #expect(try sent(to: stranger.token, bench) == .senderIDMismatch)
        var later = SendCommand(target: .token(stranger.token.text), body: [1])
        later.sendAt = bench.now.advanced(bySeconds: 10)
        #expect(try bench.refused(later).word == .senderIDMismatch)
        later.validateOnly = true
        #expect(try bench.refused(later).word == .senderIDMismatch)
    }

    @Test(
        "REG-3: who unregisters leaves topics and sets, nothing stored stays, and the next one with its number gets nothing of it"
    )
    func unregister() throws {
        let bench = try SendBench()
        let instance = try bench.register()
        let others = try (0..<70).map { _ in try bench.register() }
        try bench.subscribe([instance] + others, to: "t")
        try bench.subscribe([instance], to: "alone")
        var wanted = SendCommand(target: .token(instance.token.text), body: [1])
        wanted.options.wantsReceipts = true
        let (_, direct) = try bench.accepted(wanted)
        _ = try bench.accepted(SendCommand(target: .topic("t"), body: [2]))
        _ = try bench.apply(
            .receipt(
                project: bench.tides, ordinal: instance.ordinal, holder: instance.holder,
                kind: .received, streamID: direct[0].header.sequence.rawValue))
        wanted.sendAt = bench.now.advanced(bySeconds: 10)
        _ = try bench.accepted(wanted)
        bench.wait(seconds: 10)
        for outcome in try bench.advance() {
            guard case .accepted(let acceptance, _) = outcome else { throw Surprise(outcome) }
            #expect(acceptance.recipientCount == 1)
        }
        // Long enough away for the last message to be discarded for it.
        bench.wait(seconds: 2_592_001)
        _ = try bench.advance()
        _ = try bench.accepted(SendCommand(target: .topic("t"), body: [3]))
        #expect(try bench.mailbox(instance).discardedCount > 0)

        _ = try bench.apply(.unregister(project: bench.tides, ordinal: instance.ordinal))
        #expect(try sent(to: instance.token, bench) == .unregistered)
        let message = SendCommand(target: .topic("alone"), body: [1])
        #expect(try bench.accepted(message).acceptance.recipientCount == 0)
        let next = try bench.register()
        #expect(next.ordinal == instance.ordinal)
        let (bodies, discardedCount) = try bench.mailbox(next)
        #expect(bodies == [])
        #expect(discardedCount == 0)
        // Neither a subscriber nor inactive.
        #expect(try sent(to: next.token, bench) == nil)
        #expect(try bench.mailbox(next).bodies == [[9]])
        let (many, _) = try bench.accepted(SendCommand(target: .topic("t"), body: [4]))
        #expect(many.recipientCount == 70)
        // What was told before stays told.
        #expect(try bench.receipts().map(\.token) == [instance.token])
        try bench.expectClean()
    }
}
