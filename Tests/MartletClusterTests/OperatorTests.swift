// SPDX-License-Identifier: Apache-2.0
//
// What an operator does with a running cluster: the active role is handed over, a node is drained, and one process alone
// has a node's name. Rests on ClusterBench.

import Foundation
import Glibc
import Martlet
import MartletBase
import MartletClient
import MartletCluster
import MartletGateway
import MartletPostgres
import Synchronization
import Testing

@Suite(
    "An operator of a cluster", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct OperatorTests {
    private static let project = ClusterBench.project

    /// What a sender has done, and whether it is to end.
    private final class Sending: Sendable {
        let count = Atomic(0)
        let isOver = Atomic(false)
    }

    /// Waits without a thread of its own, because the senders need the threads.
    private func wait(_ wanted: String, until isTrue: () async throws -> Bool) async throws {
        for _ in 0..<4000 {
            if try await isTrue() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw PostgresPrograms.Failure(description: "waited in vain: \(wanted)")
    }

    private func bench() async throws -> ClusterBench {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        return bench
    }

    /// Sends until the end, and nothing again: each refusal is a failure.
    private func send(
        _ bench: ClusterBench, through node: String, key: String, _ sending: Sending
    ) async throws {
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: bench.port(node), projectID: Self.project, serverKey: key)
        while !sending.isOver.load(ordering: .acquiring) {
            _ = try await sender.send(Message(data: ["n": "1"]), to: .topic("tides"))
            sending.count.add(1, ordering: .releasing)
        }
        await sender.close()
    }

    @Test("OPS-7 the active role is handed over under load, and no request is refused")
    func handsOver() async throws {
        let bench = try await bench()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        _ = try await bench.broker(active).createProject(Self.project)
        let key = try await bench.broker(active).createServerKey(named: "k", in: Self.project)
        // On the active node, on its successor, and on the node beside.
        let sendings = bench.names.map { _ in Sending() }
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for (name, sending) in zip(bench.names, sendings) {
                tasks.addTask {
                    try await send(bench, through: name, key: key.text, sending)
                }
            }
            defer { for sending in sendings { sending.isOver.store(true, ordering: .releasing) } }
            let log = try bench.log()
            var (holder, successor) = (active, followers[1])
            for _ in 0..<4 {
                let before = sendings.map { $0.count.load(ordering: .acquiring) }
                try await wait("not every sender sends") {
                    zip(sendings, before).allSatisfy { $0.count.load(ordering: .acquiring) > $1 }
                }
                try log.ask(
                    NodeWish(
                        node: try NodeName(validating: holder),
                        kind: .handOver(to: try NodeName(validating: successor))), within: .ample)
                try await wait("the role is not handed over") {
                    let lease = try log.lease(within: .ample)
                    return lease.holder?.text == successor && !lease.isOver
                }
                let next = bench.names.first { $0 != successor && $0 != holder }!
                (holder, successor) = (successor, next)
            }
            #expect(try log.wishes(within: .ample).isEmpty)
            for sending in sendings { sending.isOver.store(true, ordering: .releasing) }
            try await tasks.waitForAll()
        }
        try bench.waitUntilEqual(active, followers[0])
        try bench.waitUntilEqual(active, followers[1])
        try await bench.end()
    }

    @Test("OPS-7 the role is not handed to a node that has ended, and the active node goes on")
    func refusesToHandOver() async throws {
        let bench = try await bench()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        try await bench.stop(follower)
        let log = try bench.log()
        try log.ask(
            NodeWish(
                node: try NodeName(validating: active),
                kind: .handOver(to: try NodeName(validating: follower))), within: .ample)
        let epoch = try log.lease(within: .ample).epoch
        // Longer than the node needs to read a wish.
        usleep(2_500_000)
        #expect(try log.lease(within: .ample).epoch == epoch)
        _ = try await bench.broker(active).createProject(Self.project)
        try await bench.end()
    }

    @Test("OPS-7 a drained node sends its clients away, hands its role over, and follows")
    func drains() async throws {
        let bench = try await bench()
        for name in bench.names { try await bench.start(name) }
        let drained = try await bench.active()
        let other = try await bench.followers()[0]
        let made = try await bench.broker(drained).createProject(Self.project)
        let key = try await bench.broker(drained).createServerKey(named: "k", in: Self.project)
        var options = DeviceOptions()
        options.registration = .key(made.registrationKey)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: bench.port(drained), projectID: Self.project,
            appName: "com.example.tides", platform: .android, options: options)
        let device = MartletDevice(
            host: "127.0.0.1", port: bench.port(drained), credentials: credentials)
        try await device.subscribe(toTopic: "tides")
        #expect(bench.broker(drained).statistics.connectionCount == 1)

        let (log, name) = (try bench.log(), try NodeName(validating: drained))
        try log.ask(NodeWish(node: name, kind: .drain), within: .ample)
        try await wait("the node is not drained") {
            bench.broker(drained).statistics.connectionCount == 0
        }
        #expect(try await bench.active() != drained)
        func connect() async throws {
            try await MartletSender.connect(
                host: "127.0.0.1", port: bench.port(drained), projectID: Self.project,
                serverKey: key.text
            ).close()
        }
        let refusal = await #expect(throws: MartletError.self) { try await connect() }
        #expect(refusal?.word == .unavailable)
        await #expect(throws: MartletError.self) {
            try await bench.broker(drained).checkWrites()
        }
        func send() async throws -> Int {
            let gateway = Gateway(bench.broker(drained))
            let call = try #require(
                GatewayCall(
                    .post, target: "/v1/projects/\(Self.project)/messages:send",
                    headers: [("authorization", "Bearer \(key.text)")],
                    body: Array(#"{"message":{"topic":"tides","data":{"n":"1"}}}"#.utf8)))
            return await gateway.answer(call).status
        }
        #expect(try await send() == 503)
        // The node follows, and commands on its machine go on.
        _ = try await bench.broker(drained).createServerKey(named: "l", in: Self.project)
        try bench.waitUntilEqual(drained, other)
        await device.close()

        try log.withdraw(NodeWish(node: name, kind: .drain), within: .ample)
        try await wait("the node takes no clients again") { (try? await connect()) != nil }
        #expect(try await send() == 200)
        try await bench.end()
    }

    @Test("OPS-7 a second process of a node's name is refused while the first lives")
    func oneProcess() async throws {
        let bench = try await bench()
        try bench.copy("c", to: "twin")
        for name in bench.names { try await bench.start(name) }
        _ = try await bench.active()
        let follower = try await bench.followers()[0]
        let refusal = await #expect(throws: MartletError.self) {
            try await Broker.open(try bench.configuration("twin", as: follower))
        }
        #expect(refusal?.word == .alreadyExists)
        #expect(refusal?.message.contains("'\(follower)'") == true)
        // The name is free at once when its process has ended.
        try await bench.stop(follower)
        let twin = try await Broker.open(try bench.configuration("twin", as: follower))
        _ = try await twin.createProject(Self.project)
        try await twin.close()
        try await bench.end()
    }

    @Test("OPS-7 the answer to a node's report has the other nodes, the wishes and the time")
    func news() async throws {
        let bench = try await bench()
        let log = try bench.log()
        let one = LogBench.report(.a)
        var two = one
        two.name = try NodeName(validating: "second")
        two.applied = 7
        #expect(try log.exchange(one, within: .ample).nodes.map(\.report) == [one])
        let wish = NodeWish(node: one.name, kind: .handOver(to: two.name))
        try log.ask(wish, within: .ample)
        for _ in 0..<2 {
            let news = try log.exchange(two, within: .ample)
            #expect(news.nodes.map(\.report) == [one, two])
            #expect(news.wishes == [wish])
            let clock = try #require(news.clock)
            #expect(clock.error > .zero)
            #expect(clock.error < .seconds(5))
        }
        try log.withdraw(wish, within: .ample)
        #expect(try log.exchange(two, within: .ample).wishes == [])
        // The servers of the tests have a standby, and are on this machine.
        #expect(try log.warnings(within: .ample) == [])
        try await bench.end()
    }

    @Test("OPS-10 the rules for a cluster rest on metrics that a node serves")
    func metrics() async throws {
        let bench = try await bench()
        try await bench.start("a")
        // The log knows of the takeover before the node does.
        try await wait("the node is not active") {
            bench.broker("a").metricsText.contains("\nmartlet_cluster_active 1")
        }
        let text = bench.broker("a").metricsText
        let rules = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Examples/prometheus-alerts.yml"), encoding: .utf8)
        let names = Set(rules.matches(of: /martlet_cluster_\w+/).map { String($0.0) })
        #expect(names.count >= 4)
        for name in names { #expect(text.contains("\n\(name) "), "\(name)") }
        #expect(text.contains("\nmartlet_cluster_lag_seconds 0"))
        try await bench.end()
    }
}
