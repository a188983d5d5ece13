// SPDX-License-Identifier: Apache-2.0
//
// Device groups, and `/fcm/send` with its own answers, over a real broker (GW-3, GW-4, GRP-1 to GRP-5). Rests on GatewayWorld.

import Martlet
import MartletClient
import MartletGateway
import Testing

@Suite("Gateway: groups and the interface before v1", .timeLimit(.minutes(2)))
struct GroupRouteTests {
    private func group(_ fields: String, _ world: GatewayWorld) async throws -> (Int, JSONValue) {
        let answer = try await world.call(
            .post, "/fcm/notification", "{\(fields)}",
            headers: [
                ("authorization", "key=\(world.serverKey)"),
                ("project_id", String(world.senderID)),
            ])
        return (answer.status, answer.json)
    }

    @Test("GW-3 GRP-1…GRP-4 a group is made, found, changed, and gone with its last member")
    func life() async throws {
        let world = try await GatewayWorld.open()
        let (a, b) = (try await world.newToken(), try await world.newToken())
        let named = #""notification_key_name":"ada""#
        let created = try await group(
            #""operation":"create",\#(named),"registration_ids":["\#(a)"]"#, world)
        let key = try #require(created.1["notification_key"]?.string)
        #expect(created.0 == 200 && created.1 == .object(["notification_key": .string(key)]))
        let again = try await group(
            #""operation":"create",\#(named),"registration_ids":["\#(a)"]"#, world)
        #expect(again.0 == 400)
        #expect(again.1 == (try json(#"{"error":"notification_key already exists"}"#)))

        let found = try await world.call(.get, "/fcm/notification?notification_key_name=ada", "{}")
        #expect(found.status == 200 && found.json == created.1)
        let keyed = #""notification_key":"\#(key)""#
        // The name only protects from another group's key.
        for change in [#""add",\#(named)"#, #""remove""#, #""add""#] {
            let answer = try await group(
                #""operation":\#(change),\#(keyed),"registration_ids":["\#(b)"]"#, world)
            #expect(answer.0 == 200 && answer.1 == created.1)
        }
        let members = try world.broker.group(named: "ada", in: GatewayWorld.project).tokens
        #expect(members == [a, b])

        let emptied = try await group(
            #""operation":"remove",\#(named),\#(keyed),"registration_ids":["\#(a)","\#(b)"]"#,
            world)
        #expect(emptied.0 == 200)
        let gone = try await world.call(.get, "/fcm/notification?notification_key_name=ada")
        #expect(gone.status == 400)
        #expect(gone.json == (try json(#"{"error":"notification_key not found"}"#)))
        try await world.broker.close()
    }

    @Test("GW-3 GRP-2 what is refused of a group is a sentence")
    func refusals() async throws {
        let world = try await GatewayWorld.open()
        let bad = try await group(
            #""operation":"create","notification_key_name":"x","registration_ids":["?"]"#, world)
        #expect(bad.0 == 400)
        #expect(bad.1["error"]?.string?.hasPrefix("no valid registration ids") == true)
        for fields in [
            #""operation":"create","registration_ids":["?"]"#, #""operation":"join""#,
            #""operation":"add","registration_ids":["?"]"#,
            #""operation":"add","notification_key":"k","registration_ids":["?"]"#,
        ] {
            let answer = try await group(fields, world)
            #expect(answer.0 == 400 && answer.1["error"]?.string != nil, "\(fields)")
        }
        let other = try await world.call(
            .get, "/fcm/notification?notification_key_name=x",
            headers: [("authorization", "Bearer \(world.serverKey)"), ("project_id", "1")])
        #expect(other.status == 403)
        #expect(try await world.call(.post, "/fcm/notification", "{}", headers: []).status == 401)
        try await world.broker.close()
    }

    @Test("GRP-5 GW-1 GW-4 a group's key stands where a token does")
    func send() async throws {
        let world = try await GatewayWorld.open()
        let devices = [try await world.newDevice(), try await world.newDevice()]
        let key = try await world.broker.createGroup(
            named: "ada", tokens: devices.map(\.credentials.token), in: GatewayWorld.project
        ).key
        let first = try await world.call(
            .post, "/v1/projects/tides/messages:send",
            #"{"message":{"token":"\#(key)","data":{"n":"1"}}}"#)
        #expect(first.status == 200)
        let second = try await world.call(
            .post, "/fcm/send", #"{"to":"\#(key)","data":{"n":2}}"#)
        #expect(second.json == (try json(#"{"success":2,"failure":0}"#)))
        for device in devices {
            var messages = device.messages.makeAsyncIterator()
            #expect(try await messages.next()?["n"] == "1")
            #expect(try await messages.next()?["n"] == "2")
            await device.close()
        }
        try await world.broker.close()
    }

    @Test("GRP-5 a group whose last member has left answers 0 and 0, and v1 does not know it")
    func ended() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let made = try await world.broker.createGroup(
            named: "ada", tokens: [token], in: GatewayWorld.project)
        try await world.broker.removeFromGroup(
            named: "ada", key: made.key, tokens: [token], in: GatewayWorld.project)
        let legacy = try await world.call(.post, "/fcm/send", #"{"to":"\#(made.key)"}"#)
        #expect(legacy.status == 200)
        #expect(legacy.json == (try json(#"{"success":0,"failure":0}"#)))
        let first = try await world.call(
            .post, "/v1/projects/tides/messages:send",
            #"{"message":{"token":"\#(made.key)","data":{"a":"b"}}}"#)
        #expect(first.status == 404)
        // The key of another project's group is no key here.
        _ = try await world.broker.createProject("moors")
        let foreign = try await world.broker.register(app: "a.b", platform: .android, in: "moors")
        let other = try await world.broker.createGroup(
            named: "ada", tokens: [foreign.token], in: "moors")
        let unknown = try await world.call(.post, "/fcm/send", #"{"to":"\#(other.key)"}"#)
        #expect(unknown.json["failure"] == .integer(1))
        try await world.broker.close()
    }

    @Test(
        "GRP-5 GW-6 over v1 a message that no member gets is refused, and one that some get is not")
    func noMember() async throws {
        // The clock stands, so an empty bucket stays empty.
        let now = Instant(millisecondsSince1970: 1_800_000_000_000)
        let world = try await GatewayWorld.open {
            $0.limits.deviceMessagesPerMinute = 60
            $0.clock = { now }
        }
        let (busy, idle) = (try await world.newToken(), try await world.newToken())
        for number in 0..<60 {
            _ = try await world.broker.send(
                OutgoingMessage(to: .token(busy), Message(data: ["n": "\(number)"])),
                in: GatewayWorld.project)
        }
        let alone = try await world.broker.createGroup(
            named: "alone", tokens: [busy], in: GatewayWorld.project)
        let both = try await world.broker.createGroup(
            named: "both", tokens: [busy, idle], in: GatewayWorld.project)
        func send(_ key: String, _ fields: String = "") async throws -> (
            status: Int, json: JSONValue
        ) {
            try await world.call(
                .post, "/v1/projects/tides/messages:send",
                #"{"message":{"token":"\#(key)","data":{"a":"b"}\#(fields)}}"#)
        }
        let refused = try await send(alone.key)
        #expect(refused.status == 429)
        #expect(refused.json["error"]?["status"] == .string("RESOURCE_EXHAUSTED"))
        #expect(try await send(both.key).status == 200)
        let other = try await send(
            both.key, #","android":{"restricted_package_name":"other.app"}"#)
        #expect(other.status == 400)
        try await world.broker.close()
    }

    @Test("GW-4 a token, several, a topic and a condition each have their answer")
    func answers() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let gone = try await world.newToken()
        try await world.broker.unregister(gone, in: GatewayWorld.project)
        func send(_ fields: String) async throws -> JSONValue {
            let answer = try await world.call(.post, "/fcm/send", "{\(fields)}")
            #expect(answer.status == 200, "\(fields)")
            return answer.json
        }
        let one = try await send(#""to":"\#(token)""#)
        #expect(one["success"] == .integer(1) && one["failure"] == .integer(0))
        #expect(one["canonical_ids"] == .integer(0) && one["multicast_id"] != nil)
        guard case .array(let results)? = one["results"] else {
            Issue.record("no results")
            return
        }
        #expect(results.count == 1 && results[0]["message_id"]?.string != nil)

        let several = try await send(#""registration_ids":["\#(gone)","\#(token)","?"]"#)
        #expect(several["success"] == .integer(1) && several["failure"] == .integer(2))
        guard case .array(let mixed)? = several["results"] else {
            Issue.record("no results")
            return
        }
        try #require(mixed.count == 3)
        #expect(mixed[0]["error"]?.string == "NotRegistered")
        #expect(mixed[1]["message_id"] != nil)
        #expect(mixed[2]["error"]?.string == "InvalidRegistration")

        for fields in [#""to":"/topics/news""#, #""condition":"'a' in topics""#] {
            guard case .integer(let number)? = try await send(fields)["message_id"] else {
                Issue.record("no number: \(fields)")
                continue
            }
            #expect(number > 0)
        }
        try await world.broker.close()
    }

    @Test(
        "GW-4 values of data that are no texts arrive as they were written",
        arguments: [
            "18446744073709551615", "-9223372036854775809", "1.50", "5.0", "1E2", "-0", "7",
            "true", #"{"n":[1.50,18446744073709551615]}"#,
        ])
    func digits(_ text: String) throws {
        let body = #"{"to":"t","data":{"v":\#(text)}}"#
        #expect(try LegacyRequest(body: Array(body.utf8)).message.message["v"] == text)
    }

    @Test("GW-3 GW-4 the paths from before the name FCM are the same interfaces")
    func formerPaths() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let sender = [
            (name: "authorization", value: "key=" + world.serverKey),
            (name: "project_id", value: String(world.senderID)),
        ]
        let made = try await world.call(
            .post, "/gcm/notification",
            #"{"operation":"create","notification_key_name":"g","registration_ids":["\#(token)"]}"#,
            headers: sender)
        #expect(made.status == 200)
        let found = try await world.call(
            .get, "/gcm/notification?notification_key_name=g", headers: sender)
        #expect(found.status == 200 && found.json == made.json)
        let sent = try await world.call(
            .post, "/gcm/send", #"{"to":"\#(token)"}"#, headers: sender)
        #expect(sent.status == 200 && sent.json["success"] == .integer(1))
        try await world.broker.close()
    }

    @Test("GW-4 a form is answered in plain text")
    func form() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let headers = [
            (name: "authorization", value: "key=" + world.serverKey),
            (name: "content-type", value: "application/x-www-form-urlencoded;charset=UTF-8"),
        ]
        func send(_ form: String) async throws -> (status: Int, text: String) {
            let answer = try await world.call(.post, "/fcm/send", form, headers: headers)
            return (answer.status, answer.json.string ?? answer.json.text)
        }
        let sent = try await send(
            "registration_id=\(token)&data.a+b=c%26d&collapse_key=k&time_to_live=60&dry_run=0")
        #expect(sent.status == 200 && sent.text.hasPrefix("id=0:") && sent.text.hasSuffix("\n"))
        let topic = try await send("to=%2Ftopics%2Fnews&data.a=b")
        #expect(topic.status == 200 && topic.text.hasPrefix("id="))
        #expect(try await send("registration_id=x").text == "Error=InvalidRegistration\n")
        #expect(
            try await send("registration_id=\(token)&data.from=x").text == "Error=InvalidDataKey\n")
        #expect(try await send("data.a=b").status == 400)
        #expect(try await send("to=%zz").status == 400)
        let read = try LegacyRequest(
            form: Array("registration_id=t&data.a.b=1&data.c=+&priority=high&dry_run=1".utf8))
        #expect(read.message.target == .token("t") && read.message.validateOnly)
        #expect(read.message.message["a.b"] == "1" && read.message.message["c"] == " ")
        #expect(read.message.priority == .high)
        try await world.broker.close()
    }

    @Test(
        "GW-4 the error words",
        arguments: [
            (#""to":"?""#, "InvalidRegistration"),
            (#""to":"TOKEN","data":{"from":"x"}"#, "InvalidDataKey"),
            (#""to":"TOKEN","data":{"k":"LONG"}"#, "MessageTooBig"),
            (#""to":"TOKEN","time_to_live":2419201"#, "InvalidTtl"),
            (#""to":"TOKEN","content_available":true,"time_to_live":2419201"#, "InvalidTtl"),
            (#""to":"TOKEN","restricted_package_name":"other.app""#, "InvalidPackageName"),
            (#""to":"GONE""#, "NotRegistered"),
        ])
    func words(_ fields: String, _ word: String) async throws {
        let world = try await GatewayWorld.open()
        let gone = try await world.newToken()
        try await world.broker.unregister(gone, in: GatewayWorld.project)
        let text = fields.replacing("TOKEN", with: try await world.newToken())
            .replacing("GONE", with: gone)
            .replacing("LONG", with: String(repeating: "x", count: 4000))
        let answer = try await world.call(.post, "/fcm/send", "{\(text)}")
        #expect(answer.status == 200)
        guard case .array(let results)? = answer.json["results"] else {
            Issue.record("no results")
            return
        }
        #expect(results == [.object(["error": .string(word)])])
        try await world.broker.close()
    }

    @Test("GW-4 the name of a topic that is none is no bad registration")
    func badTopic() async throws {
        let world = try await GatewayWorld.open()
        let answer = try await world.call(.post, "/fcm/send", #"{"to":"/topics/a b"}"#)
        #expect(answer.status == 200)
        #expect(answer.json["error"]?.string == "InvalidParameters")
        try await world.broker.close()
    }

    @Test(
        "GW-4 what is no request of this interface is 400, and 401 without a credential",
        arguments: [
            "{}", "[", #"{"to":"a","condition":"b"}"#, #"{"registration_ids":[]}"#,
            #"{"to":"a","time_to_live":-1}"#,
            #"{"to":"a","priority":"urgent"}"#,
        ])
    func malformed(_ body: String) async throws {
        let world = try await GatewayWorld.open()
        #expect(try await world.call(.post, "/fcm/send", body).status == 400)
        #expect(try await world.call(.post, "/fcm/send", body, headers: []).status == 401)
        try await world.broker.close()
    }

    @Test("GW-4 MSG-5 one notification has its place on every platform")
    func platforms() throws {
        let body = """
            {"to":"t","collapse_key":"c","time_to_live":60,"content_available":true,
            "mutable_content":true,"dry_run":true,"delay_while_idle":true,"data":{"n":1,"s":"x"},
            "notification":{"title":"T","body":"B","android_channel_id":"ch","icon":"i",
            "sound":"s","badge":"3","click_action":"A","body_loc_key":"k",
            "body_loc_args":"[\\"a\\"]","subtitle":"S"}}
            """
        let sent = try LegacyRequest(body: Array(body.utf8)).message
        #expect(sent.timeToLiveSeconds == 60 && sent.collapseKey == "c" && sent.validateOnly)
        #expect(sent.priority == .high)
        #expect(sent.message.notification == .init(title: "T", body: "B"))
        #expect(sent.message.data == Message(data: ["n": "1", "s": "x"]).data)
        let options = try #require(sent.message.android?.options)
        #expect(options.contains(.init(key: "channel_id", value: "ch")))
        #expect(options.contains(.init(key: "body_loc_key", value: "k")))
        #expect(
            sent.message.apns?.payload
                == .init(
                    subtitle: "S", badge: 3, sound: "s", category: "A", contentAvailable: true,
                    mutableContent: true,
                    aps: [.init(key: "alert", value: #"{"loc-args":["a"],"loc-key":"k"}"#)]))
        #expect(
            sent.message.webpush?.options == [
                .init(key: "link", value: "A"), .init(key: "icon", value: "i"),
            ])
    }
}
