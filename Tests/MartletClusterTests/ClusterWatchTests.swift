// SPDX-License-Identifier: Apache-2.0
//
// Watched projects of a cluster: a watcher on any node sees the events of all nodes.

import Martlet
import MartletBase
import MartletClient
import MartletWire
import Testing

@Suite(
    "Watched projects of a cluster", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct ClusterWatchTests {
    private static let project = ClusterBench.project

    /// What a watcher has seen.
    private struct Seen {
        var accepted: [String] = []
        var progress: [String: DeliveryProgress] = [:]
        var refused: [MartletError] = []
        var sums: ProjectSums?

        mutating func add(_ event: ProjectEvent) {
            switch event {
            case .accepted(let message): accepted.append(message.messageID)
            case .progress(let one): progress[one.messageID] = one
            case .refused(let error): refused.append(error)
            case .sums(let sums): self.sums = sums
            }
        }
    }

    private func device(on node: String, _ bench: ClusterBench, key: String) async throws
        -> MartletDevice
    {
        var options = DeviceOptions()
        options.registration = .key(key)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: bench.port(node), projectID: Self.project,
            appName: "com.example.tides", platform: .android, options: options)
        let device = MartletDevice(
            host: "127.0.0.1", port: bench.port(node), credentials: credentials, options: options)
        try await device.subscribe(toTopic: "tides")
        return device
    }

    @Test("EMB-3 OPS-7 a watcher on any node sees messages, progress and sums of all nodes")
    func anywhere() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let followers = try await bench.followers()
        let made = try await bench.broker(followers[0]).createProject(Self.project)
        _ = try await bench.broker(followers[0]).createProject("other")
        let present = try await device(on: followers[1], bench, key: made.registrationKey)
        let connected = Patience("the loop does not count its connection")
        while try await bench.broker(followers[1]).status().projects.first?.connectionCount != 1 {
            try connected.wait()
        }
        var watches: [String: ProjectWatch.Iterator] = [:]
        var seen: [String: Seen] = [:]
        for name in bench.names {
            let patience = Patience("node \(name) does not know the project")
            while watches[name] == nil {
                watches[name] = try? bench.broker(name).watch(Self.project).makeAsyncIterator()
                try patience.wait()
            }
            seen[name] = Seen()
        }
        func wait(_ wanted: String, until isDone: (Seen) -> Bool) throws {
            for name in bench.names {
                let patience = Patience("node \(name): \(wanted)")
                while !isDone(seen[name]!) {
                    for event in watches[name]!.takeWaiting() { seen[name]!.add(event) }
                    do { try patience.wait() } catch {
                        Issue.record("\(seen[name]!)")
                        throw error
                    }
                }
            }
        }
        try wait("the connection is not counted") { $0.sums?.connectionCount == 1 }
        // A device of each node comes after the watchers.
        var devices = [present]
        for name in bench.names {
            devices.append(try await device(on: name, bench, key: made.registrationKey))
        }
        // A device registers over a connection of its own.
        try wait("connections are not counted") { seen in
            seen.sums.map {
                $0.connectionCount == 4 && $0.connectedCount == $0.disconnectedCount + 3
            }
                ?? false
        }
        // A message by each node, and one of another project.
        let message = OutgoingMessage(to: .topic("tides"), Message(data: ["n": "1"]))
        var sent: [String] = []
        for name in bench.names {
            let receipt = try await bench.broker(name).send(message, in: Self.project)
            sent.append(try #require(receipt.messageID))
        }
        _ = try await bench.broker(followers[0]).send(message, in: "other")
        try wait("a message does not end") { seen in
            sent.allSatisfy { seen.progress[$0]?.isDone == true }
                && seen.sums?.counts.targeted == 12
        }
        for name in bench.names {
            let seen = try #require(seen[name])
            #expect(seen.accepted == sent)
            #expect(Set(seen.progress.keys) == Set(sent))
            for one in seen.progress.values {
                #expect(one.recipientCount == 4 && one.deliveredCount == 4)
            }
            #expect(seen.sums?.acceptedCount == 3)
            #expect(seen.sums?.droppedCount == 0)
        }
        // A watcher that comes later counts the connections of all nodes too.
        for name in bench.names {
            watches[name] = try bench.broker(name).watch(Self.project).makeAsyncIterator()
            seen[name] = Seen()
        }
        try wait("connections from before the watch are not counted") {
            $0.sums?.connectionCount == 4 && $0.sums?.connectedCount == 0
        }
        // The connections of a device and of a node end.
        await devices.removeLast().close()
        try wait("the end of a connection is not counted") {
            $0.sums?.connectionCount == 3 && $0.sums?.disconnectedCount == 1
        }
        for device in devices { await device.close() }
        try wait("the ends of connections are not counted") {
            $0.sums?.connectionCount == 0 && $0.sums?.disconnectedCount == 4
        }
        try await bench.end()
    }

    @Test("EMB-3 OPS-7 without watchers no node keeps events for another")
    func nobody() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let follower = try await bench.followers()[0]
        _ = try await bench.broker(active).createProject(Self.project)
        let patience = Patience("the watch does not begin or end on another node")
        do {
            var watch: ProjectWatch.Iterator?
            while watch == nil {
                watch = try? bench.broker(follower).watch(Self.project).makeAsyncIterator()
                try patience.wait()
            }
            while bench.names.contains(where: { bench.broker($0).watcherCount != 1 }) {
                try patience.wait()
            }
            _ = watch?.takeWaiting()
        }
        while bench.names.contains(where: { bench.broker($0).watcherCount != 0 }) {
            try patience.wait()
        }
        try await bench.end()
    }
}
