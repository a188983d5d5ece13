// SPDX-License-Identifier: Apache-2.0
//
// Messages of an app server to devices (GW-10): every kind of target, every field, and every word of a refusal. Rests
// on XMPPWorld.

import Foundation
import Martlet
import MartletClient
import MartletXMPP
import Synchronization
import Testing

extension OverXMPP {
    @Suite("XMPP: messages to devices", .serialized, .timeLimit(.minutes(3)))
    struct DownstreamTests {
        @Test("GW-10 a message to a token arrives with every field, and is acknowledged")
        func token() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let token = device.credentials.token
                let peer = try await world.newAppServer()
                let answer = try await peer.ask(
                    """
                    {"to": "\(token)", "message_id": "m-1", "priority": "high", "time_to_live": 600,
                     "collapse_key": "k", "restricted_package_name": "com.example.tides",
                     "content_available": true, "mutable_content": true, "dry_run": false,
                     "delivery_receipt_requested": false, "unknown": [1],
                     "notification": {"title": "High <tide>", "body": "at 14:05 & later"},
                     "data": {"a": "b", "n": 5, "f": true, "u": 18446744073709551615, "p": 1.50}}
                    """)
                #expect(
                    answer
                        == .object([
                            "from": .string(token), "message_id": .string("m-1"),
                            "message_type": .string("ack"),
                        ]))
                let message = try #require(try await messages.next())
                #expect(message.notification?.title == "High <tide>")
                #expect(message.notification?.body == "at 14:05 & later")
                #expect(message["a"] == "b" && message["n"] == "5" && message["f"] == "true")
                #expect(message["u"] == "18446744073709551615" && message["p"] == "1.50")
                #expect(message.priority == .high)
                let life =
                    message.expires.millisecondsSince1970
                    - message.accepted.millisecondsSince1970
                #expect(life == 600_000)
                #expect(!message.wantsReceipts)
            }
        }

        @Test(
            "GW-10 messages to a topic and to a condition arrive, and the answers name the targets"
        )
        func topicAndCondition() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let token = device.credentials.token
                for topic in ["weather", "tides"] {
                    _ = try await world.broker.subscribe([token], to: topic, in: XMPPWorld.project)
                }
                let peer = try await world.newAppServer()
                let condition = "'weather' in topics && 'tides' in topics"
                for (member, target) in [("to", "/topics/weather"), ("condition", condition)] {
                    let answer = try await peer.ask(
                        #"{"\#(member)": "\#(target)", "message_id": "1", "data": {"to": "\#(target)"}}"#
                    )
                    #expect(answer.text("message_type") == "ack")
                    #expect(answer.text("from") == target)
                    #expect(answer["success"] == nil)
                    #expect(try await messages.next()?["to"] == target)
                }
            }
        }

        @Test("GW-10 a group is acknowledged if any member can get the message, with the counts")
        func group() async throws {
            let limits = { (configuration: inout BrokerConfiguration) in
                configuration.limits.deviceMessagesPerMinute = 1
            }
            try await XMPPWorld.run(broker: limits) { world in
                let first = try await world.newDevice()
                var messages = first.messages.makeAsyncIterator()
                let tokens = try await [
                    first.credentials.token, world.newToken(), world.newToken(),
                ]
                let group = try await world.broker.createGroup(
                    named: "family", tokens: tokens, in: XMPPWorld.project)
                let peer = try await world.newAppServer()
                func ask(_ id: String, _ target: String) async throws -> JSONValue {
                    try await peer.ask(
                        #"{"to": "\#(target)", "message_id": "\#(id)", "data": {"id": "\#(id)"}}"#)
                }
                _ = try await ask("0", tokens[1])
                let partly = try await ask("1", group.key)
                #expect(
                    partly
                        == .object([
                            "from": .string(group.key), "message_id": .string("1"),
                            "message_type": .string("ack"), "success": .integer(2),
                            "failure": .integer(1),
                            "failed_registration_ids": .array([.string(tokens[1])]),
                        ]))
                #expect(try await messages.next()?["id"] == "1")
                let none = try await ask("2", group.key)
                #expect(none.text("message_type") == "nack")
                #expect(none.text("error") == "DEVICE_MESSAGE_RATE_EXCEEDED")
                #expect(none["success"] == .integer(0) && none["failure"] == .integer(3))
                // A group ends with its last member, and its key reaches nobody.
                _ = try await world.broker.removeFromGroup(
                    named: "family", key: group.key, tokens: tokens, in: XMPPWorld.project)
                let ended = try await ask("3", group.key)
                #expect(ended.text("message_type") == "nack")
                #expect(ended.text("error") == "DEVICE_UNREGISTERED")
            }
        }

        @Test(
            "GW-10 REG-4 a token from before a rotation leads to the device, and the answer names its token"
        )
        func canonicalToken() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let old = device.credentials.token
                let new = try await device.rotateToken()
                let peer = try await world.newAppServer()
                let answer = try await peer.ask(
                    #"{"to": "\#(old)", "message_id": "1", "data": {"a": "b"}}"#)
                #expect(answer.text("message_type") == "ack" && answer.text("from") == old)
                #expect(answer.text("registration_id") == new)
                #expect(try await messages.next()?["a"] == "b")
                let again = try await peer.ask(
                    #"{"to": "\#(new)", "message_id": "2", "data": {"a": "c"}}"#)
                #expect(again["registration_id"] == nil)
                try await world.broker.unregister(new, in: XMPPWorld.project)
                for token in [old, new] {
                    let gone = try await peer.ask(#"{"to": "\#(token)", "message_id": "3"}"#)
                    #expect(gone.text("error") == "DEVICE_UNREGISTERED")
                }
            }
        }

        @Test("GW-10 a dry run is acknowledged, and no device gets it")
        func dryRun() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let token = device.credentials.token
                let peer = try await world.newAppServer()
                for (id, flag) in [("1", "true"), ("2", "false")] {
                    let answer = try await peer.ask(
                        #"{"to": "\#(token)", "message_id": "\#(id)", "dry_run": \#(flag), "data": {"id": "\#(id)"}}"#
                    )
                    #expect(answer.text("message_type") == "ack")
                }
                #expect(try await messages.next()?["id"] == "2")
            }
        }

        @Test("GW-10 the sends of a connection reach a device in their order")
        func order() async throws {
            try await XMPPWorld.run { world in
                let device = try await world.newDevice()
                var messages = device.messages.makeAsyncIterator()
                let token = device.credentials.token
                let peer = try await world.newAppServer()
                for number in 0..<90 {
                    try await peer.say(
                        #"{"to": "\#(token)", "message_id": "\#(number)", "data": {"n": "\#(number)"}}"#
                    )
                }
                for number in 0..<90 {
                    #expect(try await peer.hear().text("message_id") == "\(number)")
                }
                for number in 0..<90 {
                    #expect(try await messages.next()?["n"] == "\(number)")
                }
            }
        }

        // MARK: Refusals

        /// A refusal by the JSON: members beside `message_id`, the word, and a part of the description.
        private static let faults: [(members: String, error: String, part: String)] = [
            (
                #""to": "TOKEN", "time_to_live": -1"#, "INVALID_JSON",
                #"InvalidJson : INVALID_TTL : Invalid value (-1) for "time_to_live": must be between 0 and "2419200""#
            ),
            (#""to": "TOKEN", "time_to_live": 2419201"#, "INVALID_JSON", "INVALID_TTL"),
            (#""to": "TOKEN", "time_to_live": "soon""#, "INVALID_JSON", "JSON_TYPE_ERROR"),
            (#""data": {}"#, "INVALID_JSON", "Missing Required Field: to"),
            (#""to": 5"#, "INVALID_JSON", "JSON_TYPE_ERROR"),
            (#""to": "TOKEN", "condition": "'a' in topics""#, "INVALID_JSON", "JSON_PARSING_ERROR"),
            (#""to": "TOKEN", "registration_ids": ["a"]"#, "INVALID_JSON", "registration_ids"),
            (#""to": "TOKEN", "priority": "urgent""#, "INVALID_JSON", "priority"),
            (#""to": "TOKEN", "data": []"#, "INVALID_JSON", "JSON_TYPE_ERROR"),
            (#""to": "TOKEN", "data": {"from": "x"}"#, "INVALID_JSON", "INVALID_DATA_KEY"),
            (#""to": "TOKEN", "data": {"a": "LONG"}"#, "INVALID_JSON", "MESSAGE_TOO_BIG"),
            (
                #""to": "TOKEN", "restricted_package_name": "com.example.other""#, "INVALID_JSON",
                "INVALID_PACKAGE_NAME"
            ),
            (
                #""to": "TOKEN", "delivery_receipt_requested": "yes""#, "INVALID_JSON",
                "JSON_TYPE_ERROR"
            ),
            (#""to": "TOKEN", "message_type": "letter""#, "INVALID_JSON", "message_type"),
            (#""to": "/topics/a b""#, "INVALID_JSON", "INVALID_PARAMETERS"),
            (#""condition": "'a' in""#, "INVALID_JSON", "INVALID_PARAMETERS"),
            (#""to": "no-token""#, "BAD_REGISTRATION", ""),
            (#""to": "GONE""#, "DEVICE_UNREGISTERED", ""),
            (#""to": "FOREIGN""#, "SENDER_ID_MISMATCH", ""),
            (
                #""to": "BUSY", "data": {"a": "b"}"#, "DEVICE_MESSAGE_RATE_EXCEEDED",
                "Send again after"
            ),
            (#""message_type": "ack""#, "BAD_ACK", ""),
            (#""to": "TOKEN", "message_type": "ack""#, "BAD_ACK", ""),
        ]

        @Test("GW-10 each fault of a message is answered by its word, and the connection goes on")
        func refusals() async throws {
            let limits = { (configuration: inout BrokerConfiguration) in
                configuration.limits.deviceMessagesPerMinute = 1
            }
            try await XMPPWorld.run(broker: limits) { world in
                let (token, gone, busy) = try await (
                    world.newToken(), world.newToken(), world.newToken()
                )
                try await world.broker.unregister(gone, in: XMPPWorld.project)
                _ = try await world.broker.createProject("other")
                let foreign = try await world.broker.register(
                    app: "a", platform: .android, in: "other"
                ).token
                let peer = try await world.newAppServer()
                let first = try await peer.ask(
                    #"{"to": "\#(busy)", "message_id": "0", "data": {"a": "b"}}"#)
                #expect(first.text("message_type") == "ack")
                for (number, fault) in Self.faults.enumerated() {
                    let members = fault.members.replacing("TOKEN", with: token)
                        .replacing("GONE", with: gone).replacing("FOREIGN", with: foreign)
                        .replacing("BUSY", with: busy)
                        .replacing("LONG", with: String(repeating: "x", count: 4001))
                    let answer = try await peer.ask("{\"message_id\": \"\(number)\", \(members)}")
                    #expect(answer.text("message_type") == "nack", "\(members)")
                    #expect(answer.text("message_id") == "\(number)")
                    #expect(answer.text("error") == fault.error, "\(members): \(answer.text)")
                    let description = answer.text("error_description") ?? ""
                    #expect(!description.isEmpty)
                    #expect(
                        fault.part.isEmpty || description.contains(fault.part), "\(answer.text)")
                }
                #expect(try await peer.ping() == "")
            }
        }

        @Test(
            "GW-10 the errors of a broker in trouble have their words",
            arguments: [
                (ErrorWord.unavailable, "SERVICE_UNAVAILABLE"),
                (.internal, "INTERNAL_SERVER_ERROR"),
                (.resourceExhausted, "TOPICS_MESSAGE_RATE_EXCEEDED"),
                (.quotaExceeded, "DEVICE_MESSAGE_RATE_EXCEEDED"),
            ])
        func brokerErrors(word: ErrorWord, expected: String) async throws {
            let error = MartletError(word, "A text.", retryDelayMilliseconds: 250)
            try await XMPPWorld.run(fault: { _ in error }) { world in
                let peer = try await world.newAppServer()
                let answer = try await peer.ask(#"{"to": "/topics/t", "message_id": "1"}"#)
                #expect(answer.text("error") == expected)
                #expect(answer.text("error_description") == "A text. Send again after 250 ms.")
            }
        }

        @Test("GW-10 too many messages to topics are refused by their word")
        func topicRate() async throws {
            let limits = { (configuration: inout BrokerConfiguration) in
                configuration.limits.fanoutsInProgressMax = 1
                configuration.limits.fanoutsDeferredMax = 1
                configuration.deliveriesPerSecond = 1
            }
            try await XMPPWorld.run(broker: limits) { world in
                var devices: [MartletDevice] = []
                for _ in 0..<3 {
                    let device = try await world.newDevice()
                    let token = device.credentials.token
                    _ = try await world.broker.subscribe([token], to: "t", in: XMPPWorld.project)
                    devices.append(device)
                }
                let readers = devices.map { device in
                    Task { for try await _ in device.messages {} }
                }
                while world.broker.statistics.connectionCount < 3 {
                    try await Task.sleep(for: .milliseconds(5))
                }
                let peer = try await world.newAppServer()
                var words: Set<String> = []
                for number in 0..<20 {
                    let answer = try await peer.ask(
                        #"{"to": "/topics/t", "message_id": "\#(number)", "data": {"a": "b"}}"#)
                    words.insert(answer.text("error") ?? "ack")
                }
                #expect(words == ["ack", "TOPICS_MESSAGE_RATE_EXCEEDED"])
                for reader in readers { reader.cancel() }
            }
        }

        @Test(
            "GW-10 JSON without an ID comes back as an error of the stanza, and the connection goes on",
            arguments: [
                (
                    #"{"random": "text"}"#,
                    "InvalidJson: JSON_PARSING_ERROR : Missing Required Field: message_id"
                ),
                (#"{"message_id": 5}"#, "InvalidJson: JSON_PARSING_ERROR : Field \"message_id\""),
                (#"{"message_id": ""}"#, "InvalidJson: JSON_PARSING_ERROR : Field \"message_id\""),
                ("{", "InvalidJson: JSON_PARSING_ERROR : At byte 1"),
                ("[]", "InvalidJson: JSON_PARSING_ERROR : The element gcm"),
                ("", "InvalidJson: JSON_PARSING_ERROR : At byte 0"),
            ])
        func stanzaErrors(text: String, expected: String) async throws {
            try await XMPPWorld.run { world in
                let peer = try await world.newAppServer()
                try await peer.say(text, id: "7")
                let error = StanzaPeer.unescaped(try await peer.read(until: "</message>"))
                #expect(error.contains("<message type=\"error\" id=\"7\""))
                #expect(error.contains("<gcm xmlns=\"google:mobile:data\">\(text)</gcm>"))
                #expect(error.contains("<error code=\"400\" type=\"modify\"><bad-request "))
                #expect(error.contains(">\(expected)"), "\(error)")
                try await peer.write("<message id='8'><body>a</body></message>")
                #expect(try await peer.read(until: "</message>").contains("<bad-request "))
                try await peer.write("<message type='error' id='9'/>")
                #expect(try await peer.ping() == "")
            }
        }

        // MARK: Flow control

        /// Stops the committer's thread, by the clock that it reads.
        private final class Gate: Sendable {
            let isShut = Atomic(false)

            /// The name of this thread.
            private static var thread: String {
                let descriptor = open("/proc/thread-self/comm", O_RDONLY)
                defer { close(descriptor) }
                var bytes = [UInt8](repeating: 0, count: 16)
                let count = read(descriptor, &bytes, bytes.count)
                return String(decoding: bytes.prefix(max(0, count - 1)), as: UTF8.self)
            }

            func now() -> Instant {
                if isShut.load(ordering: .acquiring), Self.thread == "martlet-commit" {
                    while isShut.load(ordering: .acquiring) { usleep(1000) }
                }
                return Instant(
                    millisecondsSince1970: Int64(Date().timeIntervalSince1970 * 1000))
            }
        }

        @Test(
            "GW-10 with 100 sends on their way, a connection is not read from until one is answered"
        )
        func window() async throws {
            let gate = Gate()
            let sent = Mutex(0)
            try await XMPPWorld.run(
                broker: { $0.clock = { gate.now() } },
                fault: { _ in
                    sent.withLock { $0 += 1 }
                    return nil
                }
            ) { world in
                let token = try await world.newToken()
                let peer = try await world.newAppServer()
                let other = try await world.newAppServer()
                gate.isShut.store(true, ordering: .releasing)
                for number in 0..<150 {
                    try await peer.say(#"{"to": "\#(token)", "message_id": "\#(number)"}"#)
                }
                while sent.withLock({ $0 }) < 100 { try await Task.sleep(for: .milliseconds(5)) }
                // Another connection is served meanwhile, as often as 101 would have been.
                for _ in 0..<20 { try await other.ping() }
                #expect(sent.withLock { $0 } == 100)
                gate.isShut.store(false, ordering: .releasing)
                for number in 0..<150 {
                    #expect(try await peer.hear().text("message_id") == "\(number)")
                }
            }
        }
    }
}
