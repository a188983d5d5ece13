// SPDX-License-Identifier: Apache-2.0
//
// Nodes without the log: what such a node serves depends on what the other nodes may be doing. Rests on ClusterBench.

import Foundation
import Glibc
import Martlet
import MartletBase
import MartletClient
import MartletCluster
import MartletPostgres
import MartletRows
import MartletWire
import Synchronization
import Testing

@Suite(
    "Nodes without the log", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct OutageTests {
    private static let project = ClusterBench.project

    /// The answer of a node to a HELLO.
    private enum Answer: Equatable {
        case welcome(acknowledgedThrough: UInt64)
        case refused(ErrorWord)
    }

    /// Sends HELLO on a connection of its own.
    private func say(_ hello: Hello, to node: String, _ bench: ClusterBench) throws -> Answer {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(bench.port(node)).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var patience = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        #expect(isConnected)
        var writer = WireWriter()
        ClientFrame.hello(hello).encode(into: &writer)
        #expect(write(descriptor, writer.bytes, writer.bytes.count) == writer.bytes.count)
        var splitter = FrameSplitter(frameBytesMax: Limits.senderFrameBytesMax)
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else {
                throw PostgresPrograms.Failure(description: "node \(node) does not answer HELLO")
            }
            let frame = try buffer.withUnsafeBytes { (bytes) throws -> BrokerFrame? in
                var chunk = UnsafeRawBufferPointer(rebasing: bytes[..<count])
                guard let frame = try splitter.next(from: &chunk) else { return nil }
                return try BrokerFrame.decode(
                    type: frame.type, body: RawSpan(_unsafeBytes: frame.body))
            }
            switch frame {
            case .welcome(let welcome):
                return .welcome(acknowledgedThrough: welcome.acknowledgedThrough)
            case .error(let error): return .refused(error.error.word)
            default: continue
            }
        }
    }

    private func hello(of credentials: DeviceCredentials) -> Hello {
        .device(
            projectID: credentials.projectID, token: credentials.token,
            deviceKey: credentials.deviceKey, state: .active, unconfirmed: [])
    }

    /// Sends messages, has a device on a node take and acknowledge them, and waits for the confirmation.
    private func deliver(
        _ count: Int, to credentials: DeviceCredentials, from sending: String, on node: String,
        _ bench: ClusterBench
    ) async throws {
        var options = DeviceOptions()
        options.acknowledgementDelay = .milliseconds(20)
        let device = MartletDevice(
            host: "127.0.0.1", port: bench.port(node), credentials: credentials, options: options)
        for number in 0..<count {
            _ = try await bench.broker(sending).send(
                OutgoingMessage(
                    to: .token(credentials.token), Message(data: ["n": "\(number)"])),
                in: Self.project)
        }
        var taken = 0
        for try await message in device.messages {
            await device.acknowledge(message)
            taken += 1
            if taken == count { break }
        }
        await device.close()
    }

    private func waitUntilCutOff(_ node: String, _ bench: ClusterBench) throws {
        let patience = Patience("node \(node) does not notice")
        while !bench.broker(node).metricsText.contains("\nmartlet_cluster_link_up 0") {
            try patience.wait()
        }
        usleep(3_500_000)
    }

    @Test(
        "OPS-7 OPS-10 while the log takes no rows, every node refuses changes within three seconds and says why"
    )
    func full() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        _ = try await bench.broker(active).createProject(Self.project)
        for name in try await bench.followers() { try bench.waitUntilEqual(active, name) }
        let gauge = "\nmartlet_cluster_log_refusing "
        #expect(bench.broker(active).metricsText.contains(gauge + "0"))
        bench.faults.isFull.store(true, ordering: .releasing)
        // The first request finds the fault, and those after it are refused at once.
        for attempt in 0..<2 {
            for name in bench.names.filter({ $0 != active }) + [active] {
                let began = ContinuousClock.now
                let refusal = await #expect(throws: MartletError.self) {
                    _ = try await bench.broker(name).createServerKey(
                        named: "k\(attempt)", in: Self.project)
                }
                #expect(refusal?.word == .unavailable)
                #expect(
                    refusal?.message.contains("the log takes no rows") == true,
                    "node \(name): \(refusal?.message ?? "")")
                #expect(ContinuousClock.now - began < .seconds(3), "node \(name)")
            }
        }
        #expect(bench.broker(active).metricsText.contains(gauge + "1"))
        bench.faults.isFull.store(false, ordering: .releasing)
        // The node finds out by itself.
        let patience = Patience("the log is not tried again")
        while bench.broker(active).metricsText.contains(gauge + "1") { try patience.wait() }
        for (number, name) in bench.names.enumerated() {
            let again = Patience("node \(name) takes nothing")
            while (try? await bench.broker(name).createServerKey(
                named: "after\(number)", in: Self.project)) == nil
            {
                try again.wait()
            }
        }
        try await bench.end()
    }

    @Test(
        "OPS-7 FAN-8 an operator sees the status and the metrics of a node that the log does not answer"
    )
    func status() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let follower = try await bench.followers()[0]
        bench.faults.cutOff.withLock { $0 = Set(bench.names) }
        usleep(3_500_000)
        let key = try String(contentsOfFile: bench.path(follower) + "/admin.key", encoding: .utf8)
        let administrator = MartletAdministrator(
            host: "127.0.0.1", port: bench.port(follower),
            administratorKey: key.trimmingCharacters(in: .whitespacesAndNewlines))
        _ = try await administrator.status()
        #expect(try await administrator.metrics().contains("\nmartlet_cluster_active 0"))
        let refusal = await #expect(throws: MartletError.self) {
            _ = try await administrator.serverKeys(in: Self.project)
        }
        #expect(refusal?.word == .unavailable)
        await administrator.close()
        bench.faults.cutOff.withLock { $0 = [] }
        try await bench.end()
    }

    @Test(
        """
        TTL-4 OPS-7 a node without the log and without a link refuses devices and senders while others \
        may go on, and serves while none does and none knows more
        """)
    func cutOff() async throws {
        let bench = try ClusterBench(try #require(WithPostgres.shared).pair)
        try await bench.begin()
        for name in bench.names { try await bench.start(name) }
        let active = try await bench.active()
        let followers = try await bench.followers()
        let (other, cut) = (followers[0], followers[1])
        let made = try await bench.broker(active).createProject(Self.project)
        let key = try await bench.broker(active).createServerKey(named: "k", in: Self.project)
        var options = DeviceOptions()
        options.registration = .key(made.registrationKey)
        let credentials = try await MartletDevice.register(
            host: "127.0.0.1", port: bench.port(other), projectID: Self.project,
            appName: "com.example.tides", platform: .android, options: options)
        try await deliver(5, to: credentials, from: active, on: other, bench)
        for name in followers { try bench.waitUntilEqual(active, name) }
        let sender = Hello.sender(projectID: Self.project, serverKey: key.text)

        // The link brings all rows, so the node serves what the others know.
        bench.faults.cutOff.withLock { _ = $0.insert(cut) }
        usleep(3_500_000)
        try await deliver(5, to: credentials, from: active, on: other, bench)
        // The last acknowledgement may still be on its way.
        let patience = Patience("a node with a link does not serve what the others know")
        while try say(hello(of: credentials), to: cut, bench) != .welcome(acknowledgedThrough: 10) {
            try patience.wait()
        }
        #expect(try say(sender, to: cut, bench) == .welcome(acknowledgedThrough: 0))

        // The role moves to a node that the cut-off node knows nothing of, and the link ends.
        try bench.log().ask(
            NodeWish(
                node: try NodeName(validating: active),
                kind: .handOver(to: try NodeName(validating: other))), within: .ample)
        try waitUntilCutOff(cut, bench)
        #expect(try await bench.active() == other)
        try await deliver(5, to: credentials, from: active, on: other, bench)
        #expect(try say(hello(of: credentials), to: cut, bench) == .refused(.unavailable))
        #expect(try say(sender, to: cut, bench) == .refused(.unavailable))

        // Nobody has the log. The node lacks rows of the others, who serve what they have.
        bench.faults.cutOff.withLock { $0 = Set(bench.names) }
        try waitUntilCutOff(active, bench)
        #expect(try say(hello(of: credentials), to: cut, bench) == .refused(.unavailable))
        guard case .welcome = try say(hello(of: credentials), to: other, bench) else {
            Issue.record("the node with the last row refuses devices while no node is active")
            return
        }
        #expect(try say(sender, to: other, bench) == .welcome(acknowledgedThrough: 0))

        bench.faults.cutOff.withLock { $0 = [] }
        let again = Patience("the node does not serve again")
        while try say(hello(of: credentials), to: cut, bench) == .refused(.unavailable) {
            try again.wait()
        }
        try bench.waitUntilEqual(other, cut)
        try await bench.end()
    }
}
