// SPDX-License-Identifier: Apache-2.0
//
// The load of a cluster: any node tells of all nodes, and a fanout is in progress until all nodes have ended it.

import Martlet
import MartletBase
import MartletClient
import MartletWire
import Testing

@Suite(
    "The load of a cluster", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct ClusterLoadTests {
    private static let project = ClusterBench.project

    /// Devices of a node that are subscribed to `tides`.
    private func devices(
        _ count: Int, on node: String, _ bench: ClusterBench, key: String
    ) async throws -> [MartletDevice] {
        var options = DeviceOptions()
        options.registration = .key(key)
        var devices: [MartletDevice] = []
        for _ in 0..<count {
            let credentials = try await MartletDevice.register(
                host: "127.0.0.1", port: bench.port(node), projectID: Self.project,
                appName: "com.example.tides", platform: .android, options: options)
            let device = MartletDevice(
                host: "127.0.0.1", port: bench.port(node), credentials: credentials,
                options: options)
            try await device.subscribe(toTopic: "tides")
            devices.append(device)
        }
        return devices
    }

    @Test("QUO-2 QUO-4 OPS-7 any node shows what is left of the quotas that the active node counts")
    func quotas() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        bench.limits.upstreamPerMinute = 6
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        let made = try await bench.broker(active).createProject(Self.project)
        let device = try await devices(1, on: follower, bench, key: made.registrationKey)[0]
        for number in 0..<3 {
            try await device.sendUpstream(
                Message(data: ["n": "\(number)"]), messageID: "m\(number)")
        }
        func left(on node: String) throws -> QuotaSummary? {
            try bench.broker(node).quotas(in: Self.project)
                .first { $0.name == "upstream-per-minute" }
        }
        for name in bench.names {
            let patience = Patience("node \(name) shows the quota as unused")
            while try left(on: name)?.remaining == 6 { try patience.wait() }
            let quota = try #require(try left(on: name))
            #expect(quota.limit == 6 && quota.remaining < 6)
            #expect((1...30_000).contains(try #require(quota.untilFullMilliseconds)))
        }
        await device.close()
        try await bench.end()
    }

    @Test("FAN-8 OPS-7 any node shows the connections of all nodes, and which node is active")
    func status() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        let made = try await bench.broker(active).createProject(Self.project)
        let there = try await devices(2, on: followers[0], bench, key: made.registrationKey)
        let here = try await devices(1, on: active, bench, key: made.registrationKey)
        for name in bench.names {
            let patience = Patience("node \(name) does not know the others")
            var status = try await bench.broker(name).status()
            while status.connectionCount != 3 || status.nodes.count != 3 {
                try patience.wait()
                status = try await bench.broker(name).status()
            }
            let counts = Dictionary(
                uniqueKeysWithValues: status.nodes.map { ($0.node, $0.connectionCount) })
            #expect(counts == [active: 1, followers[0]: 2, followers[1]: 0])
            #expect(status.nodes.filter(\.isActive).map(\.node) == [active])
            // Loops count the connections of projects once a second.
            while status.projects.first?.connectionCount != 3 {
                try patience.wait()
                status = try await bench.broker(name).status()
            }
        }
        for device in there + here { await device.close() }
        try await bench.end()
    }

    @Test("FAN-1 FAN-8 OPS-7 a fanout is in progress until the loops of all nodes have ended it")
    func fanout() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        // One for each node.
        bench.deliveriesPerSecond = 3
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        let made = try await bench.broker(active).createProject(Self.project)
        let key = made.registrationKey
        let devices =
            try await devices(1, on: active, bench, key: key)
            + devices(3, on: followers[0], bench, key: key)
            + devices(6, on: followers[1], bench, key: key)
        var watch = try bench.broker(active).watch(Self.project).makeAsyncIterator()
        let receipt = try await bench.broker(active).send(
            OutgoingMessage(to: .topic("tides"), Message(data: ["n": "1"])), in: Self.project)
        #expect(receipt.recipientCount == 10)
        for name in bench.names {
            let patience = Patience("node \(name) shows no progress of the followers' loops")
            while true {
                let seen = try await bench.broker(name).fanouts(in: Self.project).entries
                if let one = seen.first, one.deliveredCount > 1 {
                    #expect(seen.count == 1)
                    #expect(one.recipientCount == 10)
                    #expect(one.deliveredCount <= 10)
                    break
                }
                try patience.wait()
            }
        }
        let counting = Patience("node \(followers[0]) does not count the fanout")
        while try await bench.broker(followers[0]).status().projects.first?.fanoutsInProgress != 1 {
            try counting.wait()
        }
        var last: DeliveryProgress?
        while last?.isDone != true, let event = await watch.next() {
            if case .progress(let progress) = event { last = progress }
        }
        #expect(last?.deliveredCount == 10)
        for name in bench.names {
            let patience = Patience("the fanout does not end at node \(name)")
            while try await !bench.broker(name).fanouts(in: Self.project).entries.isEmpty {
                try patience.wait()
            }
        }
        for device in devices { await device.close() }
        try await bench.end()
    }

    @Test("FAN-1 OPS-7 a fanout on another node takes a place until its end")
    func limit() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        bench.deliveriesPerSecond = 3
        bench.limits.fanoutsInProgressMax = 1
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        let made = try await bench.broker(active).createProject(Self.project)
        // The active node has no device, so its own loop ends its parts at once.
        let devices = try await devices(4, on: follower, bench, key: made.registrationKey)
        let message = OutgoingMessage(to: .topic("tides"), Message(data: ["n": "1"]))
        let first = try await bench.broker(active).send(message, in: Self.project)
        let second = try await bench.broker(follower).send(message, in: Self.project)
        #expect(first.deferredPlace == nil)
        #expect(second.deferredPlace == 1)
        let listed = Patience("node \(follower) does not list the deferred message")
        while try await bench.broker(follower).fanouts(in: Self.project).entries
            .map(\.deferredPlace) != [nil, 1]
        {
            try listed.wait()
        }
        // The end of the first fanout lets the second begin, on all nodes.
        let begun = Patience("the deferred message does not begin")
        while try await bench.broker(active).fanouts(in: Self.project).entries
            .map(\.messageID) != [second.messageID ?? ""]
        {
            try begun.wait()
        }
        let ended = Patience("the deferred message does not end")
        while try await !bench.broker(active).fanouts(in: Self.project).entries.isEmpty {
            try ended.wait()
        }
        for device in devices { await device.close() }
        try await bench.end()
    }

    @Test("FAN-1 OPS-7 the end of a follower ends its parts of fanouts")
    func followerEnds() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        bench.deliveriesPerSecond = 1
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        let made = try await bench.broker(active).createProject(Self.project)
        let devices = try await devices(30, on: follower, bench, key: made.registrationKey)
        _ = try await bench.broker(active).send(
            OutgoingMessage(to: .topic("tides"), Message(data: ["n": "1"])), in: Self.project)
        let begun = Patience("the fanout does not begin")
        while try await bench.broker(active).fanouts(in: Self.project).entries.first?
            .deliveredCount ?? 0 == 0
        {
            try begun.wait()
        }
        try await bench.stop(follower)
        let ended = Patience("the fanout does not end with its node")
        while try await !bench.broker(active).fanouts(in: Self.project).entries.isEmpty {
            try ended.wait()
        }
        for device in devices { await device.close() }
        try await bench.end()
    }
}
