// SPDX-License-Identifier: Apache-2.0
//
// The rows of the specification as plain examples, on the engine, the store and delivery.
// Rests on World.

import MartletBase
import MartletEngine
import MartletRows
import Testing

/// One instance and a sender.
final class Example {
    let world: World
    let instance: Instance
    private var nextID: UInt64 = 0

    init(limits: BrokerLimits = BrokerLimits()) throws {
        world = try World(.memory)
        try world.beginHistory(limits: limits, rowsMax: 1024)
        instance = try world.register(app: "com.a", platform: .android)
    }

    func send(
        to token: String? = nil, seconds: UInt32 = 2_419_200, key: CollapseKey = .none,
        priority: MessagePriority = .normal, at due: Instant? = nil
    ) throws -> Outcome {
        nextID += 1
        let body = withUnsafeBytes(of: nextID) { Array($0) }
        return try world.apply(
            .send(
                project: world.project,
                message: SendCommand(
                    target: .token(token ?? instance.token.text),
                    variants: [
                        OutgoingVariant(
                            lifespan: .seconds(seconds), priority: priority, collapse: key,
                            body: body)
                    ], sendAt: due)))
    }

    func pass(milliseconds: Int64) throws {
        try world.passTime(
            to: Instant(millisecondsSince1970: world.now.millisecondsSince1970 + milliseconds))
    }

    func connect(_ state: DeviceState = .active) throws -> [Frame] {
        try world.connect(instance, state, taken: [], loop: 0, isHasty: false)
        return try frames()
    }

    func frames() throws -> [Frame] {
        try world.settle()
        return world.takeFrames(instance.ordinal)
    }

    func leave() throws {
        world.close(instance.ordinal)
        try world.handOver()
    }
}

func ids(_ frames: [Frame]) -> [UInt64] {
    frames.compactMap { if case .message(_, let id) = $0 { id } else { nil } }
}

func counts(_ frames: [Frame]) -> [UInt64] {
    frames.compactMap { if case .deleted(_, let count) = $0 { count } else { nil } }
}

private func refusal(_ outcome: Outcome) -> MartletError? {
    if case .refused(let error) = outcome { error } else { nil }
}

