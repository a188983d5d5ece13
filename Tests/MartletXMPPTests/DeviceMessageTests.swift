// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices (UPS-1) and receipts (RCP-1) for app servers over XMPP: acknowledgements, flow control, and what
// becomes of the unacknowledged. Rests on XMPPWorld.

import Foundation
import Martlet
import MartletClient
import MartletXMPP
import Testing

extension OverXMPP {
    @Suite("XMPP: messages of devices", .serialized, .timeLimit(.minutes(3)))
    struct DeviceMessageTests {
        @Test(
            "GW-10 UPS-1 a device's message comes with its app, token, ID and data, until it is acknowledged"
        )
        func upstream() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                let token = device.credentials.token
                let reading = Task { for try await _ in device.messages {} }
                let peer = try await world.newAppServer()
                try await device.sendUpstream(
                    Message(data: ["cm": "4<1>2 \u{FFFE}", "é": "&"]), messageID: "reading-7")
                let message = try await peer.hear()
                #expect(
                    message
                        == .object([
                            "category": .string("com.example.tides"), "from": .string(token),
                            "message_id": .string("reading-7"),
                            "data": .object([
                                "cm": .string("4<1>2 \u{FFFE}"), "é": .string("&"),
                            ]),
                        ]))
                try await peer.acknowledge(message)
                #expect(try await peer.ping() == "")
                await peer.drop()
                let next = try await world.newAppServer()
                try await world.sendUpstream("later", from: token)
                #expect(try await next.hear().text("message_id") == "later")
                reading.cancel()
            }
        }

        @Test(
            "GW-10 UPS-1 an acknowledgement counts on the same connection alone; the end hands the message over"
        )
        func otherConnection() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let first = try await world.newAppServer()
                try await world.sendUpstream("m", from: token)
                let message = try await first.hear()
                let second = try await world.newAppServer()
                try await second.acknowledge(message)
                let refusal = try await second.hear()
                #expect(
                    refusal.text("message_type") == "nack" && refusal.text("error") == "BAD_ACK")
                await first.drop()
                #expect(try await second.hear() == message)
                try await second.acknowledge(message)
                #expect(try await second.ping() == "")
                // An acknowledgement counts once.
                try await second.acknowledge(message)
                #expect(try await second.hear().text("error") == "BAD_ACK")
            }
        }

        @Test(
            "GW-10 UPS-1 messages wait for the first app server, in order, and equal IDs of two devices are two"
        )
        func waiting() async throws {
            try await XMPPWorld.run { world in
                let (one, two) = try await (world.newToken(), world.newToken())
                for token in [one, two] {
                    for number in 0..<3 { try await world.sendUpstream("\(number)", from: token) }
                }
                let peer = try await world.newAppServer()
                var heard: [JSONValue] = []
                for _ in 0..<6 { heard.append(try await peer.hear()) }
                #expect(heard.map { $0.text("from") } == [one, one, one, two, two, two])
                #expect(heard.map { $0.text("message_id") } == ["0", "1", "2", "0", "1", "2"])
                for message in heard.reversed() { try await peer.acknowledge(message) }
                #expect(try await peer.ping() == "")
            }
        }

        @Test("UPS-1 the connections of a project take turns")
        func turns() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let peers = try await [world.newAppServer(), world.newAppServer()]
                var from: [Int] = []
                for number in 0..<4 {
                    try await world.sendUpstream("\(number)", from: token)
                    let said = try await peers[number % 2].hear()
                    if said.text("message_id") == "\(number)" { from.append(number % 2) }
                }
                #expect(from == [0, 1, 0, 1])
            }
        }

        @Test(
            "GW-10 a connection has at most 100 unacknowledged messages, and each acknowledgement makes room"
        )
        func window() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                for number in 0..<130 { try await world.sendUpstream("\(number)", from: token) }
                var heard: [JSONValue] = []
                for _ in 0..<100 { heard.append(try await peer.hear()) }
                #expect(try await peer.ping() == "")
                try await peer.acknowledge(heard[99])
                #expect(try await peer.hear().text("message_id") == "100")
                #expect(try await peer.ping() == "")
                for message in heard.prefix(99) { try await peer.acknowledge(message) }
                for number in 101..<130 {
                    #expect(try await peer.hear().text("message_id") == "\(number)")
                }
            }
        }

        @Test("GW-10 receipts share the window: with 100 unacknowledged messages none is sent")
        func windowOfBoth() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                let token = device.credentials.token
                let reading = taking(device)
                let peer = try await world.newAppServer()
                for number in 0..<100 { try await world.sendUpstream("\(number)", from: token) }
                var heard: [JSONValue] = []
                for _ in 0..<100 { heard.append(try await peer.hear()) }
                let answer = try await peer.ask(
                    #"{"to": "\#(token)", "message_id": "m", "delivery_receipt_requested": true}"#)
                #expect(answer.text("message_type") == "ack")
                while try await receipts(world).isEmpty {
                    try await Task.sleep(for: .milliseconds(20))
                }
                // The dispatcher has looked in the time of three of its rounds.
                try await Task.sleep(for: .milliseconds(600))
                #expect(try await peer.ping() == "")
                try await peer.acknowledge(heard[50])
                #expect(try await peer.hear().text("message_id") == "dr2:m")
                reading.cancel()
            }
        }

        @Test("UPS-1 a now-or-never message comes to a connected app server, and to none later")
        func nowOrNever() async throws {
            try await XMPPWorld.run { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                while true {
                    do {
                        try await world.broker.sendUpstream(
                            Message(data: ["a": "b"]), from: token, in: XMPPWorld.project,
                            messageID: "now", timeToLiveSeconds: 0)
                        break
                    } catch let error as MartletError {
                        #expect(error.word == .notFound)
                    }
                }
                #expect(try await peer.hear().text("message_id") == "now")
                await peer.drop()
                let next = try await world.newAppServer()
                try await world.sendUpstream("then", from: token)
                #expect(try await next.hear().text("message_id") == "then")
            }
        }

        // MARK: Receipts

        /// A device that takes messages until the task is cancelled.
        private func taking(_ device: MartletDevice) -> Task<Void, any Error> {
            Task { for try await _ in device.messages {} }
        }

        @Test(
            "GW-10 RCP-1 a receipt names the app server's message and the device, until it is acknowledged"
        )
        func receipt() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                let token = device.credentials.token
                let reading = taking(device)
                let peer = try await world.newAppServer()
                let answer = try await peer.ask(
                    #"{"to": "\#(token)", "message_id": "m <1>", "delivery_receipt_requested": true}"#
                )
                #expect(answer.text("message_type") == "ack")
                let receipt = try await peer.hear()
                #expect(
                    receipt
                        == .object([
                            "message_type": .string("receipt"),
                            "from": .string("fcm.googleapis.com"),
                            "message_id": .string("dr2:m <1>"),
                            "category": .string("com.example.tides"),
                            "data": .object([
                                "message_status": .string("MESSAGE_SENT_TO_DEVICE"),
                                "original_message_id": .string("m <1>"),
                                "device_registration_id": .string(token),
                            ]),
                        ]))
                // Unacknowledged, the receipt goes to the next connection.
                await peer.drop()
                let next = try await world.newAppServer()
                #expect(try await next.hear() == receipt)
                try await next.acknowledge(receipt)
                #expect(try await next.ping() == "")
                // The acknowledged receipt leaves the store.
                while try await !receipts(world).isEmpty {
                    try await Task.sleep(for: .milliseconds(20))
                }
                reading.cancel()
            }
        }

        /// The receipts in the store.
        private func receipts(_ world: XMPPWorld) async throws -> [DeliveryReceipt] {
            let sender = try world.broker.signIn(serverKey: world.serverKey) { _ in
                true
            } tell: { _ in
            }
            defer { sender.end() }
            return try sender.receipts(after: 0, limit: 100)
        }

        @Test(
            "GW-10 RCP-1 a message to many has a receipt of each device, and displayed is no receipt here"
        )
        func receiptsOfMany() async throws {
            try await XMPPWorld.run { world in
                var devices: [MartletDevice] = []
                var tokens: Set<String> = []
                for _ in 0..<3 {
                    let device = try await world.newDevice()
                    let token = device.credentials.token
                    _ = try await world.broker.subscribe([token], to: "t", in: XMPPWorld.project)
                    devices.append(device)
                    tokens.insert(token)
                }
                let readings = devices.map { device in
                    Task {
                        for try await message in device.messages { await device.displayed(message) }
                    }
                }
                let peer = try await world.newAppServer()
                let answer = try await peer.ask(
                    #"{"to": "/topics/t", "message_id": "m", "delivery_receipt_requested": true}"#)
                #expect(answer.text("message_type") == "ack")
                var heard: Set<String> = []
                for _ in 0..<3 {
                    let receipt = try await peer.hear()
                    #expect(receipt.text("message_id") == "dr2:m")
                    heard.insert(receipt["data"]?.text("device_registration_id") ?? "")
                    try await peer.acknowledge(receipt)
                }
                #expect(heard == tokens)
                while try await !receipts(world).isEmpty {
                    try await Task.sleep(for: .milliseconds(20))
                }
                #expect(try await peer.ping() == "")
                for reading in readings { reading.cancel() }
            }
        }

        @Test("GW-10 RCP-1 after a restart of the broker a receipt still names the app server's ID")
        func receiptAfterRestart() async throws {
            let folder = try XMPPFolder()
            let token = try await withRestart(folder)
            try await XMPPWorld.run(in: folder) { world in
                let peer = try await world.newAppServer()
                let receipt = try await peer.hear()
                #expect(receipt.text("message_id") == "dr2:before")
                #expect(receipt["data"]?.text("device_registration_id") == token)
                try await peer.acknowledge(receipt)
                #expect(try await peer.ping() == "")
            }
            // Half a line, as a crash of the machine leaves it, and a file of others do no harm.
            let file = folder.url.appending(path: "data/xmpp.receipts")
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(text.split(separator: "\n").count == 1)
            try "nonsense\n\(text)7 99".write(to: file, atomically: true, encoding: .utf8)
            try await XMPPWorld.run(in: folder) { world in
                let peer = try await world.newAppServer()
                #expect(try await peer.ping() == "")
            }
            #expect(try String(contentsOf: file, encoding: .utf8) == text)
        }

        /// Sends a message and takes it on a device, but no receipt.
        private func withRestart(_ folder: XMPPFolder) async throws -> String {
            var token = ""
            try await XMPPWorld.run(in: folder) { world in
                let device = try await world.newDevice()
                token = device.credentials.token
                let peer = try await world.newAppServer()
                _ = try await peer.ask(
                    #"{"to": "\#(token)", "message_id": "before", "delivery_receipt_requested": true}"#
                )
                let reading = taking(device)
                #expect(try await peer.hear().text("message_type") == "receipt")
                reading.cancel()
            }
            return token
        }

        @Test("RCP-1 a project without receipts over XMPP keeps its receipts for other senders")
        func otherSenders() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                let token = device.credentials.token
                let reading = taking(device)
                let peer = try await world.newAppServer()
                _ = try await world.broker.send(
                    OutgoingMessage(to: .token(token), Message(), wantsReceipts: true),
                    in: XMPPWorld.project)
                var receipts = world.broker.receipts(in: XMPPWorld.project).makeAsyncIterator()
                #expect(try await receipts.next()?.token == token)
                #expect(try await peer.ping() == "")
                reading.cancel()
            }
        }
    }
}
