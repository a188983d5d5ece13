// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices in a cluster: listeners on any node get messages of devices of any node, and the end of a node
// hands unacknowledged messages to other listeners.

import Martlet
import MartletBase
import MartletClient
import MartletWire
import Synchronization
import Testing

/// The messages that listeners got, by listener.
private final class Heard: Sendable {
    private let messages = Mutex<[String: [String]]>([:])

    func add(_ message: DeviceMessage, by listener: String) {
        messages.withLock { $0[listener, default: []].append(message.messageID) }
    }

    var all: [String] { messages.withLock { $0.values.flatMap(\.self) } }
    func of(_ listener: String) -> [String] { messages.withLock { $0[listener] ?? [] } }
}

@Suite(
    "Messages of devices in a cluster", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct ClusterUpstreamTests {
    private static let project = ClusterBench.project

    /// A cluster with a project, and a device on a node.
    private struct World {
        let bench: ClusterBench
        let active: String
        let followers: [String]
        let key: String
        let device: MartletDevice

        func sender(on node: String) async throws -> MartletSender {
            try await MartletSender.connect(
                host: "127.0.0.1", port: bench.port(node), projectID: project, serverKey: key)
        }

        func send(_ numbers: Range<Int>) async throws {
            for number in numbers {
                try await device.sendUpstream(
                    Message(data: ["n": "\(number)"]), messageID: "m\(number)")
            }
        }

        func end() async throws {
            await device.close()
            try await bench.end()
        }
    }

    /// - Parameter place: the node of the device, by its number among the followers.
    private func world(deviceAt place: Int) async throws -> World {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let followers = try await bench.followers()
        let made = try await bench.broker(followers[0]).createProject(Self.project)
        let key = try await bench.broker(followers[1]).createServerKey(
            named: "k", in: Self.project)
        var options = DeviceOptions()
        options.registration = .key(made.registrationKey)
        let port = bench.port(followers[place])
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: port, projectID: Self.project,
            appName: "com.example.tides", platform: .android, options: options)
        return World(
            bench: bench, active: try await bench.active(), followers: followers, key: key.text,
            device: MartletDevice(
                host: "127.0.0.1", port: port, credentials: credentials, options: options))
    }

    private func listen(
        _ sender: MartletSender, as name: String, _ heard: Heard
    ) -> Task<Void, any Error> {
        Task {
            try await sender.takeUpstreamMessages { message in
                heard.add(message, by: name)
                return true
            }
        }
    }

    @Test("UPS-1 OPS-7 listeners on all nodes get messages of a device, each of them once")
    func anywhere() async throws {
        let world = try await world(deviceAt: 0)
        let heard = Heard()
        // A single listener, on a node that is neither active nor the device's.
        let nodes = [world.followers[1], world.followers[0], world.active]
        var senders = [try await world.sender(on: nodes[0])]
        var tasks = [listen(senders[0], as: nodes[0], heard)]
        try await world.send(0..<10)
        let first = Patience("the follower's listener has not all messages")
        while heard.all.count < 10 { try first.wait() }
        #expect(Set(heard.of(nodes[0])) == Set((0..<10).map { "m\($0)" }))
        // Listeners on all nodes take turns.
        for node in nodes.dropFirst() {
            let sender = try await world.sender(on: node)
            senders.append(sender)
            tasks.append(listen(sender, as: node, heard))
        }
        var count = 10
        let turns = Patience("a listener gets no message")
        while nodes.contains(where: { heard.of($0).isEmpty }) {
            try await world.send(count..<count + 5)
            count += 5
            try turns.wait()
        }
        let last = Patience("messages are missing")
        while heard.all.count < count { try last.wait() }
        #expect(heard.all.count == count)
        #expect(Set(heard.all) == Set((0..<count).map { "m\($0)" }))
        for task in tasks { task.cancel() }
        for sender in senders { await sender.close() }
        try await world.end()
    }

    @Test("UPS-1 OPS-7 listeners go on after a takeover, and get new messages once")
    func takeover() async throws {
        let world = try await world(deviceAt: 0)
        let sender = try await world.sender(on: world.followers[1])
        let heard = Heard()
        try await world.send(0..<10)
        try await sender.takeUpstreamMessages { message in
            heard.add(message, by: "before")
            return heard.all.count < 4
        }
        let task = listen(sender, as: "after", heard)
        try await world.bench.stop(world.active)
        try await world.send(10..<20)
        let all = Set((0..<20).map { "m\($0)" })
        let patience = Patience("messages are missing after the takeover")
        while Set(heard.all) != all { try patience.wait() }
        // Acknowledgements on their way at the takeover may come to the next active node behind the messages.
        let times = Dictionary(grouping: heard.all) { $0 }.mapValues(\.count)
        #expect(times.values.allSatisfy { $0 <= 2 })
        #expect((10..<20).allSatisfy { times["m\($0)"] == 1 })
        task.cancel()
        await sender.close()
        try await world.end()
    }

    @Test("UPS-1 OPS-7 what a listener has not acknowledged goes to others if its node ends")
    func nodeEnds() async throws {
        let world = try await world(deviceAt: 1)
        let (gone, stays) = (world.followers[0], world.followers[1])
        // The application in the process of the node has a message and does not ask for the next.
        var held = world.bench.broker(gone).upstreamMessages(in: Self.project).makeAsyncIterator()
        try await world.send(0..<1)
        #expect(try await held.next()?.messageID == "m0")
        let heard = Heard()
        let sender = try await world.sender(on: stays)
        let task = listen(sender, as: stays, heard)
        try await world.send(1..<2)
        try await world.bench.stop(gone)
        let patience = Patience("the message does not come again")
        while Set(heard.all) != ["m0", "m1"] { try patience.wait() }
        task.cancel()
        await sender.close()
        try await world.end()
    }

    @Test("UPS-1 OPS-7 an embedder listens at a follower, and goes on when the node is active")
    func embedded() async throws {
        let world = try await world(deviceAt: 0)
        var iterators = world.followers.map {
            world.bench.broker($0).upstreamMessages(in: Self.project).makeAsyncIterator()
        }
        try await world.send(0..<1)
        // A message now or never reaches a listener of another node.
        #expect(try await iterators[1].next()?.messageID == "m0")
        try await world.device.sendUpstream(
            Message(data: ["n": "now"]), messageID: "now", timeToLiveSeconds: 0)
        #expect(try await iterators[1].next()?.messageID == "now")
        try await iterators[1].take()
        try await world.bench.stop(world.active)
        _ = iterators.removeFirst()
        try await world.send(1..<2)
        #expect(try await iterators[0].next()?.messageID == "m1")
        try await iterators[0].take()
        try await world.end()
    }
}