@Suite("The rows of mailboxes, one by one")
struct RuleTests {
    @Test(
        "STO-1 who reads its mailbox before the store knows that it had left is told what was discarded"
    )
    func early() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 5
        let example = try Example(limits: limits)
        _ = try example.connect()
        // What the connection leaves is still on its way when the next one begins.
        example.world.close(example.instance.ordinal)
        for _ in 0..<9 { _ = try example.send() }
        try example.world.connect(
            example.instance, .active, taken: [], loop: 1, isHasty: false, readsEarly: true)
        let frames = try example.frames()
        #expect(counts(frames) == [6])
        #expect(ids(frames) == [7, 8, 9])
    }

    @Test("STO-1 a hundred messages are stored; the next discards all 101, told once")
    func stored() throws {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 0
        let hundred = try Example(limits: limits)
        for _ in 0..<100 { _ = try hundred.send() }
        let all = try hundred.connect()
        #expect(ids(all) == Array(1...100) && counts(all) == [])

        let more = try Example(limits: limits)
        for _ in 0..<102 { _ = try more.send() }
        let left = try more.connect()
        #expect(ids(left) == [102] && counts(left) == [101])
        #expect(more.world.acknowledge(more.instance.ordinal, through: 101, single: []))
        try more.world.handOver()
        try more.leave()
        let again = try more.connect()
        #expect(ids(again) == [102] && counts(again) == [])
    }

    @Test("STO-1 what earlier connections did not take counts too, however short they were")
    func shortConnections() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 10
        let example = try Example(limits: limits)
        for round in 0..<4 as Range<UInt64> {
            for _ in 0..<3 { _ = try example.send() }
            let frames = try example.connect()
            if round < 3 {
                #expect(ids(frames) == Array(1...3 * (round + 1)) && counts(frames) == [])
            } else {
                #expect(ids(frames) == [12] && counts(frames) == [11])
            }
            try example.leave()
        }
        // What is on its way to a connection does not count, until that is gone.
        _ = try example.connect()
        for _ in 0..<20 { _ = try example.send() }
        #expect(ids(try example.frames()) == Array(13...32))
        try example.leave()
        #expect(counts(try example.connect()) == [11])
        try example.leave()
        _ = try example.send()
        let last = try example.connect()
        #expect(ids(last).isEmpty && counts(last) == [11 + 22])
    }

    @Test("STO-1 what a device says it has taken when it connects changes nothing of its absence")
    func listedAfterAbsence() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 5
        let example = try Example(limits: limits)
        _ = try example.connect()
        for _ in 0..<3 { _ = try example.send() }
        _ = try example.frames()
        try example.leave()
        for _ in 0..<4 { _ = try example.send() }
        // The sixth found three and two stored before it.
        try example.world.connect(
            example.instance, .active, taken: [1, 2, 3], loop: 0, isHasty: false)
        let frames = try example.frames()
        #expect(counts(frames) == [6] && ids(frames) == [7])
    }

    @Test("REP-1 the day knows at once what is discarded and replaced for a device that is away")
    func dayKnows() throws {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 0
        let example = try Example(limits: limits)
        for _ in 0..<101 { _ = try example.send() }
        for _ in 0..<3 { _ = try example.send(key: .named("k")) }
        var counts = try example.world.dayCounts()
        #expect(counts[.targeted] == 104 && counts[.discardedTooMany] == 101)
        #expect(counts[.collapsed] == 2 && counts.pending == 1)
        _ = try example.connect()
        #expect(example.world.acknowledge(example.instance.ordinal, through: 104, single: []))
        try example.world.handOver()
        counts = try example.world.dayCounts()
        #expect(counts[.targeted] == 104 && counts[.discardedTooMany] == 101)
        #expect(counts[.collapsed] == 2 && counts[.acknowledged] == 1 && counts.pending == 0)
    }

    @Test("STO-1 what a doze holds back counts; what is urgent does not")
    func dozeOverflows() throws {
        var limits = BrokerLimits()
        limits.deviceMessagesPerMinute = 0
        limits.deviceMessagesPerHour = 0
        let example = try Example(limits: limits)
        _ = try example.connect()
        example.world.setState(example.instance.ordinal, .doze)
        for _ in 0..<2000 { _ = try example.send() }
        _ = try example.send(priority: .high)
        #expect(ids(try example.frames()) == [2001])
        example.world.setState(example.instance.ordinal, .active)
        let woken = try example.frames()
        #expect(counts(woken) == [19 * 101])
        #expect(ids(woken) == Array((19 * 101 + 1)...2000))
    }

    @Test("STO-1 a device that lists two notices is told neither again")
    func twoNotices() throws {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 1
        let example = try Example(limits: limits)
        for _ in 0..<2 { _ = try example.send() }
        #expect(counts(try example.connect()) == [2])
        try example.leave()
        for _ in 0..<2 { _ = try example.send() }
        #expect(counts(try example.connect()) == [4])
        // The store hears of the list before it hears that the last connection ended.
        try example.world.connect(
            example.instance, .active, taken: [2, 4], loop: 1, isHasty: true)
        #expect(try example.frames().isEmpty)
    }

    @Test(
        "STO-1 OPS-7 the stream ID of a notice is not that of a message which the device has",
        arguments: [
            ([1, 2, 3], [4]),
            ([1, 2, 3, 4], []),
            // The application has not taken the last discarded message.
            ([1, 2], [4]),
        ] as [([UInt64], [UInt64])], [false, true])
    func noticeOfDelivered(messages: (taken: [UInt64], left: [UInt64]), isCluster: Bool) throws {
        let (taken, left) = messages
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 2
        let example = try Example(limits: limits)
        if isCluster { try example.world.beginCluster() }
        for seconds in [10, 60, 60, 60] as [UInt32] { _ = try example.send(seconds: seconds) }
        // The expiry writes down the discards. Meanwhile the device was given all messages on another node, and the
        // news of that connection is lost with the node.
        try example.pass(milliseconds: 10_000)
        try example.world.connect(
            example.instance, .active, taken: taken, loop: 0, isHasty: false)
        let frames = try example.frames()
        #expect(ids(frames) == left)
        #expect(frames.last == .deleted(streamID: 5, count: 3))
        // The notice is told until its own stream ID is acknowledged.
        try example.leave()
        #expect(try example.connect() == frames)
        _ = try example.send()
        #expect(ids(try example.frames()) == [5])
        #expect(example.world.acknowledge(example.instance.ordinal, through: 6, single: []))
        try example.leave()
        #expect(try example.connect().isEmpty)
        let day = try example.world.dayCounts()
        #expect(day[.discardedTooMany] == 3 && day[.acknowledged] == 2 && day.pending == 0)
    }

    @Test(
        "STO-1 STO-2 a message before a notice is acknowledged without the notice",
        arguments: [false, true])
    func messageBeforeNotice(isCluster: Bool) throws {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 1
        limits.inactiveSeconds = 10
        let example = try Example(limits: limits)
        if isCluster { try example.world.beginCluster() }
        let ordinal = example.instance.ordinal
        for _ in 0..<3 { _ = try example.send() }
        try example.pass(milliseconds: 11_000)
        _ = try example.send()
        let frames = try example.connect()
        #expect(ids(frames) == [3] && counts(frames) == [3])
        #expect(example.world.acknowledge(ordinal, through: 3, single: []))
        try example.leave()
        let again = try example.connect()
        #expect(ids(again) == [] && counts(again) == [3])
        #expect(example.world.acknowledge(ordinal, through: 4, single: []))
        try example.leave()
        #expect(try example.connect().isEmpty)
    }

    @Test(
        "STO-1 STO-2 a notice of two kinds of discards is acknowledged singly, or in HELLO, without the message before it",
        arguments: [false, true], [false, true])
    func singleNotice(isCluster: Bool, isListed: Bool) throws {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 1
        limits.inactiveSeconds = 10
        let example = try Example(limits: limits)
        if isCluster { try example.world.beginCluster() }
        for _ in 0..<3 { _ = try example.send() }
        try example.pass(milliseconds: 11_000)
        _ = try example.send()
        let frames = try example.connect()
        #expect(frames.last == .deleted(streamID: 4, count: 3))
        // The end of a doze begins another reading.
        example.world.setState(example.instance.ordinal, .doze)
        _ = try example.send()
        #expect(try example.frames().isEmpty)
        example.world.setState(example.instance.ordinal, .active)
        let later = try example.frames()
        #expect(ids(later) == [5] && counts(later) == [])
        if !isListed {
            #expect(
                example.world.acknowledge(example.instance.ordinal, through: 0, single: [4]))
        }
        try example.leave()
        try example.world.connect(
            example.instance, .active, taken: isListed ? [4] : [], loop: 0, isHasty: false)
        let again = try example.frames()
        #expect(ids(again) == [3, 5] && counts(again) == [])
    }

    @Test("STO-1 a notice acknowledged just before a doze runs over is not told again")
    func noticeBeforeDoze() throws {
        var limits = BrokerLimits()
        limits.storedPerInstanceMax = 1
        let example = try Example(limits: limits)
        for _ in 0..<2 { _ = try example.send() }
        #expect(counts(try example.connect()) == [2])
        let ordinal = example.instance.ordinal
        #expect(example.world.acknowledge(ordinal, through: 2, single: []))
        example.world.setState(example.instance.ordinal, .doze)
        for _ in 0..<2 { _ = try example.send() }
        #expect(try example.frames().isEmpty)
        example.world.setState(example.instance.ordinal, .active)
        #expect(counts(try example.frames()) == [2])
    }

    @Test("COL-1 COL-3 a message replaces the one with its key; the four keys written last stay")
    func keys() throws {
        let example = try Example()
        for key in ["a", "b", "c", "d"] { _ = try example.send(key: .named(key)) }
        _ = try example.send(key: .named("a"))
        _ = try example.send(key: .named("e"))
        #expect(ids(try example.connect()) == [3, 4, 5, 6])
    }

    @Test("COL-2 without a key of its own a collapsible message has the app's package name")
    func packageName() throws {
        let example = try Example()
        _ = try example.send(key: .app)
        _ = try example.send(key: .named("com.a"))
        #expect(ids(try example.connect()) == [2])
    }

    @Test(
        "COL-4 QUO-6 the 21st collapsible message waits three minutes; now or never does not wait")
    func throttle() throws {
        let example = try Example()
        _ = try example.connect()
        for number in 0..<22 {
            _ = try example.send(key: .named("k\(number % 2)"))
            _ = try example.frames().count
        }
        _ = try example.send(seconds: 0, key: .named("k0"))
        #expect(ids(try example.frames()) == [23])
        try example.pass(milliseconds: 179_999)
        #expect(try example.frames().isEmpty)
        try example.pass(milliseconds: 1)
        #expect(ids(try example.frames()) == [21])
        try example.pass(milliseconds: 180_000)
        #expect(ids(try example.frames()) == [22])
    }

    @Test("TTL-3 a message is delivered until the millisecond before it expires")
    func expiry() throws {
        let early = try Example()
        _ = try early.send(seconds: 10)
        try early.pass(milliseconds: 9999)
        #expect(ids(try early.connect()) == [1])

        let late = try Example()
        _ = try late.send(seconds: 10)
        try late.pass(milliseconds: 10_000)
        #expect(try late.connect().isEmpty)
    }

    @Test(
        "TTL-2 PRI-1 in a doze urgent messages come at once, others when it ends, now or never never"
    )
    func doze() throws {
        let example = try Example()
        _ = try example.connect(.doze)
        _ = try example.send()
        _ = try example.send(priority: .high)
        _ = try example.send(seconds: 0)
        _ = try example.send(seconds: 0, priority: .high)
        #expect(ids(try example.frames()) == [2, 4])
        example.world.setState(example.instance.ordinal, .active)
        #expect(ids(try example.frames()) == [1])
    }

    @Test("TTL-4 what was not acknowledged is delivered again, in order; what was, is not")
    func again() throws {
        let example = try Example()
        for _ in 0..<4 { _ = try example.send() }
        #expect(ids(try example.connect()) == [1, 2, 3, 4])
        #expect(example.world.acknowledge(example.instance.ordinal, through: 1, single: [3]))
        try example.leave()
        #expect(ids(try example.connect()) == [2, 4])
    }

    @Test("STO-2 after more than 30 days away a message is discarded, and told of for 28 days")
    func inactive() throws {
        let day: Int64 = 86_400_000
        let example = try Example()
        try example.pass(milliseconds: 30 * day)
        _ = try example.send()
        try example.pass(milliseconds: 1)
        guard case .accepted(let acceptance, _) = try example.send() else {
            Issue.record("not accepted")
            return
        }
        #expect(acceptance.inactiveCount == 1)
        let frames = try example.connect()
        #expect(ids(frames) == [1] && counts(frames) == [1])

        let late = try Example()
        try late.pass(milliseconds: 31 * day)
        _ = try late.send()
        try late.pass(milliseconds: 28 * day)
        #expect(try late.connect().isEmpty)
    }

    @Test("QUO-1 240 messages a minute to one device; the next has to wait a quarter of a second")
    func quota() throws {
        let example = try Example()
        for _ in 0..<240 { #expect(refusal(try example.send()) == nil) }
        let error = refusal(try example.send())
        #expect(error?.word == .quotaExceeded && error?.retryDelayMilliseconds == 250)
        try example.pass(milliseconds: 250)
        #expect(refusal(try example.send()) == nil)
        #expect(refusal(try example.send())?.word == .quotaExceeded)
    }

    @Test("REG-3 who unregisters leaves nothing for the next with its ordinal")
    func unregistering() throws {
        let example = try Example()
        let world = example.world
        _ = try example.send()
        _ = try world.apply(
            .unregister(
                project: world.project, ordinal: example.instance.ordinal,
                holder: example.instance.holder))
        #expect(refusal(try example.send())?.word == .unregistered)
        let next = try world.register(app: "com.a", platform: .android)
        #expect(next.ordinal == example.instance.ordinal)
        try world.connect(next, .active, taken: [], loop: 0, isHasty: false)
        try world.settle()
        #expect(world.takeFrames(next.ordinal).isEmpty)
    }

    @Test("REG-4 after a rotation the mailbox is still there, the old token is not")
    func rotation() throws {
        let example = try Example()
        let world = example.world
        _ = try example.send()
        let token = world.newToken()
        _ = try world.apply(
            .rotate(
                project: world.project, ordinal: example.instance.ordinal,
                holder: example.instance.holder, token: token))
        #expect(refusal(try example.send())?.word == .unregistered)
        #expect(refusal(try example.send(to: token.text)) == nil)
        #expect(ids(try example.connect()) == [1, 3])
    }

    @Test("MSG-10 a scheduled message is sent when it is due, unless it was cancelled")
    func schedule() throws {
        let example = try Example()
        _ = try example.connect()
        let due = example.world.now.advanced(bySeconds: 60)
        _ = try example.send(at: due)
        guard case .accepted(let second, _) = try example.send(at: due) else {
            Issue.record("not accepted")
            return
        }
        _ = try example.world.apply(
            .cancel(project: example.world.project, number: second.messageNumber))
        try example.pass(milliseconds: 59_999)
        #expect(try example.frames().isEmpty)
        try example.pass(milliseconds: 1)
        #expect(ids(try example.frames()) == [1])
    }

    @Test("MSG-10 whoever has not got a cancelled message does not get it")
    func cancelling() throws {
        let example = try Example()
        guard case .accepted(let first, _) = try example.send() else {
            Issue.record("not accepted")
            return
        }
        _ = try example.send()
        let outcome = try example.world.apply(
            .cancel(project: example.world.project, number: first.messageNumber))
        guard case .cancelled = outcome else {
            Issue.record("not cancelled")
            return
        }
        #expect(ids(try example.connect()) == [2])
    }
}
