// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices to their project (UPS-1, QUO-2): what is kept, who is handed what, and when
// it is over. Rests on UpstreamBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Messages of devices")
struct UpstreamTests {
    @Test(
        "UPS-1: what a device sends is handed to one sender, with its token, app and ID, and is gone once it was taken"
    )
    func one() throws {
        let bench = try SendBench()
        let device = try bench.register()
        let senders = [bench.listen(), bench.listen()]
        let acceptance = try bench.sent("a", from: device, seconds: 60, body: [4, 5])
        #expect(acceptance.number == 1 && acceptance.isForSenders && acceptance.passing == nil)
        let handed = try bench.handOut()
        let all = handed.values.flatMap { $0 }
        #expect(
            all == [
                UpstreamMessage(
                    number: 1, token: device.token, appName: "com.example.tides", messageID: "a",
                    accepted: bench.now, expires: bench.now.advanced(bySeconds: 60), body: [4, 5])
            ])
        #expect(senders.contains(try #require(handed.keys.first)))
        #expect(try bench.handOut().isEmpty)
        try bench.expectClean()
        try bench.take(1)
        #expect(try bench.kept().isEmpty)
        for sender in senders { bench.upstreamBook.leave(sender) }
        _ = bench.listen()
        #expect(try bench.handOut().isEmpty)
        try bench.expectClean()
    }

    @Test(
        "UPS-1: while nobody listens messages are kept, over a restart and without their device; all come to whoever listens, in order, with the last token that is known"
    )
    func kept() throws {
        let bench = try SendBench()
        let devices = try (0..<3).map { _ in try bench.register() }
        for (index, device) in devices.enumerated() { try bench.sent("\(index)", from: device) }
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: devices[0].ordinal))
        // Its ordinal is another's now, who has the same message ID.
        let next = try bench.register()
        #expect(next.ordinal == devices[0].ordinal)
        try bench.sent("0", from: next)
        let token = bench.token()
        _ = try bench.apply(
            .rotate(
                project: bench.tides, ordinal: devices[1].ordinal, holder: devices[1].holder,
                token: token))
        try bench.restart()
        try bench.expectClean()
        let sender = bench.listen()
        let messages = try #require(try bench.handOut()[sender])
        #expect(messages.map(\.number) == [1, 2, 3, 4])
        #expect(
            messages.map(\.token) == [devices[0].token, token, devices[2].token, next.token])
        try bench.take(2, 3)
        // Nobody remembers after a restart who had what.
        try bench.restart()
        let other = bench.listen()
        #expect(try bench.handOut()[other]?.map(\.number) == [1, 4])
    }

    @Test(
        "UPS-1: senders have their turns, a hundred messages each at a time; who leaves gives back, and what was taken makes room"
    )
    func turns() throws {
        let bench = try SendBench()
        let device = try bench.register()
        let senders = (0..<3).map { _ in bench.listen() }
        for index in 0..<9 { try bench.sent("\(index)", from: device) }
        let first = try bench.handOut()
        #expect(senders.map { first[$0]?.map(\.number) } == [[1, 4, 7], [2, 5, 8], [3, 6, 9]])
        for index in 9..<400 { try bench.sent("\(index)", from: device) }
        let second = try bench.handOut()
        #expect(senders.map { second[$0]?.count } == [97, 97, 97])
        // The last hundred wait.
        #expect(try bench.handOut().isEmpty)
        try bench.take(1, 4)
        #expect(try bench.handOut()[senders[0]]?.map(\.number) == [301, 302])
        bench.upstreamBook.leave(senders[1])
        #expect(try bench.handOut().isEmpty)
        let fourth = bench.listen()
        let given = try #require(try bench.handOut()[fourth])
        let back = (first[senders[1]] ?? []) + (second[senders[1]] ?? [])
        #expect(given.map(\.number) == back.map(\.number).sorted())
        try bench.expectClean()
    }

    @Test(
        "UPS-1: what a sender has had for 60 seconds goes to another, and never to the same one again; it may still take it"
    )
    func slow() throws {
        let bench = try SendBench()
        let device = try bench.register()
        let slow = bench.listen()
        for index in 0..<3 { try bench.sent("\(index)", from: device) }
        #expect(try bench.handOut()[slow]?.count == 3)
        bench.wait(seconds: 600)
        #expect(try bench.handOut().isEmpty)
        let quick = bench.listen()
        #expect(try bench.handOut()[quick]?.map(\.number) == [1, 2, 3])
        bench.wait(seconds: 59.999)
        #expect(try bench.handOut().isEmpty)
        #expect(bench.upstreamBook.held(by: slow) == [1, 2, 3])
        // Taken by the one that was too slow: it is taken.
        try bench.take(2)
        #expect(bench.upstreamBook.held(by: slow) == [1, 3])
        #expect(bench.upstreamBook.held(by: quick) == [1, 3])
        bench.wait(seconds: 1)
        let third = bench.listen()
        #expect(try bench.handOut()[third]?.map(\.number) == [1, 3])
        // It goes on filling the windows of those that had it.
        for index in 3..<300 { try bench.sent("\(index)", from: device) }
        let more = try bench.handOut()
        #expect([slow, quick, third].map { more[$0]?.count } == [98, 98, 98])
        bench.upstreamBook.leave(third)
        #expect(try bench.handOut().isEmpty)
        try bench.expectClean()
    }

    @Test("UPS-1: a retired sender gets no more, keeps what it was sent, and gives back the rest")
    func retired() throws {
        let bench = try SendBench()
        let device = try bench.register()
        let draining = bench.listen()
        for index in 0..<4 { try bench.sent("\(index)", from: device) }
        #expect(try bench.handOut()[draining]?.map(\.number) == [1, 2, 3, 4])
        bench.upstreamBook.retire(draining, keeping: [1, 2])
        #expect(bench.upstreamBook.held(by: draining) == [1, 2])
        #expect(try bench.handOut().isEmpty)
        try bench.sent("4", from: device)
        let next = bench.listen()
        #expect(try bench.handOut()[next]?.map(\.number) == [3, 4, 5])
        try bench.take(1)
        bench.upstreamBook.leave(draining)
        #expect(try bench.handOut()[next]?.map(\.number) == [2])
        try bench.expectClean()
    }

    @Test("UPS-1: a message expires with its time to live, whoever has it, and 0 is now or never")
    func expires() throws {
        let bench = try SendBench()
        let device = try bench.register()
        try bench.sent("short", from: device, seconds: 10)
        try bench.sent("longest", from: device)
        let sender = bench.listen()
        #expect(try bench.handOut()[sender]?.count == 2)
        bench.wait(seconds: 10)
        bench.upstreamBook.leave(sender)
        // Before anybody has swept it away.
        let other = bench.listen()
        #expect(try bench.handOut()[other]?.map(\.messageID) == ["longest"])
        _ = try bench.advance()
        #expect(try bench.kept() == [2])
        bench.wait(seconds: 2_419_189)
        _ = try bench.advance()
        #expect(try bench.kept() == [2])
        bench.wait(seconds: 1)
        _ = try bench.advance()
        #expect(try bench.kept().isEmpty)
        try bench.expectClean()

        let passing = try bench.sent("now", from: device, seconds: 0)
        #expect(passing.number == 3)
        let handed = try #require(try bench.handOut()[other])
        #expect(handed.map(\.messageID) == ["now"] && handed[0].accepted == handed[0].expires)
        // Kept nowhere: with its sender it is gone.
        bench.upstreamBook.leave(other)
        #expect(try bench.notSent("never", from: device, seconds: 0).word == .notFound)
        _ = bench.listen()
        #expect(try bench.handOut().isEmpty)
        try bench.expectClean()
    }

    @Test(
        "UPS-1: now or never is promised to as many messages of a transaction as senders have room for"
    )
    func promised() throws {
        let bench = try SendBench()
        let device = try bench.register()
        _ = bench.listen()
        let commands = (0..<101).map { bench.upstream("\($0)", from: device, seconds: 0) }
        try bench.applyInVain(commands)
        let outcomes = try bench.apply(commands)
        guard case .refused(let error) = outcomes[100] else { throw Surprise(outcomes[100]) }
        #expect(error.word == .notFound && error.field == "ttl")
        #expect(try bench.handOut().values.flatMap { $0 }.map(\.number) == Array(1...100))
    }

    @Test(
        "UPS-1: the same message ID from the same device is answered the same for 24 hours, or until it has sent a hundred others"
    )
    func repeated() throws {
        let bench = try SendBench()
        let (device, other) = (try bench.register(), try bench.register())
        #expect(try bench.sent("a", from: device).number == 1)
        let again = try bench.sent("a", from: device)
        #expect(again.number == 1 && !again.isForSenders)
        #expect(try bench.sent("a", from: other).number == 2)
        // Also of what was taken.
        try bench.take(1)
        try bench.restart()
        #expect(try !bench.sent("a", from: device).isForSenders)
        bench.wait(seconds: 86_399)
        _ = try bench.advance()
        #expect(try !bench.sent("a", from: device).isForSenders)
        bench.wait(seconds: 1)
        #expect(try bench.sent("a", from: device).number == 3)
        _ = try bench.advance()
        try bench.expectClean()
        for index in 0..<99 { try bench.sent("\(index)", from: device) }
        #expect(try !bench.sent("a", from: device).isForSenders)
        try bench.sent("99", from: device)
        #expect(try bench.sent("a", from: device).isForSenders)
        #expect(try bench.kept().count == 103)
        try bench.expectClean()
        // All is forgotten in time.
        bench.wait(seconds: 2_419_200)
        _ = try bench.advance()
        try bench.expectClean()
    }

    @Test("UPS-1 OPS-5: as many are kept as may be; the next is refused until one was taken")
    func full() throws {
        var limits = BrokerLimits()
        limits.upstreamKeptMax = 2
        let bench = try SendBench(limits)
        let device = try bench.register()
        try bench.sent("a", from: device)
        try bench.sent("b", from: device)
        let error = try bench.notSent("c", from: device)
        #expect(error.word == .resourceExhausted && error.retryDelayMilliseconds == 10_000)
        #expect(error.message.contains("upstream-kept-max"))
        #expect(try !bench.sent("a", from: device).isForSenders)
        try bench.take(1)
        #expect(try bench.sent("c", from: device).number == 3)
        try bench.expectClean()
    }

    @Test(
        "UPS-1: IDs and times to live out of bounds name their fields; so does a group that is not there (GRP-7)"
    )
    func refused() throws {
        let bench = try SendBench()
        let device = try bench.register()
        for id in ["", String(repeating: "x", count: 129)] {
            let error = try bench.notSent(id, from: device)
            #expect(error.word == .invalidArgument && error.field == "message_id")
        }
        let error = try bench.notSent("a", from: device, seconds: 2_419_201)
        #expect(error.word == .invalidArgument && error.field == "ttl")
        let outcome = try bench.apply(
            .upstream(
                UpstreamCommand(
                    project: device.project, ordinal: device.ordinal, holder: device.holder,
                    target: .group("key"), messageID: "a", timeToLiveSeconds: nil, body: [1])))
        guard case .refused(let unknown) = outcome else { throw Surprise(outcome) }
        #expect(unknown.word == .notFound && unknown.field == "group")
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: device.ordinal))
        #expect(try bench.notSent("a", from: device).word == .unregistered)
        #expect(try bench.kept().isEmpty)
    }

    @Test(
        "QUO-2: a device's fourth message in a minute, and the project's sixth, are refused with the exact delay; a transaction that fails takes nothing"
    )
    func quotas() throws {
        var limits = BrokerLimits()
        limits.deviceUpstreamPerMinute = 3
        limits.upstreamPerMinute = 5
        let bench = try SendBench(limits)
        let (busy, other) = (try bench.register(), try bench.register())
        try bench.applyInVain((0..<5).map { bench.upstream("v\($0)", from: busy) })
        for index in 0..<3 { try bench.sent("\(index)", from: busy) }
        let device = try bench.notSent("3", from: busy)
        #expect(device.word == .quotaExceeded && device.retryDelayMilliseconds == 20_000)
        // Neither a refusal nor a repetition takes anything.
        #expect(try !bench.sent("0", from: busy).isForSenders)
        for index in 0..<2 { try bench.sent("\(index)", from: other) }
        let project = try bench.notSent("2", from: other)
        #expect(project.word == .resourceExhausted && project.retryDelayMilliseconds == 12_000)
        #expect(project.message.contains("upstream-per-minute"))
        bench.wait(seconds: 11.999)
        #expect(try bench.notSent("2", from: other).retryDelayMilliseconds == 1)
        bench.wait(seconds: 0.001)
        #expect(try bench.notSent("3", from: busy).retryDelayMilliseconds == 8000)
        #expect(try bench.sent("2", from: other).number == 6)
        // The ordinal's next holder begins with a full bucket.
        bench.wait(seconds: 60)
        for index in 10..<13 { try bench.sent("\(index)", from: busy) }
        _ = try bench.apply(.unregister(project: bench.tides, ordinal: busy.ordinal))
        let next = try bench.register()
        #expect(next.ordinal == busy.ordinal)
        try bench.sent("13", from: next)
        try bench.expectClean()
    }
}
