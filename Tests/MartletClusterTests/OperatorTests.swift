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

    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }

    private func bench() async throws -> ClusterBench {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        return bench
    }

    /// Sends without an end, and never again: each refusal is a failure.
    private func sendAll(
        _ bench: ClusterBench, through node: String, key: String, until isOver: Flag
    ) async throws -> Int {
        let sender = try await MartletSender.connect(
            host: "127.0.0.1", port: bench.port(node), projectID: Self.project, serverKey: key)
        var count = 0
        while !isOver.isSet.load(ordering: .acquiring) {
            _ = try await sender.send(Message(data: ["n": "\(count)"]), to: .topic("tides"))
            count += 1
        }
        await sender.close()
        return count
    }

    @Test("OPS-7 the active role is handed over under load, and no request is refused")
    func handsOver() async throws {
        let bench = try await bench()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        _ = try await bench.broker(active).createProject(Self.project)
        let key = try await bench.broker(active).createServerKey(named: "k", in: Self.project)
        let isOver = Flag()
        // On the active node, on its successor, and on the node beside.
        async let first = sendAll(bench, through: active, key: key.text, until: isOver)
        async let second = sendAll(bench, through: followers[0], key: key.text, until: isOver)
        async let third = sendAll(bench, through: followers[1], key: key.text, until: isOver)
        let log = try bench.log()
        var (holder, successor) = (active, followers[1])
        for _ in 0..<4 {
            try log.ask(
                NodeWish(
                    node: try NodeName(validating: holder),
                    kind: .handOver(to: try NodeName(validating: successor))), within: .ample)
            let patience = Patience("the role is not handed over")
            while try log.lease(within: .ample).holder?.text != successor
                || log.lease(within: .ample).isOver
            {
                try patience.wait()
            }
            (holder, successor) = (
                successor, bench.names.first { $0 != successor && $0 != holder }!
            )
        }
        #expect(try log.wishes(within: .ample).isEmpty)
        isOver.isSet.store(true, ordering: .releasing)
        let counts = try await [first, second, third]
        #expect(counts.allSatisfy { $0 > 10 }, "\(counts)")
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
        let patience = Patience("the node is not drained")
        while bench.broker(drained).statistics.connectionCount > 0 { try patience.wait() }
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
        // The node follows, and commands on its machine go on.
        _ = try await bench.broker(drained).createServerKey(named: "l", in: Self.project)
        try bench.waitUntilEqual(drained, other)
        await device.close()

        try log.withdraw(NodeWish(node: name, kind: .drain), within: .ample)
        let end = Patience("the node takes no clients again")
        while (try? await connect()) == nil { try end.wait() }
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

    @Test("OPS-10 the rules for a cluster rest on metrics that a node serves")
    func metrics() async throws {
        let bench = try await bench()
        try await bench.start("a")
        _ = try await bench.active()
        let text = bench.broker("a").metricsText
        let rules = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Examples/prometheus-alerts.yml"), encoding: .utf8)
        let names = Set(rules.matches(of: /martlet_cluster_\w+/).map { String($0.0) })
        #expect(names.count >= 4)
        for name in names { #expect(text.contains("\n\(name) "), "\(name)") }
        #expect(text.contains("\nmartlet_cluster_active 1"))
        #expect(text.contains("\nmartlet_cluster_lag_seconds 0"))
        try await bench.end()
    }
}
