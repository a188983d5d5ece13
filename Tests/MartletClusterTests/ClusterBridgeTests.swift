// SPDX-License-Identifier: Apache-2.0
//
// Push services in a cluster: each node has a door, and the active node's door alone hands over.

import Glibc
import Martlet
import MartletBase
import MartletBridge
import MartletClient
import MartletCrypto
import MartletRows
import MartletWire
import Synchronization
import Testing

/// A push service that takes everything.
private final class TakingService: PushService {
    let kind = BridgeKind.apns
    private let node: String
    private let taken: Taken

    /// The messages that the doors of all nodes have handed over.
    final class Taken: Sendable {
        private let messages = Mutex<[(node: String, text: String)]>([])

        func add(_ node: String, _ text: String) {
            messages.withLock { $0.append((node, text)) }
        }

        var all: [(node: String, text: String)] { messages.withLock { $0 } }
        var texts: [String] { messages.withLock { $0.map(\.text) } }
        func texts(of node: String) -> [String] {
            messages.withLock { $0.filter { $0.node == node }.map(\.text) }
        }
    }

    init(_ node: String, _ taken: Taken) { (self.node, self.taken) = (node, taken) }

    func handOver(_ message: HandOver, with keys: [OpenBridgeKey]) async -> HandOverAnswer {
        let text = try? Message(
            decoding: message.message.message, unknownTags: .skip)["n"]
        taken.add(node, text ?? "?")
        return .taken
    }

    func keysChanged(of project: ProjectNumber) async {}
    func close() async {}
}

/// A device that says HELLO and nothing else.
private final class SilentPeer {
    private let descriptor: Int32

    init(_ port: Int, _ credentials: DeviceCredentials) throws {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        descriptor = socket
        var writer = WireWriter()
        ClientFrame.hello(
            .device(
                projectID: credentials.projectID, token: credentials.token,
                deviceKey: credentials.deviceKey, state: .active, unconfirmed: [])
        ).encode(into: &writer)
        #expect(isConnected)
        #expect(write(socket, writer.bytes, writer.bytes.count) == writer.bytes.count)
    }

    deinit { close(descriptor) }
}

