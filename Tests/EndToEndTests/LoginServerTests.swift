// SPDX-License-Identifier: Apache-2.0
//
// `Examples/login_server.py`: the server of an app signs tickets, and devices register with them (REG-7). Rests on
// HTTPClient and the embedding API.

import Foundation
import Glibc
import Martlet
import MartletClient
import Testing

@Suite("Tickets of an app's own server", .timeLimit(.minutes(2)))
struct LoginServerTests {
    private static let secret = "0123456789abcdef0123456789abcdef0123456789abcdef"
    private static let app = "com.example.tides"

    /// A broker whose project wants tickets, and the example's server.
    private final class World {
        let desk: Desk
        let broker: Broker
        private let server = Process()
        let port: UInt16

        init() async throws {
            desk = try Desk()
            var configuration = BrokerConfiguration(
                folder: desk.folder.appending(path: "data").path, address: .init(port: 0))
            configuration.loopCount = 1
            broker = try await Broker.open(configuration)
            try await broker.createProject("tides")
            try await broker.setPolicies(registration: .ticket, in: "tides")
            try await broker.addTicketSecret(Array(secret.utf8), id: "login", in: "tides")
            let root = URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
            server.executableURL = URL(filePath: "/usr/bin/env")
            server.arguments = [
                "python3", "-B", root.appending(path: "Examples/login_server.py").path, "0", app,
            ]
            server.environment = ProcessInfo.processInfo.environment.merging(
                ["TICKET_SECRET": secret]) { $1 }
            server.standardOutput = Pipe()
            server.standardError = FileHandle.nullDevice
            try server.run()
            let line = desk.firstLine(server).trimmingCharacters(in: .whitespacesAndNewlines)
            port = try #require(UInt16(line))
        }

        func end() async throws {
            // The server inherits the signals that this process blocks, so SIGTERM may not end it. `waitUntilExit` works
            // on the thread of `run` alone, and a task changes threads.
            kill(server.processIdentifier, SIGKILL)
            while server.isRunning { try await Task.sleep(for: .milliseconds(10)) }
            try await broker.close()
            desk.remove()
        }

        /// What a login answers: a ticket, or nothing.
        static func ticket(_ port: UInt16, _ password: String) throws -> String {
            let client = try HTTPClient(port: port)
            client.send("POST", "/", #"{"user":"ada","password":"\#(password)"}"#)
            let answer = try client.answer()
            return answer.range(of: "\r\n\r\n").map { String(answer[$0.upperBound...]) } ?? ""
        }

        func register(_ registration: DeviceRegistration) async throws -> DeviceCredentials {
            var options = DeviceOptions()
            options.registration = registration
            return try await MartletDevice.register(
                host: "127.0.0.1", port: Int(broker.port!), projectID: "tides", appName: app,
                platform: .android, options: options)
        }

        /// The word with which a registration is refused; nil: the device is registered.
        func refusal(_ registration: DeviceRegistration) async throws -> ErrorWord? {
            do {
                _ = try await register(registration)
                return nil
            } catch let error as MartletError {
                return error.word
            }
        }
    }

    @Test("REG-7 TOP-10: who logs in registers, once for each ticket, and has a topic of its own")
    func login() async throws {
        let world = try await World()
        let port = world.port
        try await world.broker.setPolicies(topics: .noTopics, in: "tides")
        let credentials = try await world.register(
            .ticket { try World.ticket(port, "lovelace") })
        let device = MartletDevice(
            host: "127.0.0.1", port: Int(world.broker.port!), credentials: credentials)
        try await device.subscribe(toTopic: "user.ada")
        let refused = await #expect(throws: MartletError.self) {
            try await device.subscribe(toTopic: "user.grace")
        }
        #expect(refused?.word == .permissionDenied)
        await device.close()

        let ticket = try World.ticket(port, "lovelace")
        #expect(try await world.refusal(.ticket { ticket }) == nil)
        #expect(try await world.refusal(.ticket { ticket }) == .permissionDenied)
        #expect(
            try await world.refusal(.ticket { try World.ticket(port, "guess") })
                == .permissionDenied)
        #expect(try await world.refusal(.open) == .permissionDenied)
        let parts = ticket.split(separator: ".")
        let forged = "\(parts[0]).\(parts[1]).\(String(parts[2].reversed()))"
        #expect(try await world.refusal(.ticket { forged }) == .permissionDenied)
        #expect(try world.broker.project("tides").instanceCount == 2)

        try await world.broker.revokeTicketKey("login", in: "tides")
        #expect(
            try await world.refusal(.ticket { try World.ticket(port, "lovelace") })
                == .permissionDenied)
        try await world.end()
    }
}
