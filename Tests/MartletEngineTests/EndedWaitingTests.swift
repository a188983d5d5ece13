// SPDX-License-Identifier: Apache-2.0
//
// Scheduled and deferred messages that end before they are sent: each has a report, and its day has its counts
// (REP-4). Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Reports of messages that end while they wait")
struct EndedWaitingTests {
    /// What a message waits for.
    enum Wait { case time, room }

    /// What happens before it is sent.
    enum End { case timeToLive, cancellation, unregistration }

    enum To { case token, tokens, topic, missing }

    struct Case: Sendable, CustomTestStringConvertible {
        var wait: Wait
        var to: To
        var end: End
        var lifespans: [Lifespan] = [.seconds(5)]
        var expected: [ReportEvent: UInt64]

        var testDescription: String { "\(to) waits for \(wait), \(end), \(lifespans)" }
    }

    /// Two devices of an app on Android and one of another app on iOS have subscribed to the topic.
    static let cases: [Case] = [
        Case(wait: .time, to: .token, end: .timeToLive, expected: [.targeted: 1, .expired: 1]),
        Case(wait: .time, to: .tokens, end: .timeToLive, expected: [.targeted: 3, .expired: 3]),
        Case(wait: .time, to: .topic, end: .timeToLive, expected: [.targeted: 3, .expired: 3]),
        Case(wait: .room, to: .tokens, end: .timeToLive, expected: [.targeted: 3, .expired: 3]),
        Case(wait: .room, to: .topic, end: .timeToLive, expected: [.targeted: 3, .expired: 3]),
        Case(wait: .time, to: .missing, end: .timeToLive, expected: [.targeted: 2, .expired: 2]),
        Case(wait: .room, to: .missing, end: .timeToLive, expected: [.targeted: 2, .expired: 2]),
        // The variant for Android is over, the variant for iOS is not.
        Case(
            wait: .time, to: .topic, end: .timeToLive, lifespans: [.seconds(5), .seconds(600)],
            expected: [.targeted: 3, .expired: 2]),
        Case(
            wait: .room, to: .topic, end: .timeToLive, lifespans: [.seconds(5), .seconds(600)],
            expected: [.targeted: 3, .expired: 2]),
        Case(
            wait: .room, to: .topic, end: .timeToLive, lifespans: [.seconds(0), .seconds(600)],
            expected: [.targeted: 3, .expired: 2]),
        Case(
            wait: .time, to: .topic, end: .timeToLive, lifespans: [.seconds(5), .seconds(0)],
            expected: [.targeted: 3, .expired: 2, .nowOrNever: 1]),
        Case(wait: .time, to: .token, end: .cancellation, expected: [.targeted: 1, .cancelled: 1]),
        Case(wait: .time, to: .topic, end: .cancellation, expected: [.targeted: 3, .cancelled: 3]),
        Case(wait: .room, to: .topic, end: .cancellation, expected: [.targeted: 3, .cancelled: 3]),
        Case(
            wait: .room, to: .tokens, end: .cancellation, expected: [.targeted: 3, .cancelled: 3]),
        Case(
            wait: .room, to: .missing, end: .cancellation, expected: [.targeted: 2, .cancelled: 2]),
        Case(
            wait: .time, to: .topic, end: .cancellation, lifespans: [.seconds(0)],
            expected: [.targeted: 3, .cancelled: 3]),
        Case(wait: .time, to: .token, end: .unregistration, expected: [:]),
        Case(wait: .time, to: .tokens, end: .unregistration, expected: [:]),
        Case(wait: .time, to: .topic, end: .unregistration, expected: [:]),
        Case(wait: .room, to: .tokens, end: .unregistration, expected: [:]),
        Case(wait: .room, to: .topic, end: .unregistration, expected: [:]),
        Case(
            wait: .time, to: .token, end: .unregistration, lifespans: [.seconds(0)], expected: [:]),
    ]

    /// - Parameter sendsEarlier: a message went to all devices, and the first has acknowledged it.
    /// - Returns: with the numbers of that message and of the one that takes the project's only place.
    private func bench(
        sendsEarlier: Bool
    ) throws -> (SendBench, devices: [Instance], earlier: UInt64?, running: UInt64) {
        var limits = BrokerLimits()
        limits.fanoutsInProgressMax = 1
        let bench = try SendBench(limits, countsFanouts: true)
        let devices = [
            try bench.register(), try bench.register(),
            try bench.register(app: "com.example.sands", on: .apple),
        ]
        try bench.subscribe(devices, to: "t")
        var earlier: UInt64?
        if sendsEarlier {
            let number = try bench.accepted(SendCommand(target: .topic("t"), body: [2]))
                .acceptance.messageNumber
            try bench.end(number)
            _ = try bench.apply(
                .acknowledge([
                    Acknowledgement(
                        project: bench.tides, ordinal: devices[0].ordinal,
                        through: LaneMarks(MessageSequence(number)))
                ]))
            earlier = number
        }
        try bench.subscribe([try bench.register(), try bench.register()], to: "busy")
        let running = try bench.accepted(SendCommand(target: .topic("busy"), body: [0]))
        return (bench, devices, earlier, running.acceptance.messageNumber)
    }

