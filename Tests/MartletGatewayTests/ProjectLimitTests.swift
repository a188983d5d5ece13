// SPDX-License-Identifier: Apache-2.0
//
// Every door of the gateway obeys the project's limits, its own or the broker's, and refuses in its own words (OPS-2). Rests
// on GatewayWorld and SDKWorld.

import Martlet
import MartletGateway
import Testing

extension JSONValue {
    fileprivate var array: [JSONValue]? { if case .array(let list) = self { list } else { nil } }
}

@Suite("Gateway: limits of a project", .timeLimit(.minutes(2)))
struct ProjectLimitTests {
    private func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes - 1) }

    @Test("MSG-3 GW-6 one byte more than a platform may get is too large for v1")
    func payload() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        func send(_ bytes: Int) async throws -> (status: Int, json: JSONValue) {
            try await world.call(
                .post, "/v1/projects/tides/messages:send",
                #"{"message":{"token":"\#(token)","data":{"p":"1"},"android":{"data":{"p":"\#(text(bytes))"}}}}"#
            )
        }
        for max in [4000, 5000, 10] {
            if max != 4000 {
                try await world.broker.changeLimits(
                    [.init(.payloadBytes, to: max)], in: GatewayWorld.project)
            }
            #expect(try await send(max).status == 200)
            let refused = try await send(max + 1)
            #expect(refused.status == 400)
            let error = refused.json["error"]
            #expect(error?["status"]?.string == "INVALID_ARGUMENT")
            #expect(
                error?["message"]?.string?.hasPrefix(
                    "Message is too large. The payload has \(max + 1) bytes; at most \(max) ")
                    == true, "\(refused.json)")
            // The service's own error code goes along, and no field is named.
            let details = try #require(error?["details"]?.array)
            #expect(details.contains { $0["errorCode"]?.string == "INVALID_ARGUMENT" })
            #expect(details.allSatisfy { $0["fieldViolations"] == nil })
        }
        try await world.broker.close()
    }

    @Test(
        "TTL-1 GW-6 each platform's time to live ends at the project's longest, and v1 names the field",
        arguments: [
            (#""android":{"ttl":"SECONDSs"}"#, "message.android.ttl", "com.a"),
            (
                #""webpush":{"headers":{"TTL":"SECONDS"}}"#, "message.webpush.headers.TTL",
                "com.b"
            ),
        ])
    func timeToLive(_ block: String, _ field: String, _ app: String) async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken(field.contains("web") ? .web : .android, app: app)
        func send(_ seconds: String) async throws -> (status: Int, json: JSONValue) {
            try await world.call(
                .post, "/v1/projects/tides/messages:send",
                #"{"message":{"token":"\#(token)","data":{"p":"1"},"#
                    + block.replacing("SECONDS", with: seconds) + "}}")
        }
        for max in [2_419_200, 60] {
            if max == 60 {
                try await world.broker.changeLimits(
                    [.init(.timeToLiveSeconds, to: 60)], in: GatewayWorld.project)
            }
            #expect(try await send("\(max)").status == 200)
            for seconds in ["\(max + 1)", "99999999999"] {
                let refused = try await send(seconds)
                #expect(refused.status == 400, "\(seconds)")
                let error = refused.json["error"]
                #expect(error?["message"]?.string?.contains("0 to \(max) seconds") == true)
                let violations = (error?["details"]?.array ?? []).compactMap {
                    $0["fieldViolations"]?.array?.first?["field"]?.string
                }
                #expect(violations == [field], "\(refused.json)")
            }
        }
        try await world.broker.close()
    }

    @Test("GW-4 the legacy interface says MessageTooBig and InvalidTtl for the project's limits")
    func legacy() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        try await world.broker.changeLimits(
            [.init(.payloadBytes, to: 10), .init(.timeToLiveSeconds, to: 60)],
            in: GatewayWorld.project)
        for (fields, word) in [
            (#""data":{"k":"\#(text(11))"}"#, "MessageTooBig"),
            (#""time_to_live":61"#, "InvalidTtl"),
            (#""notification":{"title":"t"},"time_to_live":61"#, "InvalidTtl"),
        ] {
            let answer = try await world.call(
                .post, "/fcm/send", #"{"to":"\#(token)",\#(fields)}"#)
            #expect(answer.status == 200)
            #expect(answer.json["results"]?.array?.first?["error"]?.string == word)
        }
        let answer = try await world.call(
            .post, "/fcm/send", #"{"to":"\#(token)","time_to_live":60,"data":{"k":"\#(text(10))"}}"#
        )
        #expect(answer.json["success"] == .integer(1))
        try await world.broker.close()
    }

    @Test("TOP-3 TOP-4 TOP-6 GRP-2 topics and groups obey the project's limits")
    func topicsAndGroups() async throws {
        let now = Instant(millisecondsSince1970: 1_800_000_000_000)
        let world = try await GatewayWorld.open { $0.clock = { now } }
        var tokens: [String] = []
        for _ in 0..<3 { tokens.append(try await world.newToken()) }
        func add(_ topic: String, _ count: Int) async throws -> (status: Int, json: JSONValue) {
            let list = tokens[..<count].map { "\"\($0)\"" }.joined(separator: ",")
            return try await world.call(
                .post, "/iid/v1:batchAdd", #"{"to":"\#(topic)","registration_tokens":[\#(list)]}"#)
        }
        try await world.broker.changeLimits(
            [.init(.tokensPerTopicRequest, to: 2), .init(.topicsPerInstance, to: 1)],
            in: GatewayWorld.project)
        #expect(try await add("a", 3).status == 400)
        #expect(try await add("a", 2).status == 200)
        let more = try await add("b", 2)
        #expect(
            more.json["results"]?.array?.map { $0["error"]?.string }
                == ["TOO_MANY_TOPICS", "TOO_MANY_TOPICS"], "\(more.json)")
        let sender = [
            (name: "authorization", value: "key=" + world.serverKey),
            (name: "project_id", value: String(world.senderID)),
        ]
        func group(_ name: String, _ count: Int) async throws -> Int {
            let list = tokens[..<count].map { "\"\($0)\"" }.joined(separator: ",")
            return try await world.call(
                .post, "/fcm/notification",
                #"{"operation":"create","notification_key_name":"\#(name)","registration_ids":[\#(list)]}"#,
                headers: sender
            ).status
        }
        try await world.broker.changeLimits(
            [.init(.groupMembers, to: 2)], in: GatewayWorld.project)
        #expect(try await group("g", 3) == 400)
        #expect(try await group("g", 2) == 200)
        try await world.broker.changeLimits(
            [.init(.topicChangesPerSecond, to: 1)], in: GatewayWorld.project)
        #expect(try await add("a", 1).status == 200)
        #expect(try await add("a", 1).status == 429)
        try await world.broker.close()
    }
}

@Suite(
    "Gateway: limits of a project and the Admin SDK", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: PythonClients.areInstalled, "make python-sdks has not been run"))
struct ProjectLimitSDKTests {
    @Test("GW-6 MSG-3 TTL-1 CON-3 what a project's limits refuse is an InvalidArgumentError")
    func refused() async throws {
        try await SDKWorld.run { sdk in
            let token = try await sdk.world.newToken()
            func answer(_ fields: JSONObject) async throws -> String? {
                let answer = try await sdk.admin("refused", .object(fields))
                return answer["class"]?.string ?? (answer["name"] == nil ? nil : "sent")
            }
            func data(_ bytes: Int) -> JSONValue {
                .object(["k": .string(String(repeating: "x", count: bytes - 1))])
            }
            func to(_ name: String, _ value: JSONValue) -> JSONObject {
                ["token": .string(token), name: value]
            }
            func condition(_ count: Int) -> JSONObject {
                let terms = (0..<count).map { "'t\($0)' in topics" }
                return ["condition": .string(terms.joined(separator: " || "))]
            }
            for (bytes, seconds, topics) in [(4000, 2_419_200, 5), (100, 60, 2), (8000, 900, 9)] {
                if bytes != 4000 {
                    try await sdk.broker.changeLimits(
                        [
                            .init(.payloadBytes, to: bytes), .init(.timeToLiveSeconds, to: seconds),
                            .init(.topicsPerCondition, to: topics),
                        ], in: GatewayWorld.project)
                }
                for (fields, expected) in [
                    (to("data", data(bytes)), "sent"),
                    (to("data", data(bytes + 1)), "InvalidArgumentError"),
                    (to("ttl_seconds", .integer(Int64(seconds))), "sent"),
                    (
                        to("ttl_seconds", .integer(Int64(seconds) + 1)),
                        "InvalidArgumentError"
                    ),
                    (condition(topics), "sent"), (condition(topics + 1), "InvalidArgumentError"),
                ] {
                    #expect(try await answer(fields) == expected, "\(fields)")
                }
            }
        }
    }
}