@Suite(
    "Push services in a cluster", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct ClusterBridgeTests {
    private static let project = ClusterBench.project
    private static let app = "com.example.tides"

    private static func address(_ number: UInt8) -> BridgeAddress {
        .apns(
            APNsAddress(
                token: [UInt8](repeating: number, count: 32), isSandbox: false, bundle: app))
    }

    /// A cluster whose nodes all have a door.
    private final class World {
        let bench: ClusterBench
        let taken = TakingService.Taken()
        private var doors: [String: Task<Void, any Error>] = [:]

        init(_ bench: ClusterBench) { self.bench = bench }

        func start(_ node: String) async throws {
            let broker = try await bench.start(node)
            let door = try BridgeDoor(
                broker, BridgeConfiguration(), services: [TakingService(node, taken)])
            doors[node] = Task { try await door.run() }
        }

        func stop(_ node: String) async throws {
            doors[node]?.cancel()
            _ = await doors.removeValue(forKey: node)?.result
            try await bench.stop(node)
        }

        func send(_ text: String, to token: Token, from node: String) async throws {
            _ = try await bench.broker(node).send(
                OutgoingMessage(to: .token(token.text), Message(data: ["n": text])),
                in: ClusterBridgeTests.project)
        }

        func waitForTaken(_ texts: Set<String>) throws {
            let patience = Patience("the push service has not all messages")
            while !texts.isSubset(of: taken.texts) {
                do { try patience.wait() } catch {
                    throw PostgresPrograms.Failure(
                        description: "\(error): it has \(taken.all) and not all of \(texts)")
                }
            }
        }

        func end() async throws {
            for node in bench.names { try await stop(node) }
        }
    }

    private func world() async throws -> (World, registrationKey: String) {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        let world = World(bench)
        for name in bench.names { try await world.start(name) }
        let followers = try await bench.followers()
        let made = try await bench.broker(followers[0]).createProject(Self.project)
        // The key is sealed at a follower, and the active node opens the key.
        try await bench.broker(followers[1]).addAPNsKey(
            try P256PrivateKey().text, id: "ABCDEFGHIJ", teamID: "0123456789", in: Self.project)
        return (world, made.registrationKey)
    }

    @Test("GW-11 OPS-7 the active node hands over, and after a takeover the next one goes on")
    func takeover() async throws {
        let (world, _) = try await world()
        let active = try await world.bench.active()
        let followers = try await world.bench.followers()
        let token = try await world.bench.broker(followers[0]).registerBridged(
            Self.address(1), app: Self.app, platform: .apple, in: Self.project)
        for number in 0..<10 {
            try await world.send("\(number)", to: token, from: followers[number % 2])
        }
        try world.waitForTaken(Set((0..<10).map { "\($0)" }))
        #expect(world.taken.texts(of: active).count == 10)
        #expect(world.taken.texts.count == 10)

        try await world.stop(active)
        for number in 10..<20 {
            try await world.send("\(number)", to: token, from: followers[number % 2])
        }
        try world.waitForTaken(Set((10..<20).map { "\($0)" }))
        let next = try await world.bench.active()
        #expect(Set(world.taken.texts(of: next)).isSuperset(of: (10..<20).map { "\($0)" }))
        let other = followers.first { $0 != next }!
        #expect(world.taken.texts(of: other).isEmpty)

        // The former active node follows, and hands nothing over.
        try await world.start(active)
        try await world.send("20", to: token, from: active)
        try world.waitForTaken(["20"])
        #expect(world.taken.texts(of: next).contains("20"))
        try await world.end()
    }

    @Test(
        """
        NET-11 GW-11 OPS-7 a device on a follower that answers nothing after a message loses its connection \
        to the push service
        """)
    func unheard() async throws {
        let (world, key) = try await world()
        let follower = try await world.bench.followers()[0]
        var options = DeviceOptions()
        options.registration = .key(key)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: world.bench.port(follower), projectID: Self.project,
            appName: Self.app, platform: .apple, options: options)
        try await world.bench.broker(follower).setBridge(
            Self.address(3), ofToken: credentials.token, in: Self.project)
        // The peer reads nothing and answers nothing from here on.
        let peer = try SilentPeer(world.bench.port(follower), credentials)
        try await Task.sleep(for: .seconds(2))
        try await world.send(
            "0", to: try Token(validating: credentials.token), from: follower)
        try world.waitForTaken(["0"])
        withExtendedLifetime(peer) {}
        try await world.end()
    }

    @Test("GW-11 OPS-7 a device's connection to a follower comes before the push service")
    func connection() async throws {
        let (world, key) = try await world()
        let followers = try await world.bench.followers()
        var options = DeviceOptions()
        options.registration = .key(key)
        options.acknowledgementDelay = .milliseconds(20)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: world.bench.port(followers[0]), projectID: Self.project,
            appName: Self.app, platform: .apple, options: options)
        let device = MartletDevice(
            host: "127.0.0.1", port: world.bench.port(followers[0]), credentials: credentials,
            options: options)
        try await device.subscribe(toTopic: "tides")
        try await world.bench.broker(followers[1]).setBridge(
            Self.address(2), ofToken: credentials.token, in: Self.project)
        let token = try Token(validating: credentials.token)
        for number in 0..<5 { try await world.send("\(number)", to: token, from: followers[1]) }
        var texts: [String] = []
        for try await message in device.messages {
            texts.append(message["n"] ?? "")
            await device.acknowledge(message)
            if texts.count == 5 { break }
        }
        #expect(texts == ["0", "1", "2", "3", "4"])
        await device.close()
        try await world.send("5", to: token, from: followers[1])
        try world.waitForTaken(["5"])
        #expect(world.taken.texts == ["5"])
        try await world.end()
    }
}
