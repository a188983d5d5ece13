// SPDX-License-Identifier: Apache-2.0
//
// The OpenAPI document is true: real answers of every route have the shapes that it tells (GW-9). Rests on ConsoleWorld and
// SchemaCheck.

import Foundation
import Martlet
import MartletAnswers
import MartletClient
import MartletGateway
import Testing

import MartletConsole

/// Calls routes, and compares each body and each answer with the document.
private final class CheckedCalls {
    let world: ConsoleWorld
    let check: SchemaCheck
    var browser = ConsoleWorld.Browser()
    private(set) var called: Set<String> = []

    init(_ world: ConsoleWorld) async throws {
        self.world = world
        check = SchemaCheck(
            document: try world.json(await world.call(.get, "openapi.json", headers: [])))
    }

    func operation(_ route: ConsoleRoute) -> JSONValue? {
        check.document["paths"]?["/console/api/v1/" + route.path]?[
            route.method.rawValue.lowercased()]
    }

    /// Calls a route that must succeed.
    /// - Parameter path: the route's path with values; nil: the path has no parameters.
    @discardableResult
    func call(
        _ name: String, _ path: String? = nil, _ body: String = ""
    ) async throws -> JSONValue {
        let route = try #require(ConsoleRoute.all.first { $0.name == name })
        let operation = try #require(self.operation(route))
        called.insert(name)
        if !body.isEmpty {
            let value = try JSONValue(parsing: body)
            #expect(check.faults(value, check.body(operation)) == [], "body of \(name)")
        }
        let answer = await world.call(route.method, path ?? route.path, body: body, as: browser)
        #expect(answer.status == 200, "\(name): \(String(decoding: answer.body, as: UTF8.self))")
        let cookies = ConsoleWorld.cookies(answer)
        if !cookies.isEmpty { browser.cookie = cookies }
        let value = try world.json(answer)
        #expect(check.faults(value, check.answer(operation)) == [], "answer of \(name)")
        return value
    }

    /// Begins to follow a project.
    func follow(_ project: String) async throws -> AsyncStream<[UInt8]> {
        called.insert("events")
        let answer = await world.call(.get, "events?project=\(project)", as: browser)
        return try #require(answer.stream)
    }

