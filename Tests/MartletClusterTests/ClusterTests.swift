// SPDX-License-Identifier: Apache-2.0
//
// Brokers on one log: any node takes anything, an answered request has its effect on every node, and the end of the
// active node loses nothing.

import Glibc
import Martlet
import MartletBase
import MartletClient
import MartletCluster
import MartletPostgres
import MartletRows
import Synchronization
import Testing

private final class Count: Sendable {
    let value = Atomic<Int>(0)
}

@Suite(
    "A cluster of brokers", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct ClusterTests {
    private static let project = ClusterBench.project

    private func bench() throws -> ClusterBench {
        try ClusterBench(try #require(WithPostgres.shared).pair)
    }

    /// A registered device on a node.
    private func device(
        on node: String, _ bench: ClusterBench, key: String
    ) async throws -> (MartletDevice, DeviceCredentials) {
        var options = DeviceOptions()
        options.registration = .key(key)
        options.acknowledgementDelay = .milliseconds(20)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: bench.port(node), projectID: Self.project,
            appName: "com.example.tides", platform: .android, options: options)
        return (
            MartletDevice(
                host: "127.0.0.1", port: bench.port(node), credentials: credentials,
                options: options), credentials
        )
    }

    private func receive(_ count: Int, by device: MartletDevice) async throws -> [String] {
        var texts: [String] = []
        for try await message in device.messages {
            texts.append(message["n"] ?? "")
            await device.acknowledge(message)
            if texts.count == count { break }
        }
        return texts
    }

    @Test("OPS-7 a device on one node gets what a sender on another sends, and the third is active")
    func anyNodeTakesAnything() async throws {
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        let (first, second) = (followers[0], followers[1])
        // Each request goes to another node, and finds the effect of the request before.
        let made = try await bench.broker(first).createProject(Self.project)
        let key = try await bench.broker(second).createServerKey(named: "k", in: Self.project)
        let (device, credentials) = try await device(
            on: first, bench, key: made.registrationKey)
        try await device.subscribe(toTopic: "tides")
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: bench.port(second), projectID: Self.project,
            serverKey: key.text)
        for number in 0..<20 {
            let target: MessageTarget =
                number % 2 == 0 ? .topic("tides") : .token(credentials.token)
            let result = try await sender.send(
                Message(data: ["n": "\(number)"]), to: target)
            #expect(result.recipientCount == 1)
        }
        #expect(try await receive(20, by: device) == (0..<20).map { "\($0)" })

        // The active node ends. The device and the sender stay where they are.
        try await bench.stop(active)
        for number in 20..<40 {
            let result = try await sender.send(
                Message(data: ["n": "\(number)"]), to: .topic("tides"))
            #expect(result.recipientCount == 1)
        }
        #expect(try await receive(20, by: device) == (20..<40).map { "\($0)" })
        #expect(try await bench.active() != active)

        // A message that is not stored reaches other nodes too.
        _ = try await sender.send(
            OutgoingMessage(
                to: .topic("tides"), Message(data: ["n": "now"]), timeToLiveSeconds: 0))
        #expect(try await receive(1, by: device) == ["now"])

        await device.close()
        await sender.close()
        try bench.waitUntilEqual(first, second)
        // A node that was away reads the rest from the log.
        try await bench.start(active)
        try bench.waitUntilEqual(first, active)
        try await bench.end()
    }

    @Test(
        """
        TTL-2 OPS-7 a now-or-never message of the active node comes to devices of all nodes, and no \
        row has it
        """)
    func sendsNowOrNever() async throws {
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        let broker = bench.broker(active)
        let made = try await broker.createProject(Self.project)
        let key = try await broker.createServerKey(named: "k", in: Self.project)
        var devices: [String: MartletDevice] = [:]
        for name in bench.names {
            let (device, _) = try await device(on: name, bench, key: made.registrationKey)
            try await device.subscribe(toTopic: "tides")
            devices[name] = device
        }
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: bench.port(active), projectID: Self.project,
            serverKey: key.text)
        func send(_ numbers: Range<Int>) async throws {
            for number in numbers {
                let result = try await sender.send(
                    OutgoingMessage(
                        to: .topic("tides"), Message(data: ["n": "\(number)"]),
                        timeToLiveSeconds: 0))
                #expect(result.recipientCount == 3)
            }
        }
        for name in followers { try bench.waitUntilEqual(active, name) }
        let log = try bench.log()
        let first = try log.tail(within: .ample).row
        try await send(0..<100)
        for name in bench.names {
            let came = try await receive(100, by: devices[name]!)
            #expect(came == (0..<100).map { "\($0)" }, "on \(name)")
        }
        // Counts of messages have a row a second.
        #expect(try log.tail(within: .ample).row - first < 50)
        // Callers in the process send too.
        _ = try await broker.send(
            OutgoingMessage(
                to: .topic("tides"), Message(data: ["n": "here"]), timeToLiveSeconds: 0),
            in: Self.project)
        for name in bench.names {
            #expect(try await receive(1, by: devices[name]!) == ["here"])
        }

        // Without a link to a node that may have devices, the log takes the messages.
        try await bench.stop(followers[1])
        let second = try log.tail(within: .ample).row
        try await send(100..<120)
        for name in [active, followers[0]] {
            let came = try await receive(20, by: devices[name]!)
            #expect(came == (100..<120).map { "\($0)" }, "on \(name)")
        }
        #expect(try log.tail(within: .ample).row - second >= 20)
        for device in devices.values { await device.close() }
        await sender.close()
        try await bench.end()
    }

    @Test("OPS-7 what a node has answered is known on all nodes: nobody is refused from behind")
    func knowsEverywhere() async throws {
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let followers = try await bench.followers()
        let (first, second) = (followers[0], followers[1])
        let made = try await bench.broker(first).createProject(Self.project)
        for number in 0..<20 {
            let (device, credentials) = try await device(
                on: first, bench, key: made.registrationKey)
            // The token is known to the other node at once, whether the device comes or a sender asks.
            let elsewhere = MartletDevice(
                host: "127.0.0.1", port: bench.port(second), credentials: credentials)
            try await elsewhere.subscribe(toTopic: "topic\(number)")
            let topics = try bench.broker(first).topics(of: credentials.token, in: Self.project)
            #expect(topics.entries.map(\.name) == ["topic\(number)"])
            await elsewhere.close()
            await device.close()
        }
        try bench.waitUntilEqual(first, second)
        try await bench.end()
    }

    @Test("OPS-7 questions that wait for the log hold up no thread of Swift's pool")
    func waitsWithoutThreads() async throws {
        let pair = try #require(WithPostgres.shared).pair
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let follower = try await bench.followers()[0]
        let broker = bench.broker(follower)
        let made = try await broker.createProject(Self.project)
        let (device, credentials) = try await device(
            on: follower, bench, key: made.registrationKey)
        _ = try await broker.device(credentials.token, in: Self.project)
        // Without a standby the log confirms nothing, so the questions wait to their end.
        try pair.detachStandby()
        let answered = Count()
        let token = credentials.token
        let questions = (0..<64).map { _ in
            Task {
                _ = try? await broker.device(token, in: Self.project)
                answered.value.add(1, ordering: .relaxed)
            }
        }
        // Other tasks go on, however many questions wait.
        for _ in 0..<64 { await Task {}.value }
        #expect(answered.value.load(ordering: .relaxed) == 0)
        for question in questions { await question.value }
        pair.attachStandby()
        let patience = Patience("the questions are not answered again")
        while (try? await broker.device(credentials.token, in: Self.project)) == nil {
            try patience.wait()
        }
        await device.close()
        try await bench.end()
    }

    @Test(
        "OPS-7 what a follower has answered is known on the active node, whose commit may be later")
    func knowsOnTheActiveNode() async throws {
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        let made = try await bench.broker(follower).createProject(Self.project)
        let key = try await bench.broker(follower).createServerKey(named: "k", in: Self.project)
        // The follower reads a row and answers, and the active node commits the row half a second later.
        bench.pause.microseconds.store(500_000, ordering: .releasing)
        let (device, credentials) = try await device(
            on: follower, bench, key: made.registrationKey)
        let elsewhere = MartletDevice(
            host: "127.0.0.1", port: bench.port(active), credentials: credentials)
        try await elsewhere.subscribe(toTopic: "tides")
        try await device.subscribe(toTopic: "storms")
        let topics = try bench.broker(active).topics(of: credentials.token, in: Self.project)
        #expect(topics.entries.map(\.name) == ["storms", "tides"])
        let other = try await bench.broker(follower).createServerKey(
            named: "l", in: Self.project)
        for text in [key.text, other.text] {
            try await MartletSender.connect(
                host: "127.0.0.1", port: bench.port(active), projectID: Self.project,
                serverKey: text
            ).close()
        }
        await elsewhere.close()
        await device.close()
        bench.pause.microseconds.store(0, ordering: .releasing)
        try bench.waitUntilEqual(active, follower)
        try await bench.end()
    }

    @Test("QUO-3 OPS-7 each node takes its part of the connections of a project's senders")
    func sharesConnections() async throws {
        let bench = try bench()
        bench.limits.senderConnectionsMax = 6
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let follower = try await bench.followers()[0]
        let broker = bench.broker(follower)
        _ = try await broker.createProject(Self.project)
        let key = try await broker.createServerKey(named: "k", in: Self.project)
        let name = "sender-connections-max"
        let patience = Patience("the node does not know of the others")
        while try broker.quotas(in: Self.project).first(where: { $0.name == name })?.limit != 2 {
            try patience.wait()
        }
        let senders = try (0..<2).map { _ in
            try broker.signIn(serverKey: key.text, where: { _ in true }) { _ in }
        }
        let refusal = #expect(throws: MartletError.self) {
            try broker.signIn(serverKey: key.text, where: { _ in true }) { _ in }
        }
        #expect(refusal?.word == .resourceExhausted)
        for sender in senders { sender.end() }
        try await bench.end()
    }

    @Test("NET-4 OPS-7 a device that connects to another node replaces its first connection")
    func replaces() async throws {
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        let made = try await bench.broker(follower).createProject(Self.project)
        // Back and forth: the later connection stays, on whichever node it is.
        for (one, other) in [(active, follower), (follower, active)] {
            let (first, credentials) = try await device(
                on: one, bench, key: made.registrationKey)
            try await first.subscribe(toTopic: "tides")
            let second = MartletDevice(
                host: "127.0.0.1", port: bench.port(other), credentials: credentials)
            try await second.subscribe(toTopic: "storms")
            let failure = await #expect(throws: MartletError.self) {
                for try await _ in first.messages {}
            }
            #expect(failure?.word == .replaced)
            await second.close()
        }
        try await bench.end()
    }

    @Test(
        "OPS-7 without a commit of the standby nothing is accepted, and afterwards a row in doubt counts once"
    )
    func waitsForTheStandby() async throws {
        let pair = try #require(WithPostgres.shared).pair
        let bench = try bench()
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let followers = try await bench.followers()
        let made = try await bench.broker(followers[0]).createProject(Self.project)
        let key = try await bench.broker(followers[1]).createServerKey(
            named: "k", in: Self.project)
        let (device, credentials) = try await device(
            on: followers[0], bench, key: made.registrationKey)
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: bench.port(followers[1]), projectID: Self.project,
            serverKey: key.text)
        let message = OutgoingMessage(
            to: .token(credentials.token), Message(data: ["n": "once"]), idempotencyKey: "once")
        _ = try await sender.send(
            OutgoingMessage(to: .token(credentials.token), Message(data: ["n": "before"])))
        #expect(try await receive(1, by: device) == ["before"])

        try pair.detachStandby()
        let refusal = await #expect(throws: MartletError.self) { try await sender.send(message) }
        #expect(refusal?.word == .unavailable)
        await #expect(throws: MartletError.self) {
            try await bench.broker(followers[0]).checkWrites()
        }
        pair.attachStandby()

        let patience = Patience("the cluster does not go on")
        while (try? await sender.send(message)) == nil { try patience.wait() }
        _ = try await sender.send(
            OutgoingMessage(to: .token(credentials.token), Message(data: ["n": "after"])))
        #expect(try await receive(2, by: device) == ["once", "after"])
        await device.close()
        await sender.close()
        try bench.waitUntilEqual(followers[0], followers[1])
        try await bench.end()
    }
}
