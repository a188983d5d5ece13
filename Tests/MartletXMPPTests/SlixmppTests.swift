// SPDX-License-Identifier: Apache-2.0
//
// slixmpp from PyPI, unmodified, as an app server, beside devices of MartletClient (GW-10). Rests on XMPPWorld and
// Tests/Python/xmpp_app_server.py.

import Foundation
import Martlet
import MartletClient
import MartletXMPP
import Synchronization
import Testing

/// The process of an app server in Python, by orders and events.
private final class SlixmppServer: Sendable {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    private static let environment = root.appending(path: ".build/python-sdks-xmpp")

    static var isInstalled: Bool {
        FileManager.default.fileExists(atPath: environment.appending(path: "installed").path)
    }

    private let process: Mutex<Process>
    private let orders: FileHandle
    private let events: AsyncStream<JSONValue>
    private let early = Mutex<[JSONValue]>([])

    init(_ world: XMPPWorld) throws {
        let new = Process()
        let (input, output) = (Pipe(), Pipe())
        new.executableURL = Self.environment.appending(path: "bin/python")
        new.arguments = [
            "-B", Self.root.appending(path: "Tests/Python/xmpp_app_server.py").path, "127.0.0.1",
            "\(world.port)", world.folder.certificate.chain, "\(world.senderID)", world.serverKey,
        ]
        new.standardInput = input
        new.standardOutput = output
        try new.run()
        process = Mutex(new)
        orders = input.fileHandleForWriting
        let (stream, continuation) = AsyncStream<JSONValue>.makeStream()
        events = stream
        let reading = output.fileHandleForReading
        Thread.detachNewThread {
            var bytes: [UInt8] = []
            while case let data = reading.availableData, !data.isEmpty {
                bytes += data
                while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                    if let event = try? JSONValue(parsing: Array(bytes[..<end])) {
                        continuation.yield(event)
                    }
                    bytes.removeFirst(end + 1)
                }
            }
            continuation.finish()
        }
    }

    deinit { process.withLock { $0.terminate() } }

    func order(_ text: String) throws { try orders.write(contentsOf: Data((text + "\n").utf8)) }

    /// The first event that fits. Other events wait for their turns.
    func event(where fits: (JSONValue) -> Bool) async throws -> JSONValue {
        let found = early.withLock { early in
            early.firstIndex(where: fits).map { early.remove(at: $0) }
        }
        if let found { return found }
        for await event in events {
            if fits(event) { return event }
            early.withLock { $0.append(event) }
        }
        throw CancellationError()
    }

    func event(_ name: String, on connection: Int) async throws -> JSONValue {
        try await event { $0.text("event") == name && $0["on"] == .integer(Int64(connection)) }
    }

    /// The JSON of the next message on a connection.
    func message(on connection: Int = 0) async throws -> JSONValue {
        try #require(try await event("message", on: connection)["json"])
    }

    func open(_ connection: Int = 0) async throws {
        try order(#"{"do": "open"}"#)
        _ = try await event("open", on: connection)
    }

    /// Sends on the last connection.
    func send(_ json: String) throws { try order(#"{"do": "send", "json": \#(json)}"#) }

    func acknowledge(_ message: JSONValue, on connection: Int) throws {
        let answer = JSONValue.object([
            "to": message["from"] ?? .null, "message_id": message["message_id"] ?? .null,
            "message_type": .string("ack"),
        ])
        try order(#"{"do": "ack", "on": \#(connection), "json": \#(answer.text)}"#)
    }
}

extension OverXMPP {
    @Suite(
        "XMPP: slixmpp", .serialized, .timeLimit(.minutes(3)),
        .enabled(if: SlixmppServer.isInstalled, "make python-sdks installs slixmpp"))
    struct SlixmppTests {
        @Test(
            "GW-10 slixmpp sends to a token, a topic, a condition and a group, and devices get the messages"
        )
        func targets() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let token = device.credentials.token
                _ = try await world.broker.subscribe([token], to: "weather", in: XMPPWorld.project)
                let group = try await world.broker.createGroup(
                    named: "family", tokens: [token], in: XMPPWorld.project)
                let server = try SlixmppServer(world)
                try await server.open()
                try server.order(#"{"do": "ping", "on": 0}"#)
                _ = try await server.event("pong", on: 0)
                for (number, target) in [
                    #""to": "\#(token)""#, #""to": "/topics/weather""#,
                    #""condition": "'weather' in topics""#, #""to": "\#(group.key)""#,
                ].enumerated() {
                    try server.send(
                        #"{\#(target), "message_id": "\#(number)", "data": {"n": "\#(number) <ü>"}}"#
                    )
                    let answer = try await server.message()
                    #expect(answer.text("message_type") == "ack")
                    #expect(answer.text("message_id") == "\(number)")
                    #expect(try await messages.next()?["n"] == "\(number) <ü>")
                }
                try server.send(#"{"to": "nobody", "message_id": "9"}"#)
                let refused = try await server.message()
                #expect(refused.text("error") == "BAD_REGISTRATION")
                try server.send(#"{"random": "text"}"#)
                let error = try await server.event("error", on: 0)
                #expect(error.text("text")?.contains("Missing Required Field: message_id") == true)
            }
        }

        @Test("GW-10 slixmpp gets messages of devices and receipts, and acknowledges them")
        func devices() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                let token = device.credentials.token
                let reading = Task { for try await _ in device.messages {} }
                let server = try SlixmppServer(world)
                try await server.open()
                try await device.sendUpstream(
                    Message(data: ["cm": "412 <ü>"]), messageID: "reading")
                let message = try await server.message()
                #expect(message.text("from") == token)
                #expect(message["data"]?.text("cm") == "412 <ü>")
                try server.acknowledge(message, on: 0)
                try server.send(
                    #"{"to": "\#(token)", "message_id": "m", "delivery_receipt_requested": true}"#)
                let answers = try await [server.message(), server.message()]
                let receipt = try #require(
                    answers.first { $0.text("message_type") == "receipt" })
                #expect(receipt.text("message_id") == "dr2:m")
                try server.acknowledge(receipt, on: 0)
                try server.order(#"{"do": "ping", "on": 0}"#)
                _ = try await server.event("pong", on: 0)
                // Nothing acknowledged comes to another connection.
                try await server.open(1)
                try server.order(#"{"do": "drop", "on": 0}"#)
                _ = try await server.event("ended", on: 0)
                try await device.sendUpstream(Message(data: ["cm": "413"]), messageID: "next")
                #expect(try await server.message(on: 1).text("message_id") == "next")
                reading.cancel()
            }
        }

        @Test("GW-10 slixmpp breaks off, connects again, and gets what it has not acknowledged")
        func reconnection() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let server = try SlixmppServer(world)
                try await server.open()
                for number in 0..<5 { try await world.sendUpstream("\(number)", from: token) }
                var messages: [JSONValue] = []
                for _ in 0..<5 { messages.append(try await server.message()) }
                for message in messages.prefix(2) { try server.acknowledge(message, on: 0) }
                try server.order(#"{"do": "ping", "on": 0}"#)
                _ = try await server.event("pong", on: 0)
                try server.order(#"{"do": "drop", "on": 0}"#)
                _ = try await server.event("ended", on: 0)
                try await server.open(1)
                var again: Set<String> = []
                for _ in 0..<3 {
                    again.insert(try await server.message(on: 1).text("message_id") ?? "")
                }
                #expect(again == ["2", "3", "4"])
            }
        }

        @Test(
            "GW-10 slixmpp is told to drain, opens another connection, and acknowledges on the old one"
        )
        func draining() async throws {
            try await XMPPWorld.run({ $0.drainSecondsMin = 1 }) { world in
                let token = try await world.newToken()
                let server = try SlixmppServer(world)
                try await server.open()
                try await world.sendUpstream("held", from: token)
                let held = try await server.message()
                try world.folder.renewCertificate()
                try world.server.reloadCertificate()
                let control = try await server.message()
                #expect(control.text("control_type") == "CONNECTION_DRAINING")
                try await server.open(1)
                try server.send(#"{"to": "\#(token)", "message_id": "1"}"#)
                #expect(try await server.message(on: 1).text("message_type") == "ack")
                try server.acknowledge(held, on: 0)
                _ = try await server.event("ended", on: 0)
                try await world.sendUpstream("next", from: token)
                #expect(try await server.message(on: 1).text("message_id") == "next")
            }
        }

        @Test("GW-10 REG-9 slixmpp hears that its key was revoked, and a wrong key is refused")
        func keys() async throws {
            try await XMPPWorld.run { world in
                let server = try SlixmppServer(world)
                try await server.open()
                try await world.broker.revokeServerKey(world.keyID, in: XMPPWorld.project)
                let error = try await server.event("stream_error", on: 0)
                #expect(error.text("condition") == "not-authorized")
                try server.order(#"{"do": "open"}"#)
                _ = try await server.event("refused", on: 1)
            }
        }
    }
}
