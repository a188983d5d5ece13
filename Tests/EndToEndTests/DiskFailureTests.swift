// SPDX-License-Identifier: Apache-2.0
//
// A disk fails once, or for some time, under a serving broker, as seen from outside (OPS-12). The broker goes on by itself,
// and nothing that it accepted is lost. Rests on FailingDisk, Desk and WireClient.

import Foundation
import Glibc
import MartletBase
import MartletWire
import Testing

@Suite("A disk that fails", .serialized, .timeLimit(.minutes(5)))
struct DiskFailureTests {
    private struct Ready: Decodable {
        var port: UInt16
        var http: String?
        var metrics: String?
    }
    private struct Key: Decodable { var key: String }

    /// A broker whose disk can fail, a device and a sender.
    private final class World {
        let desk: Desk
        let disk: FailingDisk
        var broker: Process
        private(set) var port: UInt16
        private(set) var gatewayPort: UInt16?
        private(set) var metricsPort: UInt16?
        let device: WireClient
        private let welcome: Welcome
        private let sender: WireClient
        private var correlation: UInt32 = 0
        private(set) var accepted: [UInt64] = []
        private(set) var refusals: [MartletError] = []

        private static let options = [
            "--port", "0", "--json", "--loops", "1", "--limit", "stored-per-instance-max=0",
            "--limit", "device-messages-per-minute=0", "--limit", "device-messages-per-hour=0",
        ]

        init(_ command: [String] = ["serve"], environment: [String: String] = [:]) throws {
            desk = try Desk()
            disk = try FailingDisk(in: desk.folder)
            #expect(try desk.run("project", "create", "tides").status == 0)
            let made = try desk.run("key", "create", "--project", "tides", "--json")
            let key = try JSONDecoder().decode(Key.self, from: Data(made.out.utf8)).key
            broker = try desk.start(
                command + Self.options, environment: disk.environment.merging(environment) { $1 })
            let ready = try JSONDecoder().decode(
                Ready.self, from: Data(desk.firstLine(broker).utf8))
            port = ready.port
            gatewayPort = ready.http?.split(separator: ":").last.flatMap { UInt16($0) }
            metricsPort = ready.metrics.flatMap { URL(string: $0)?.port.flatMap { UInt16($0) } }
            device = try WireClient(port: port)
            device.send(
                Hello.newDevice(
                    projectID: "tides", appName: "a.b", platform: .android,
                    credential: .key(try desk.registrationKey(of: "tides"))))
            guard case .welcome(let welcome) = try device.receive() else {
                throw WireClient.Failure(text: "no WELCOME")
            }
            self.welcome = welcome
            sender = try WireClient(port: port)
            #expect(try sender.hello(.sender(projectID: "tides", serverKey: key)))
        }

        deinit {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
            desk.remove()
        }

        /// Whether the broker accepts a message to the device.
        @discardableResult
        func send() throws -> Bool {
            try begin()
            return try isAccepted()
        }

        /// Sends a message to the device, and does not wait for the answer.
        func begin() throws {
            correlation += 1
            let body = try Message(data: [.init(key: "n", value: "\(correlation)")]).encoded()
            sender.send(
                SendRequest(
                    correlation: correlation, target: .token(welcome.token), message: body))
        }

        /// Waits for the answer to the last message.
        func isAccepted() throws -> Bool {
            switch try sender.receive() {
            case .accepted(let acceptance): accepted.append(acceptance.messageNumber)
            case .error(let error):
                refusals.append(error.error)
                return false
            case let other: throw WireClient.Failure(text: "\(String(describing: other))")
            }
            return true
        }

        /// The messages that a connection of the device brings.
        func delivered(to client: WireClient, count: Int) throws -> [UInt64] {
            var numbers: [UInt64] = []
            while numbers.count < count {
                switch try client.receive() {
                case .deliver(let delivery): numbers.append(delivery.streamID)
                case .ping, .confirmed: break
                case let other: throw WireClient.Failure(text: "\(String(describing: other))")
                }
            }
            return numbers
        }