    /// Reads a stream until each of the named events has come.
    func read(_ stream: AsyncStream<[UInt8]>, until names: Set<String>) async throws {
        let route = try #require(ConsoleRoute.all.first { $0.name == "events" })
        let content = operation(route)?["responses"]?["200"]?["content"]?["text/event-stream"]
        var left = names
        var text = ""
        for await bytes in stream {
            text += String(decoding: bytes, as: UTF8.self)
            while let end = text.firstRange(of: "\n\n") {
                let lines = text[..<end.lowerBound].split(separator: "\n")
                let name = String(try #require(lines.first).dropFirst("event: ".count))
                let data = String(try #require(lines.last).dropFirst("data: ".count))
                text.removeSubrange(..<end.upperBound)
                let faults = check.faults(
                    try JSONValue(parsing: data), content?["x-martlet-events"]?[name])
                #expect(faults == [], "event \(name)")
                left.remove(name)
            }
            if left.isEmpty { return }
        }
    }
}

@Suite("Console: the document of the API")
struct ConsoleSchemaTests {
    @Test("GW-9 bodies and answers of every route have the shapes that the OpenAPI document tells")
    func shapes() async throws {
        // With one delivery a second, a message to many is seen on its way.
        try await ConsoleWorld.with(configured: {
            $0.deliveriesPerSecond = 1
            $0.limits.deviceMessagesPerMinute = 1000
            // Deliveries take their time by the broker's clock.
            $0.clock = nil
        }) { world in
            let calls = try await CheckedCalls(world)
            let sampling = Task { await world.console.run() }
            try world.add("ann", .administrator)
            let password = ConsoleWorld.password
            try await calls.call("session.show")
            let session = try await calls.call(
                "session.begin", nil, #"{"name": "ann", "password": "\#(password)"}"#)
            calls.browser.csrf = try #require(session["csrf"]?.string)
            try await calls.call("session.show")
            let changed = try await calls.call(
                "session.password", nil, #"{"current": "\#(password)", "next": "\#(password)2"}"#)
            calls.browser.csrf = try #require(changed["csrf"]?.string)
            try await calls.call("openapi")

            let project = "projects/tides"
            try await calls.call(
                "projects.create", nil, #"{"project": "storms", "conditionTopicsMax": 8}"#)
            try await calls.call("projects.list", "projects?limit=1")
            try await calls.call(
                "projects.change", project,
                """
                {"weight": 3, "onOverload": "defer", "registration": "key", "deviceTopics": "all"}
                """)
            try await calls.call("quotas.list", project + "/quotas")
            try await keys(calls, project)

            var devices: [MartletDevice] = []
            var tokens: [String] = []
            for platform in Platform.allCases {
                let device = try await world.newDevice(platform)
                tokens.append(device.token)
                devices.append(device.connect())
                try await devices.last?.connect()
            }
            try await audiences(calls, project, tokens)
            try await groups(calls, project, tokens)
            try await messages(calls, project, tokens)
            try await calls.call("devices.show", project + "/devices/" + tokens[0])
            for device in devices { await device.close() }
            try await calls.call("devices.unregister", project + "/devices/" + tokens[0])
            try await calls.call("apps.list", project + "/apps")
            try await calls.call("apps.delete", project + "/apps/web/com.example.tides")

            try await calls.call("status")
            var history = try await calls.call("history")
            while history == .array([]) {
                try await Task.sleep(for: .milliseconds(100))
                history = try await calls.call("history")
            }
            try await calls.call("status")
            try await calls.call(
                "users.create", nil,
                #"{"name": "till", "password": "\#(password)", "role": "sender", "project": "tides"}"#
            )
            try await calls.call("users.list")
            try await calls.call("users.remove", "users/till")
            try await calls.call("log.list", "log?limit=3")
            try await calls.call("session.end")
            #expect(calls.called == Set(ConsoleRoute.all.map(\.name)))
            sampling.cancel()
        }
    }

    private func keys(_ calls: CheckedCalls, _ project: String) async throws {
        let key = try await calls.call(
            "keys.create", project + "/keys/server", #"{"name": "till"}"#)
        try await calls.call(
            "registrationKeys.create", project + "/keys/registration", #"{"name": "app"}"#)
        try await calls.call(
            "serviceAccounts.create", project + "/keys/service-account", #"{"name": "sdk"}"#)
        try await calls.world.broker.addTicketSecret(
            [UInt8](repeating: 65, count: 32), id: "ticket-1", named: "server", in: "tides")
        try await calls.call("keys.list", project + "/keys")
        let id = try #require(key["keyID"]?.string)
        try await calls.call("keys.revoke", project + "/keys/server/" + id)
    }

    private func audiences(
        _ calls: CheckedCalls, _ project: String, _ tokens: [String]
    ) async throws {
        let all = tokens.map { "\"\($0)\"" }.joined(separator: ", ")
        let topic = project + "/topics/rain/subscribers"
        try await calls.call("topics.subscribe", topic, #"{"tokens": [\#(all), "wrong"]}"#)
        try await calls.call("topics.list", project + "/topics?limit=1")
        try await calls.call("topics.subscribers", topic + "?limit=1")
        let condition = "condition='rain'+in+topics+%26%26+!('nothing'+in+topics)"
        try await calls.call("audience.count", project + "/audience?" + condition)
        try await calls.call("audience.explain", project + "/audience/explanation?" + condition)
        try await calls.call("audience.tokens", project + "/audience/tokens?limit=1&" + condition)
        try await calls.call(
            "topics.unsubscribe", topic, #"{"tokens": ["\#(tokens[0])", "wrong"]}"#)
        try await calls.call("topics.subscribe", topic, #"{"tokens": [\#(all)]}"#)
    }

    private func groups(
        _ calls: CheckedCalls, _ project: String, _ tokens: [String]
    ) async throws {
        let group = try await calls.call(
            "groups.create", project + "/groups",
            #"{"name": "few", "tokens": ["\#(tokens[1])", "\#(tokens[2])"]}"#)
        try await calls.call("groups.list", project + "/groups")
        try await calls.call("groups.show", project + "/groups/few")
        let key = try #require(group["key"]?.string)
        try await calls.call(
            "messages.send", project + "/messages",
            """
            {"target": {"kind": "group", "text": "\(key)"}, "message": {"data": {"a": "b"}}, \
            "validateOnly": true}
            """)
        try await calls.call(
            "groups.remove", project + "/groups/few",
            #"{"key": "\#(key)", "tokens": ["\#(tokens[2])"]}"#)
    }

    private func messages(
        _ calls: CheckedCalls, _ project: String, _ tokens: [String]
    ) async throws {
        func send(_ more: String) async throws -> String {
            let sent = try await calls.call(
                "messages.send", project + "/messages",
                """
                {"target": {"kind": "topic", "text": "rain"}, "message": {"notification": \
                {"title": "Storm", "body": "at five"}, "android": {"notification": {"icon": "wave"}}, \
                "apns": {"payload": {"aps": {"badge": 1}}}, "webpush": {"fcm_options": \
                {"link": "https://example.com"}}}, "priority": "high"\(more)}
                """)
            return String(sent["messageID"]?.string?.split(separator: "/").last ?? "")
        }
        let stream = try await calls.follow("tides")
        let first = try await send("")
        _ = try await send("")
        try await calls.call("fanouts.list", "fanouts?project=tides")
        try await calls.call("messages.report", project + "/messages/" + first)
        try await calls.call(
            "messages.missing", project + "/messages/" + first + "/missing?limit=1")
        try await calls.call("reports.days", project + "/reports?days=2")
        let later = calls.world.broker.now.millisecondsSince1970 + 3_600_000
        let scheduled = try await send(#", "sendAt": \#(later)"#)
        try await calls.call("messages.sent", project + "/sent?limit=2")
        try await calls.call("messages.scheduled", project + "/scheduled?limit=1")
        try await calls.call("messages.cancel", project + "/messages/" + scheduled)
        _ = try await send("")
        try await calls.read(stream, until: ["status", "accepted", "progress", "sums"])
    }

    @Test(
        "GW-9 the comparison finds a member too few, a member too many, and a value of another kind"
    )
    func canary() async throws {
        try await ConsoleWorld.with { world in
            let calls = try await CheckedCalls(world)
            let route = try #require(ConsoleRoute.all.first { $0.name == "apps.list" })
            let schema = calls.check.answer(calls.operation(route))
            func faults(_ text: String) throws -> Int {
                calls.check.faults(try JSONValue(parsing: text), schema).count
            }
            let right = #"{"app": "a", "platform": "web", "instances": 1, "beingDeleted": false}"#
            #expect(try faults("[\(right)]") == 0)
            #expect(try faults("[\(right.replacing(#""instances": 1, "#, with: ""))]") == 1)
            #expect(try faults("[\(right.replacing("}", with: #", "more": 1}"#))]") == 1)
            #expect(try faults("[\(right.replacing("1", with: #""one""#))]") == 1)
            #expect(try faults("[\(right.replacing("web", with: "desk"))]") == 1)
            #expect(try faults(right) == 1)
        }
    }

    @Test("GW-9 refusals have the shape that the OpenAPI document tells of them")
    func refusals() async throws {
        try await ConsoleWorld.with { world in
            let calls = try await CheckedCalls(world)
            let browser = try await world.signedIn(.viewer)
            let schema = calls.check.document["components"]?["schemas"]?["Failure"]
            for path in [
                "projects/tides/audience?condition='rain'+on", "projects/tides/topics?limit=x",
                "projects/tides/devices/x", "users",
            ] {
                let answer = await world.call(.get, path, as: browser)
                #expect(answer.status >= 400)
                #expect(calls.check.faults(try world.json(answer), schema) == [], "\(path)")
            }
        }
    }
}
