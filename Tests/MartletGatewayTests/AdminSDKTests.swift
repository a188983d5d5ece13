// SPDX-License-Identifier: Apache-2.0
//
// The official Admin SDK for Python against a gateway over HTTP, with connected devices (GW-1, GW-2, GW-5, GW-6). What it sent
// is what they get; what it throws is what its users catch. Rests on SDKWorld.

import Martlet
import MartletClient
import MartletGateway
import Testing

private func texts(_ entries: [Message.DataEntry]) -> [String: String] {
    Dictionary(entries.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
}

private func strings(_ tokens: [String]) -> JSONValue { .array(tokens.map { .string($0) }) }

@Suite(
    "Gateway: the Admin SDK for Python", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: PythonClients.areInstalled, "make python-sdks has not been run"))
struct AdminSDKTests {
    @Test("GW-1 GW-5 MSG-5 every part of a message reaches the platform that it is for")
    func send() async throws {
        try await SDKWorld.run { sdk in
            let devices = try await Platform.allCases.asyncMap { try await sdk.world.newDevice($0) }
            // They are connected then: what is for Android lives three seconds.
            for device in devices { try await device.subscribe(toTopic: "storm") }
            let dry = try await sdk.admin(
                "send", .object(["topic": .string("storm"), "dry_run": .bool(true)]))
            #expect(dry["name"]?.string?.hasPrefix("projects/tides/messages/") == true)
            // The SDK takes the prefix off.
            let sent = try await sdk.admin("send", json(#"{"topic":"/topics/storm"}"#))
            let condition = try await sdk.admin(
                "send", json(#"{"condition":"'storm' in topics && !('rain' in topics)"}"#))
            for device in devices {
                var messages = device.messages.makeAsyncIterator()
                let message = try #require(try await messages.next())
                #expect(message.messageID == sent["name"]?.string)
                #expect(message.from == "/topics/storm")
                #expect(try await messages.next()?.messageID == condition["name"]?.string)
                await device.close()
            }
        }
    }

    @Test("GW-1 MSG-5 TTL-1 what an Android device gets of it")
    func android() async throws {
        try await SDKWorld.run { sdk in
            let message = try await received(.android, sdk)
            #expect(
                message.notification
                    == .init(
                        title: "Android storm", body: "Force 9",
                        image: "https://example.com/s.png"))
            #expect(texts(message.data) == ["score": "android", "time": "2:45"])
            #expect(message.priority == .high)
            #expect(message.expires == message.accepted.advanced(bySeconds: 3))
            #expect(
                texts(message.options) == [
                    "direct_boot_ok": "true", "icon": "wave", "color": "#112233",
                    "sound": "horn", "tag": "t", "click_action": "OPEN", "body_loc_key": "bk",
                    "body_loc_args": #"["1"]"#, "title_loc_key": "tk",
                    "title_loc_args": #"["2"]"#, "channel_id": "alerts", "ticker": "tick",
                    "sticky": "true", "event_time": "2026-01-02T03:04:05.000678Z",
                    "local_only": "false", "notification_priority": "PRIORITY_MAX",
                    "vibrate_timings": #"["0.100000000s","0.200000000s"]"#,
                    "default_vibrate_timings": "false", "default_sound": "false",
                    "default_light_settings": "false",
                    "light_settings": #"{"color":{"alpha":1.0,"blue":0.0,"green":0.0,"red":1.0},"#
                        + #""light_off_duration":"0.300000000s","#
                        + #""light_on_duration":"0.200000000s"}"#, "visibility": "PUBLIC",
                    "notification_count": "3", "proxy": "DENY", "analytics_label": "android-1",
                ])
        }
    }

    @Test("GW-1 MSG-5 PRI-1 what an Apple device gets of it")
    func apple() async throws {
        try await SDKWorld.run { sdk in
            let message = try await received(.apple, sdk)
            #expect(message.priority == .normal)
            #expect(message.notification?.image == "https://example.com/apple.png")
            #expect(
                message.apns
                    == (try json(
                        """
                        {"aps":{"alert":{"title":"Apple storm","subtitle":"North Sea",
                        "body":"Force 9","loc-key":"lk","loc-args":["1"],"launch-image":"i.png"},
                        "badge":3,"sound":{"name":"horn.caf","critical":1,"volume":0.5},
                        "content-available":1,"mutable-content":1,"category":"warning",
                        "thread-id":"north-sea","interruption-level":"critical"},
                        "gusts":{"knots":[47,52]},"score":"850","time":"2:45"}
                        """)))
            #expect(
                texts(message.options)
                    == ["analytics_label": "storm-1", "apns-push-type": "alert"])
        }
    }