        /// Kills the broker, and serves the folder again on a sound disk.
        /// - Returns: the device's next connection, and what the killed broker logged.
        func restart() throws -> (device: WireClient, log: String) {
            kill(broker.processIdentifier, SIGKILL)
            let log = desk.finish(broker).err
            broker = try desk.start(["serve"] + Self.options)
            port = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(broker).utf8))
                .port
            let client = try WireClient(port: port)
            #expect(
                try client.hello(
                    .device(
                        projectID: "tides", token: welcome.token, deviceKey: welcome.deviceKey,
                        state: .active, unconfirmed: [])))
            return (client, log)
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var files = ["data.mdb", "journal.0", "journal.1"]
        var calls = "ws"
        var code: Int32
        var count: Int?
        var testDescription: String { count == nil ? "\(name), for some time" : "\(name), once" }

        func faults() -> [FailingDisk.Fault] {
            files.map { .init(name: $0, calls: calls, code: code, count: count) }
        }
    }

    private static let journals = ["journal.0", "journal.1"]
    private static let cases: [Case] = [
        Case(name: "EIO in a checkpoint", files: ["data.mdb"], calls: "s", code: EIO, count: 1),
        Case(name: "EIO in a checkpoint", files: ["data.mdb"], calls: "s", code: EIO),
        Case(name: "EIO in LMDB's writes", files: ["data.mdb"], calls: "w", code: EIO, count: 1),
        Case(name: "EIO in LMDB's writes", files: ["data.mdb"], calls: "w", code: EIO),
        Case(name: "EIO in the journal", files: journals, calls: "w", code: EIO, count: 1),
        Case(name: "EIO in the journal", files: journals, calls: "w", code: EIO),
        Case(name: "EIO everywhere", code: EIO),
        Case(name: "a read-only file system", code: EROFS),
        Case(name: "a full disk", calls: "w", code: ENOSPC),
        Case(name: "a quota that is used up", calls: "w", code: EDQUOT),
    ]

    @Test(
        "OPS-12 after a failure of the disk the broker goes on without a restart, and has lost nothing",
        arguments: cases)
    func goesOn(failure: Case) throws {
        let world = try World()
        for _ in 0..<100 { #expect(try world.send()) }
        try world.disk.fail(failure.faults())
        if failure.count != nil {
            // Past a checkpoint, which begins after a thousand transactions.
            for _ in 0..<1300 { try world.send() }
        } else {
            // The store tries to open the folder again every second.
            for _ in 0..<1500 where world.refusals.count < 15 {
                if try !world.send() { usleep(100_000) }
            }
            // A checkpoint begins after a thousand transactions, and its failure may leave room for some more.
            #expect(world.refusals.count == 15 || failure.calls == "s")
            #expect(world.refusals.allSatisfy { $0.word == .unavailable }, "\(world.refusals)")
            try world.disk.mend()
        }
        var inARow = 0
        for _ in 0..<600 where inARow < 50 {
            inARow = try world.send() ? inARow + 1 : 0
            if inARow == 0 { usleep(50_000) }
        }
        #expect(inARow == 50, "\(world.refusals)")
        #expect(world.broker.isRunning)
        if failure.count != nil { #expect(world.refusals.count <= 3, "\(world.refusals)") }
        let accepted = world.accepted
        #expect(try world.delivered(to: world.device, count: accepted.count) == accepted)
        let beside = try world.desk.run("check")
        #expect(beside.status == 0, "\(beside)")
        let (device, log) = try world.restart()
        #expect(try world.delivered(to: device, count: accepted.count) == accepted)
        let check = try world.desk.run("check")
        #expect(check.status == 0, "\(check)")
        if failure.code == EIO, failure.files == ["data.mdb"] {
            #expect(log.contains("the store was opened again"), "\(log)")
        }
    }

    @Test("OPS-12 /healthz and top say what is wrong while it lasts, and no longer")
    func told() throws {
        let world = try World(["serve", "--http", "127.0.0.1:0"])
        let port = try #require(world.gatewayPort)
        func health() throws -> String {
            let client = try HTTPClient(port: port)
            client.send("GET", "/healthz")
            return try client.answer()
        }
        #expect(try health().hasPrefix("HTTP/1.1 200 "))
        try world.disk.fail(Case(name: "", code: EIO).faults())
        var answer = ""
        for _ in 0..<100 where !answer.hasPrefix("HTTP/1.1 503 ") {
            usleep(100_000)
            answer = try health()
        }
        #expect(answer.contains("Input/output error"), "\(answer)")
        let top = try world.desk.run("top", "--once", "--json")
        #expect(top.out.contains(#""storeState":"refusing""#), "\(top)")
        try world.disk.mend()
        for _ in 0..<300 where !answer.hasPrefix("HTTP/1.1 200 ") {
            usleep(100_000)
            answer = try health()
        }
        #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
        let later = try world.desk.run("top", "--once", "--json")
        #expect(later.out.contains(#""storeState":"ok""#), "\(later)")
        #expect(world.broker.isRunning)
    }

    @Test(
        "OPS-15 OPS-12 probes and metrics are answered while the disk hangs, and the watchdog is not fed"
    )
    func hangs() throws {
        let name = "@martlet-\(UUID().uuidString)"
        let manager = NotifySocket(name)
        let world = try World(
            ["serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
            environment: ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "300000"])
        let ports = [try #require(world.gatewayPort), try #require(world.metricsPort)]
        func answer(_ path: String, at port: UInt16) throws -> String {
            let client = try HTTPClient(port: port)
            client.send("GET", path)
            return try client.answer()
        }
        #expect(try world.send())
        for port in ports {
            #expect(try answer("/healthz", at: port).hasPrefix("HTTP/1.1 200 "))
        }
        #expect(manager.next() == "READY=1")
        try world.disk.fail(
            Self.journals.map {
                .init(name: $0, calls: "w", code: 0, count: 1, microseconds: 20_000_000)
            })
        try world.begin()
        for port in ports {
            var health = ""
            for _ in 0..<100 where !health.contains("The disk has not answered for ") {
                usleep(50_000)
                health = try answer("/healthz", at: port)
            }
            #expect(health.hasPrefix("HTTP/1.1 503 "), "\(health)")
            #expect(health.contains("The disk has not answered for "), "\(health)")
            let metrics = try answer("/metrics", at: port)
            #expect(metrics.contains("\nmartlet_connections 2\n"), "\(metrics.prefix(300))")
            #expect(metrics.contains("\nmartlet_disk_free_bytes "))
            #expect(metrics.contains("\nmartlet_silent_seconds "))
            #expect(!metrics.contains("\nmartlet_silent_seconds 0\n"))
        }
        // The last sign of life comes later than the first refused probe.
        var quietCount = 0
        for _ in 0..<100 where quietCount < 10 {
            usleep(100_000)
            quietCount = manager.takeWaiting() == nil ? quietCount + 1 : 0
            #expect(try answer("/healthz", at: ports[1]).contains("The disk has not answered for "))
        }
        #expect(quietCount == 10)
        #expect(try world.isAccepted())
        #expect(manager.next(withLife: true) == "WATCHDOG=1")
        for port in ports {
            #expect(try answer("/healthz", at: port).hasPrefix("HTTP/1.1 200 "))
        }
        #expect(world.broker.isRunning)
    }
}
