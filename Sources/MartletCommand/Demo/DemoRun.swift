// SPDX-License-Identifier: Apache-2.0
//
// Runs the demo from an empty folder to the last check: registration, subscriptions, sends, and the comparison of all
// arrivals with the plan. The broker rests on the embedding API, and its clients on MartletClient.

import FoundationEssentials
import Martlet
import MartletAnswers
import MartletClient

struct DemoRun {
    static let project = "demo"
    /// Longest time for a send to reach all its recipients. A slower send counts as wrong.
    static let patience = Duration.seconds(15)
    /// Wait after the last message, in which an unexpected message has time to come.
    static let quiet = Duration.milliseconds(500)

    /// Absence of devices before a send. The absence is longer than the broker gathers acknowledgements, because a
    /// device that comes back sooner repeats its acknowledgement, and the broker counts twice.
    static let absence = Duration.milliseconds(200)

    let plan: DemoPlan
    let broker: Broker
    /// nil: the devices connect without TLS.
    let encryption: Encryption?
    let isJSON: Bool
    let interrupt: Interrupt.Waiter

    private struct Outcome: Encodable {
        var check: DemoReport.Check
    }

    /// Runs the demo.
    /// - Returns: whether every number was right, and the devices, disconnected.
    func perform() async throws -> (isRight: Bool, fleet: DemoFleet) {
        let port = broker.port ?? 0
        let project = try await broker.createProject(Self.project)
        let key = try await broker.createServerKey(named: "demo", in: Self.project)
        var senderOptions = ClientOptions()
        var deviceOptions = DeviceOptions()
        deviceOptions.registration = .key(project.registrationKey)
        senderOptions.encryption = encryption
        deviceOptions.encryption = encryption
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: Int(port), projectID: Self.project, serverKey: key.text,
            options: senderOptions)
        let stepCount = plan.steps(tokens: plan.devices.map { _ in "" }).count
        let inbox = DemoInbox(stepCount: stepCount)
        let fleet = DemoFleet(
            plan: plan, project: Self.project, port: Int(port), inbox: inbox,
            options: deviceOptions)
        let all = Array(plan.devices.indices)
        let count = plan.devices.count
        try await timed("\(count) devices registered") { try await fleet.register($0) }
        try await timed("\(count) devices connected") { try await fleet.connect(all, $0) }
        let own = DemoPlan.topics.filter { !$0.bySender }.map(\.name)
        try await timed("subscribed by themselves to \(own.joined(separator: ", "))") {
            try await fleet.subscribe(to: own, $0)
        }
        let others = DemoPlan.topics.filter(\.bySender).map(\.name)
        try await timed("subscribed by the sender to \(others.joined(separator: ", "))") {
            progress in
            for (index, topic) in others.enumerated() {
                try await subscribe(topic, fleet.tokens, sender)
                progress.show(index + 1, of: others.count)
            }
        }
        let check = try await sendAll(plan.steps(tokens: fleet.tokens), fleet, sender)
        await fleet.disconnect(all)
        await sender.close()
        return (check.isRight, fleet)
    }

    private func timed(_ what: String, _ body: (Progress) async throws -> Void) async throws {
        guard !interrupt.hasFired else { throw CancellationError() }
        let began = ContinuousClock.now
        let progress = Progress(what)
        try await body(progress)
        progress.end()
        if !isJSON { Terminal.print("\(what): \((ContinuousClock.now - began).secondsText)") }
    }

    /// Subscribes devices in batches of as many tokens as a request takes (TOP-4).
    private func subscribe(
        _ topic: String, _ tokens: [String], _ sender: MartletSender
    ) async throws {
        let members = plan.devices.indices.filter { plan.devices[$0].topics.contains(topic) }
        for start in stride(from: 0, to: members.count, by: Limits.tokensPerTopicRequestMax) {
            let end = min(start + Limits.tokensPerTopicRequestMax, members.count)
            let result = try await sender.subscribe(
                members[start..<end].map { tokens[$0] }, to: topic)
            if let failure = result.failures.first {
                throw MartletError(
                    failure.word, "\(result.failures.count) devices were not subscribed.",
                    field: topic)
            }
        }
    }

    // MARK: Sending

    private func sendAll(
        _ steps: [DemoPlan.Step], _ fleet: DemoFleet, _ sender: MartletSender
    ) async throws -> DemoReport.Check {
        let report = DemoReport(labels: steps.map(\.label))
        if !isJSON { Terminal.print("\n" + report.head) }
        var check = DemoReport.Check()
        for (index, step) in steps.enumerated() {
            guard !interrupt.hasFired else { throw CancellationError() }
            let line = try await send(step, index, fleet, sender)
            if line.accepted != UInt64(line.expected) || line.acknowledged != UInt64(line.expected)
            {
                check.miscounted += 1
            }
            if isJSON { JSON.print(line) } else { Terminal.print(report.text(line)) }
        }
        try await Task.sleep(for: Self.quiet)
        for (index, step) in steps.enumerated() {
            let expected = plan.expected(step)
            let times = fleet.inbox.arrivals(step: index).times
            check.missing += expected.count { times[$0] == nil }
            check.extra += times.keys.count { !expected.contains($0) }
            check.twice += times.values.count { $0 > 1 }
        }
        check.unknown = fleet.inbox.unknownCount
        let failures = fleet.inbox.failureTexts
        check.failed = failures.count
        for failure in failures.prefix(5) { Terminal.printError(failure) }
        if isJSON {
            JSON.print(Outcome(check: check))
        } else {
            Terminal.print(
                """

                A || B && C is read from left to right; with && first it would be \
                \(plan.otherReading) devices.
                \(DemoReport.text(check))
                """)
        }
        return check
    }

    private func send(
        _ step: DemoPlan.Step, _ index: Int, _ fleet: DemoFleet, _ sender: MartletSender
    ) async throws -> DemoReport.Line {
        let expected = plan.expected(step)
        let acknowledgedBefore = broker.statistics.acknowledgedCount
        let away = step.away.sorted()
        if !away.isEmpty {
            await fleet.disconnect(away)
            try await Task.sleep(for: Self.absence)
        }
        let began = ContinuousClock.now
        let result = try await sender.send(
            Message(
                notification: .init(title: "Demo", body: "Message \(index + 1)"),
                data: ["step": "\(index)"]),
            to: step.target)
        if !away.isEmpty {
            await wait { fleet.inbox.count(step: index) >= expected.subtracting(away).count }
            try await fleet.connect(away, Progress("reconnecting"))
        }
        await wait { fleet.inbox.count(step: index) >= expected.count }
        await wait {
            broker.statistics.acknowledgedCount - acknowledgedBefore >= UInt64(expected.count)
        }
        let arrivals = fleet.inbox.arrivals(step: index)
        return DemoReport.Line(
            target: step.label, expected: expected.count, accepted: result.recipientCount,
            delivered: arrivals.count,
            acknowledged: broker.statistics.acknowledgedCount - acknowledgedBefore,
            firstMilliseconds: arrivals.first.map { ($0 - began).milliseconds },
            lastMilliseconds: arrivals.last.map { ($0 - began).milliseconds })
    }

    private func wait(until isDone: () -> Bool) async {
        let deadline = ContinuousClock.now + Self.patience
        while !isDone(), ContinuousClock.now < deadline, !interrupt.hasFired {
            try? await Task.sleep(for: .milliseconds(2))
        }
    }
}