    @Test("GW-1 MSG-5 TTL-1 what a browser gets of it")
    func web() async throws {
        try await SDKWorld.run { sdk in
            let message = try await received(.web, sdk)
            #expect(
                message.notification
                    == .init(
                        title: "Web storm", body: "Force 9", image: "https://example.com/s.png"))
            #expect(texts(message.data) == ["score": "web", "time": "2:45"])
            #expect(message.priority == .high)
            #expect(message.expires == message.accepted.advanced(bySeconds: 60))
            #expect(
                texts(message.options) == [
                    "icon": "wave.png", "badge": "b.png", "dir": "ltr", "tag": "t", "lang": "en",
                    "renotify": "true", "requireInteraction": "true", "silent": "false",
                    "timestamp": "1760000000000", "vibrate": "[200,100]",
                    "actions": #"[{"action":"open","icon":"o.png","title":"Open"}]"#,
                    "own": #"{"a":[1]}"#, "link": "https://example.com/storm",
                    "analytics_label": "storm-1",
                ])
        }
    }

    /// Sends everything to one device, and says what it got.
    private func received(_ platform: Platform, _ sdk: SDKWorld) async throws -> IncomingMessage {
        let device = try await sdk.world.newDevice(platform)
        try await device.subscribe(toTopic: "connected")
        let sent = try await sdk.admin(
            "send", .object(["token": .string(device.credentials.token)]))
        var messages = device.messages.makeAsyncIterator()
        let message = try #require(try await messages.next())
        #expect(message.messageID == sent["name"]?.string)
        await device.close()
        return message
    }

    @Test("GW-1 500 messages at once are answered one by one, in order, and each has come")
    func sendEach() async throws {
        try await SDKWorld.run { sdk in
            let devices = try await (0..<500).asyncMap { _ in try await sdk.world.newDevice() }
            var tokens = devices.map(\.credentials.token)
            tokens[7] = "no-token"
            let answer = try await sdk.admin("send_each", .object(["tokens": strings(tokens)]))
            #expect(answer["success"] == .integer(499) && answer["failure"] == .integer(1))
            guard case .array(let responses)? = answer["responses"] else {
                Issue.record("no responses")
                return
            }
            #expect(responses[7]["class"]?.string == "InvalidArgumentError")
            for (number, device) in devices.enumerated() where number != 7 {
                var messages = device.messages.makeAsyncIterator()
                let message = try await messages.next()
                #expect(message?["n"] == String(number))
                #expect(message?.messageID == responses[number]["name"]?.string)
                await device.close()
            }
        }
    }

    @Test("GW-8 equal messages are sent each: in one call, to one token many times, one by one")
    func equal() async throws {
        try await SDKWorld.run { sdk in
            let device = try await sdk.world.newDevice()
            let answer = try await sdk.admin(
                "send_equal",
                .object(["token": .string(device.credentials.token), "count": .integer(40)]))
            guard case .array(let lists) = answer else {
                Issue.record("no lists")
                return
            }
            var names: Set<String> = []
            for (list, count) in zip(lists, [40, 40, 3]) {
                guard case .array(let list) = list else { continue }
                #expect(list.count == count)
                names.formUnion(list.compactMap(\.string))
            }
            #expect(names.count == 83)
            var messages = device.messages.makeAsyncIterator()
            for _ in 0..<83 {
                let message = try await messages.next()
                #expect(message.map { names.remove($0.messageID) != nil } == true)
            }
            await device.close()
        }
    }

    @Test("GW-1 GW-6 a multicast tells of every token")
    func multicast() async throws {
        try await SDKWorld.run { sdk in
            let device = try await sdk.world.newDevice()
            let gone = try await sdk.world.newToken()
            try await sdk.broker.unregister(gone, in: GatewayWorld.project)
            let answer = try await sdk.admin(
                "multicast",
                .object(["tokens": strings([gone, device.credentials.token, "no-token"])]))
            #expect(answer["success"] == .integer(1) && answer["failure"] == .integer(2))
            guard case .array(let responses)? = answer["responses"] else {
                Issue.record("no responses")
                return
            }
            #expect(
                responses.map { $0["class"]?.string }
                    == ["UnregisteredError", nil, "InvalidArgumentError"])
            var messages = device.messages.makeAsyncIterator()
            #expect(try await messages.next()?["n"] == "multicast")
            await device.close()
        }
    }

    /// Subscribes or unsubscribes tokens in one call of the SDK.
    private func change(
        _ topic: String, of tokens: [String], _ isUnsubscribing: Bool, _ sdk: SDKWorld
    ) async throws -> JSONValue {
        try await sdk.admin(
            "change_topic",
            .object([
                "tokens": strings(tokens), "topic": .string(topic),
                "unsubscribe": .bool(isUnsubscribing),
            ]))
    }

    @Test("GW-2 TOP-4 1000 tokens subscribe, and the SDK hears of those that could not")
    func topics() async throws {
        try await SDKWorld.run { sdk in
            var tokens = try await (0..<998).asyncMap { _ in try await sdk.world.newToken() }
            let gone = try await sdk.world.newToken()
            try await sdk.broker.unregister(gone, in: GatewayWorld.project)
            tokens.insert(gone, at: 3)
            tokens.append("no-token")
            for isUnsubscribing in [false, true] {
                let answer = try await change("news", of: tokens, isUnsubscribing, sdk)
                #expect(
                    answer
                        == (try json(
                            #"{"success":998,"failure":2,"errors":[[3,"NOT_FOUND"],[999,"INVALID_ARGUMENT"]]}"#
                        )))
                let topics = try sdk.broker.topics(in: GatewayWorld.project).entries
                #expect(topics.map(\.subscriberCount) == (isUnsubscribing ? [] : [998]))
            }
            let tooMany = try await sdk.admin(
                "refused_topic",
                .object(["tokens": strings(tokens + ["x"]), "topic": .string("news")]))
            #expect(tooMany["class"]?.string == "InvalidArgumentError")
        }
    }

    @Test("GW-2 GW-14 the newest SDK changes topics, a request a token")
    func newestTopics() async throws {
        try await PythonClients.$version.withValue(.newest) {
            try await SDKWorld.run { sdk in
                let installed = try #require(try await sdk.admin("version", .object([:])).string)
                if installed != PythonClients.newestKnown {
                    Issue.record(
                        "firebase-admin \(installed) is newer than what is known to work.",
                        severity: .warning)
                }
                var tokens = try await (0..<50).asyncMap { _ in try await sdk.world.newToken() }
                let gone = try await sdk.world.newToken()
                try await sdk.broker.unregister(gone, in: GatewayWorld.project)
                tokens.insert(gone, at: 3)
                tokens.append("no-token")
                for isUnsubscribing in [false, true] {
                    let answer = try await change("news", of: tokens, isUnsubscribing, sdk)
                    #expect(answer["success"] == .integer(50) && answer["failure"] == .integer(2))
                    let topics = try sdk.broker.topics(in: GatewayWorld.project).entries
                    #expect(topics.map(\.subscriberCount) == (isUnsubscribing ? [] : [50]))
                }
                let device = try await sdk.world.newDevice(.android)
                _ = try await sdk.admin(
                    "send", .object(["token": .string(device.credentials.token)]))
                var messages = device.messages.makeAsyncIterator()
                #expect(try await messages.next() != nil)
                await device.close()
            }
        }
    }
}

extension Sequence {
    /// One after another.
    func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result]
    {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}