    private func days(_ bench: SendBench) throws -> ReportCounts {
        try bench.store.read { (transaction) throws in
            try Reports.days(0...bench.now.day, in: bench.tides, DueOutcomes(), transaction)
                .reduce(into: ReportCounts()) { $0 += $1.counts }
        }
    }

    private func target(_ to: To, _ devices: [Instance]) -> SendCommand.Target {
        switch to {
        case .token: .token(devices[0].token.text)
        case .tokens: .several(devices.map { .token($0.token.text) })
        case .topic, .missing: .topic("t")
        }
    }

    @Test(
        "REP-4: a message that ends before it is sent has a report, its day has its counts, and those who miss it are listed",
        arguments: cases)
    func reported(_ one: Case) throws {
        let (bench, devices, earlier, running) = try bench(sendsEarlier: one.to == .missing)
        let project = bench.tides
        var message = SendCommand(target: target(one.to, devices), body: [1])
        let platforms: [PlatformSet] =
            one.lifespans.count == 1 ? [.all] : [PlatformSet(.android), PlatformSet(.apple)]
        message.variants = zip(platforms, one.lifespans).map {
            OutgoingVariant(platforms: $0, lifespan: $1, body: [1])
        }
        message.notReceived = earlier
        if one.wait == .time { message.sendAt = bench.now.advanced(bySeconds: 10) }
        let before = try days(bench)
        let number = try bench.accepted(message).acceptance.messageNumber
        #expect(try bench.advance().isEmpty)
        switch one.end {
        case .timeToLive: bench.wait(seconds: 100)
        case .cancellation:
            guard
                case .cancelled(_, number, nil) = try bench.apply(
                    .cancel(project: project, number: number))
            else { throw Surprise("no cancellation") }
        case .unregistration:
            for device in devices {
                _ = try bench.apply(.unregister(project: project, ordinal: device.ordinal))
            }
        }
        try bench.end(running)
        bench.wait(seconds: 10)
        _ = try bench.advance()
        let (now, limits) = (bench.now, bench.limits)
        let (report, missing) = try bench.store.read { (transaction) throws in
            (
                try Reports.message(number, in: project, limits: limits, now: now, transaction),
                try Reports.notReceived(
                    number, in: project, from: Ordinal(0), limit: 10, transaction)
            )
        }
        let counts = try #require(report?.counts)
        #expect(report?.messageNumber == number)
        let after = try days(bench)
        for event in ReportEvent.allCases {
            #expect(counts[event] == one.expected[event] ?? 0, "\(event)")
            #expect(after[event] - before[event] == counts[event], "\(event) of the day")
        }
        #expect(
            missing?.tokens.count
                == Int(counts[.targeted] - counts[.nowOrNever]))
        try bench.expectClean()
    }

    @Test(
        "REP-2: a message that will wait is refused if the earlier message has no report and does not wait itself",
        arguments: [Wait.time, .room])
    func noEarlierReport(_ wait: Wait) throws {
        let (bench, _, _, running) = try bench(sendsEarlier: false)
        func message(after number: UInt64) -> SendCommand {
            var message = SendCommand(target: .topic("t"), body: [1])
            message.notReceived = number
            if wait == .time { message.sendAt = bench.now.advanced(bySeconds: 10) }
            return message
        }
        let nowOrNever = try bench.accepted(
            SendCommand(target: .topic("none"), body: [1], lifespan: .seconds(0)))
        for number in [0, 99, .max, nowOrNever.acceptance.messageNumber] {
            var checked = message(after: number)
            #expect(try bench.refused(checked).word == .notFound)
            #expect(try bench.refused(checked).field == "not_received")
            checked.validateOnly = true
            #expect(try bench.refused(checked).word == .notFound)
        }
        let first = try bench.accepted(message(after: running)).acceptance.messageNumber
        let second = try bench.accepted(message(after: first)).acceptance.messageNumber
        #expect(second == first + 1)
        try bench.expectClean()
    }
}
