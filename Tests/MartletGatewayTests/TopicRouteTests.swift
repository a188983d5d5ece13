// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions through the instance ID interface and through v1's resource, over a real broker (GW-2, TOP-3, TOP-4). Rests on
// GatewayWorld.

import Martlet
import MartletGateway
import Testing

@Suite("Gateway: topics", .timeLimit(.minutes(2)))
struct TopicRouteTests {
    @Test("GW-2 TOP-4 a batch answers token by token, in order, with an empty object for success")
    func batch() async throws {
        let world = try await GatewayWorld.open()
        let good = try await world.newToken()
        let gone = try await world.newToken()
        try await world.broker.unregister(gone, in: GatewayWorld.project)
        let body = #"{"to":"/topics/news","registration_tokens":["\#(good)","\#(gone)","?"]}"#
        let expected = try json(
            #"{"results":[{},{"error":"NOT_FOUND"},{"error":"INVALID_ARGUMENT"}]}"#)
        for path in ["batchAdd", "batchAdd", "batchRemove"] {
            let answer = try await world.call(.post, "/iid/v1:\(path)", body)
            #expect(answer.status == 200)
            #expect(answer.json == expected)
            let topics = try world.broker.topics(of: good, in: GatewayWorld.project).entries
            #expect(topics.map(\.name) == (path == "batchAdd" ? ["news"] : []))
        }
        try await world.broker.close()
    }

    @Test(
        "GW-2 TOP-4 a batch that is wrong as a whole says so in a string",
        arguments: [
            #"{"to":"/topics/n","registration_tokens":[]}"#,
            #"{"to":"/topics/a b","registration_tokens":["t"]}"#, #"{"registration_tokens":["t"]}"#,
            #"{"to":"n"}"#, "[]",
            #"{"to":"n","registration_tokens":["#
                + Array(repeating: "\"t\"", count: 1001).joined(separator: ",") + "]}",
        ])
    func wrongBatch(_ body: String) async throws {
        let world = try await GatewayWorld.open()
        let answer = try await world.call(.post, "/iid/v1:batchAdd", body)
        #expect(answer.status == 400)
        #expect(answer.json["error"] == .string("INVALID_ARGUMENT"))
        let stranger = try await world.call(.post, "/iid/v1:batchAdd", body, headers: [])
        #expect(stranger.status == 401)
        #expect(stranger.json["error"] == .string("UNAUTHENTICATED"))
        try await world.broker.close()
    }

    @Test("TOP-6 a batch past the quota is refused as a whole")
    func quota() async throws {
        let now = Instant(millisecondsSince1970: 1_800_000_000_000)
        let world = try await GatewayWorld.open {
            $0.limits.topicChangesPerSecond = 2
            $0.clock = { now }
        }
        let tokens = [try await world.newToken(), try await world.newToken()]
        let body = #"{"to":"n","registration_tokens":["\#(tokens[0])","\#(tokens[1])"]}"#
        #expect(try await world.call(.post, "/iid/v1:batchAdd", body).status == 200)
        let answer = try await world.call(.post, "/iid/v1:batchRemove", body)
        #expect(answer.status == 429)
        #expect(answer.json["error"] == .string("RESOURCE_EXHAUSTED"))
        let topics = try world.broker.topics(in: GatewayWorld.project).entries
        #expect(topics.map(\.subscriberCount) == [2])
        try await world.broker.close()
    }

    @Test("GW-2 one token and one topic in the path; what is known of the token")
    func information() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken(.apple, app: "com.example.moors")
        for topic in ["news", "a%25b"] {
            let added = try await world.call(.post, "/iid/v1/\(token)/rel/topics/\(topic)")
            #expect(added.status == 200 && added.json == .object([:]))
        }
        let brief = try await world.call(.get, "/iid/info/\(token)")
        #expect(
            brief.json
                == .object([
                    "application": .string("com.example.moors"), "platform": .string("IOS"),
                    "authorizedEntity": .string(String(world.senderID)),
                ]))
        let detailed = try await world.call(.get, "/iid/info/\(token)?details=true")
        #expect(detailed.json["rel"] == (try json(#"{"topics":{"a%b":{},"news":{}}}"#)))
        let removed = try await world.call(.delete, "/iid/v1/\(token)/rel/topics/news")
        #expect(removed.status == 200)
        let left = try await world.call(.get, "/iid/info/\(token)?details=true")
        #expect(left.json["rel"] == (try json(#"{"topics":{"a%b":{}}}"#)))
        try await world.broker.unregister(token, in: GatewayWorld.project)
        for (method, path) in [
            (GatewayCall.Method.get, "/iid/info/\(token)"),
            (.post, "/iid/v1/\(token)/rel/topics/news"),
        ] {
            let answer = try await world.call(method, path)
            #expect(answer.status == 404 && answer.json["error"] == .string("NOT_FOUND"))
        }
        #expect(try await world.call(.get, "/iid/info/x").status == 400)
        try await world.broker.close()
    }

    @Test("GW-2 the subscriptions of a registration as resources")
    func resources() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let name = "projects/tides/registrations/\(token)/topicSubscriptions"
        let path = "/v1/\(name)"
        let news = try json(#"{"name":"\#(name)/news","topicName":"news"}"#)

        let created = try await world.call(.post, path + "?topicName=news&alt=json", "{}")
        #expect(created.status == 200 && created.json == news)
        let again = try await world.call(.post, path + "?topicName=news", "{}")
        #expect(again.status == 409)
        #expect(again.json["error"]?["status"] == .string("ALREADY_EXISTS"))
        #expect(try await world.call(.get, path + "/news").json == news)
        #expect(try await world.call(.patch, path + "/news").json == news)

        #expect(try await world.call(.get, path + "/tea").status == 404)
        #expect(try await world.call(.patch, path + "/tea").status == 404)
        #expect(try await world.call(.delete, path + "/tea").status == 404)
        #expect(try await world.call(.delete, path + "/tea?allowMissing=true").status == 200)
        #expect(try await world.call(.patch, path + "/tea?allowMissing=true").status == 200)
        #expect(try await world.call(.delete, path + "/tea").json == .object([:]))
        #expect(try await world.call(.get, path + "/tea").status == 404)

        #expect(try await world.call(.post, path, "{}").status == 400)
        #expect(try await world.call(.post, path + "?topicName=a%20b").status == 400)
        let unknown = path.replacing(token, with: String(token.reversed()))
        #expect(try await world.call(.get, unknown).status == 404)
        try await world.broker.close()
    }

    @Test("GW-2 TOP-9 a list of subscriptions in pages")
    func pages() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let path = "/v1/projects/tides/registrations/\(token)/topicSubscriptions"
        #expect(try await world.call(.get, path).json == .object([:]))
        let names = (0..<5).map { "topic-\($0)" }
        for name in names {
            _ = try await world.broker.subscribe([token], to: name, in: GatewayWorld.project)
        }
        var seen: [String] = []
        var next: String? = ""
        var pageCount = 0
        while let token = next {
            let page = try await world.call(.get, path + "?pageSize=2&pageToken=\(token)").json
            guard case .array(let entries)? = page["topicSubscriptions"] else { break }
            seen += entries.compactMap { $0["topicName"]?.string }
            next = page["nextPageToken"]?.string
            pageCount += 1
        }
        #expect(seen == names && pageCount == 3)
        #expect(try await world.call(.get, path + "?pageSize=-1").status == 400)
        #expect(try await world.call(.get, path + "?pageToken=*").status == 400)
        try await world.broker.close()
    }

    @Test("GW-2 an instance is told with info in the path and without, as kreait asks")
    func bothPaths() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        _ = try await world.broker.subscribe([token], to: "tea", in: GatewayWorld.project)
        for path in ["/iid/info/", "/iid/"] {
            let found = try await world.call(.get, path + token + "?details=true")
            #expect(found.status == 200)
            #expect(found.json["application"]?.string == "com.example.tides")
            #expect(found.json["rel"]?["topics"]?["tea"] == .object([:]))
            let gone = try await world.call(.get, path + String(repeating: "A", count: 32))
            #expect(gone.status == 404)
        }
        try await world.broker.close()
    }

    @Test("GW-2 the subscriptions that the SDKs of devices ask for, once and again")
    func verbs() async throws {
        let world = try await GatewayWorld.open()
        let token = try await world.newToken()
        let path = "/v1/projects/tides/registrations/\(token)/topicSubscriptions/a%25b:"
        for (verb, topics) in [("subscribe", ["a%b"]), ("unsubscribe", [])] {
            for _ in 0..<2 {
                let answer = try await world.call(.post, path + verb)
                #expect(answer.status == 200 && answer.json == .object([:]))
                let listed = try world.broker.topics(
                    of: token, in: GatewayWorld.project
                ).entries.map(\.name)
                #expect(listed == topics)
            }
        }
        #expect(try await world.call(.post, path + "forget").status == 405)
        #expect(try await world.call(.post, path + "subscribe", headers: []).status == 401)
        try await world.broker.close()
    }
}
