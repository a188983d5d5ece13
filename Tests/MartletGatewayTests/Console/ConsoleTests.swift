// SPDX-License-Identifier: Apache-2.0
//
// What the console's API answers, its pages' files, and its description (GW-9, MSG-3). Rests on ConsoleWorld.

import Foundation
import Martlet
import MartletAnswers
import MartletGateway
import Testing

import MartletConsole

@Suite("Console: API and pages")
struct ConsoleTests {
    private static let web = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/MartletConsole/Web")

    @Test("GW-9 an answer is the JSON that the command prints")
    func shapes() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let device = try await world.broker.register(
                app: "com.example.tides", platform: .web, in: "tides")
            _ = try await world.broker.subscribe([device.token], to: "rain", in: "tides")
            let condition = "'rain' in topics && !('silent' in topics)"
            let query = "condition='rain'+in+topics+%26%26+!('silent'+in+topics)"
            func text(_ path: String) async -> String {
                let answer = await world.call(.get, path, as: browser)
                return String(decoding: answer.body, as: UTF8.self)
            }
            let audience = try world.broker.audience(of: condition, in: "tides")
            #expect(
                await text("projects/tides/audience?" + query)
                    == JSON.line(AudienceAnswer(audience, of: condition, connected: 0)))
            let explanation = try world.broker.explain(condition, in: "tides")
            #expect(
                await text("projects/tides/audience/explanation?" + query)
                    == JSON.line(ExplanationAnswer(explanation, of: condition)))
            let wrong = await world.call(
                .get, "projects/tides/audience?condition='rain'+on", as: browser)
            #expect(wrong.status == 400)
            guard case .integer? = try world.json(wrong)["error"]?["byteOffset"] else {
                return #expect(Bool(false), "a wrong condition has the place of its fault")
            }
        }
    }

    @Test("MSG-3 a message from the console has at most 1024 characters, of any number of bytes")
    func characters() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.sender)
            func send(_ count: Int) async -> GatewayAnswer {
                let title = String(repeating: "é", count: count - 4)
                return await world.call(
                    .post, "projects/tides/messages",
                    body: """
                        {"target": {"kind": "topic", "text": "rain"}, "message": {"notification": \
                        {"title": "\(title)"}, "data": {"ab": "cd"}}}
                        """, as: browser)
            }
            #expect(await send(1024).status == 200)
            let long = await send(1025)
            #expect(long.status == 400)
            #expect(try world.json(long)["error"]?["field"]?.string == "message")
        }
    }

    @Test(
        "GW-9 a message reaches exactly those that it is for, and then those that have not got it")
    func sending() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.sender)
            for platform in Platform.allCases {
                _ = try await world.broker.register(
                    app: "com.example.\(platform.name)", platform: platform, in: "tides")
            }
            func recipients(_ target: String, _ more: String = "") async throws -> JSONValue? {
                let body = """
                    {"target": \(target), "message": {"notification": {"title": "Storm"}}\(more)}
                    """
                return try world.json(
                    await world.call(.post, "projects/tides/messages", body: body, as: browser))[
                        "recipients"]
            }
            let everyone = #"{"kind": "everyone", "text": ""}"#
            #expect(try await recipients(everyone) == .integer(3))
            let app = #"{"kind": "app", "text": "com.example.web"}"#
            #expect(try await recipients(app) == .integer(1))
            #expect(try await recipients(everyone, #", "notReceived": "2""#) == .integer(1))
            #expect(try await recipients(everyone, #", "validateOnly": true"#) == .integer(3))
        }
    }

    @Test(
        "GW-9 MSG-10 a time that is past, and a message with nothing in it, are refused",
        arguments: [
            (#"{"data": {"a": ""}}"#, "", 200), (#"{"notification": {"body": "b"}}"#, "", 200),
            (#"{"apns": {"payload": {"aps": {"badge": 0}}}}"#, "", 200), ("{}", "", 400),
            (#"{"notification": {"title": ""}, "data": {}}"#, "", 400),
            (#"{"android": {"notification": {}}}"#, "", 400),
            (#"{"data": {"a": "b"}}"#, #", "sendAt": 1"#, 400),
            (#"{"data": {"a": "b"}}"#, #", "sendAt": -9223372036854775808"#, 400),
            (#"{"data": {"a": "b"}}"#, #", "sendAt": 1800000000000"#, 400),
            (#"{"data": {"a": "b"}}"#, #", "sendAt": 1800000001000"#, 200),
        ])
    func emptyAndPast(message: String, more: String, status: Int) async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.sender)
            let answer = await world.call(
                .post, "projects/tides/messages",
                body:
                    #"{"target": {"kind": "topic", "text": "rain"}, "message": \#(message)\#(more)}"#,
                as: browser)
            #expect(answer.status == status, "\(String(decoding: answer.body, as: UTF8.self))")
        }
    }

    @Test(
        "GW-9 REG-5 a key's name has no control characters",
        arguments: ["server", "registration", "service-account"])
    func keyNames(kind: String) async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.administrator)
            func create(_ name: String) async -> Int {
                let body = #"{"name":"\#(name)"}"#
                return await world.call(
                    .post, "projects/tides/keys/\(kind)", body: body, as: browser
                ).status
            }
            #expect(await create(#"red\u001b[31m"#) == 400)
            #expect(await create(#"two\nlines"#) == 400)
            #expect(await create("Tür 7") == 200)
            #expect(await create("") == 200)
        }
    }

    @Test(
        "GW-9 an administrator of one project changes the project, but neither its share nor its overload"
    )
    func share() async throws {
        try await ConsoleWorld.with { world in
            let own = try await world.signedIn(.administrator, of: "tides")
            let all = try await world.signedIn(.administrator)
            func change(_ body: String, _ browser: ConsoleWorld.Browser) async -> Int {
                await world.call(.patch, "projects/tides", body: body, as: browser).status
            }
            for body in [#"{"weight": 1000}"#, #"{"onOverload": "refuse"}"#] {
                #expect(await change(body, own) == 403)
                #expect(await change(body, all) == 200)
            }
            #expect(await change(#"{"registration": "open"}"#, own) == 200)
        }
    }

    @Test("GW-9 a device is looked up with what waits for it")
    func device() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let device = try await world.broker.register(
                app: "com.example.tides", platform: .android, in: "tides")
            _ = try await world.broker.subscribe([device.token], to: "rain", in: "tides")
            for key in [nil, "score"] {
                _ = try await world.broker.send(
                    OutgoingMessage(
                        to: .token(device.token), Message(data: ["wind": "10"]),
                        collapseKey: key), in: "tides")
            }
            let found = try world.json(
                await world.call(.get, "projects/tides/devices/\(device.token)", as: browser))
            #expect(found["connection"] == nil)
            #expect(found["limits"] == .array([]))
            #expect(found["topics"] == .array([.string("rain")]))
            guard case .array(let waiting)? = found["waiting"] else { return #expect(Bool(false)) }
            #expect(waiting.map { $0["collapsible"] } == [.bool(false), .bool(true)])
            #expect(waiting.map { $0["why"]?.string } == ["notConnected", "notConnected"])
            #expect(
                waiting.map { $0["messageID"]?.string } == [
                    "projects/tides/messages/1", "projects/tides/messages/2",
                ])
        }
    }

    @Test("GW-9 a body that is no JSON, is too deep, or has unknown members is refused")
    func bodies() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.administrator)
            for body in [
                "{", "[]", "{\"project\": 1}", "{\"project\": \"a\", \"more\": 1}",
                String(repeating: "[", count: 100_000),
            ] {
                let answer = await world.call(.post, "projects", body: body, as: browser)
                #expect(answer.status == 400)
            }
        }
    }

    // MARK: Pages

    private func page(_ target: String, in world: ConsoleWorld) async -> GatewayAnswer {
        guard let call = GatewayCall(.get, target: target) else {
            return GatewayAnswer(status: 400)
        }
        return await world.gateway.answer(call)
    }

    @Test(
        "GW-9 the program has every file of the pages, in at most 150 KB, and loads nothing from elsewhere"
    )
    func files() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.web.path)
        #expect(Set(names) == Set(PageFile.all.keys))
        var count = 0
        for name in names {
            let bytes = try Data(contentsOf: Self.web.appending(path: name))
            #expect(PageFile.all[name]?.bytes == Array(bytes), "\(name)")
            count += bytes.count
            let text = String(decoding: bytes, as: UTF8.self)
                .replacing("http://www.w3.org/2000/svg", with: "")
            #expect(!text.contains(/https?:\/\/\w/), "\(name) names another address")
            #expect(
                !text.contains(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(/))
            if name.hasSuffix(".html") {
                #expect(!text.contains(/<script(?![^>]* src=)|<style| on\w+=| style=/))
            }
        }
        #expect(count <= 150_000)
    }

    @Test(
        "GW-9 pages go with headers that admit no script of others, and no path leads out of them")
    func headers() async throws {
        try await ConsoleWorld.with { world in
            let page = await page("/console/", in: world)
            #expect(page.status == 200)
            let policy = try #require(
                page.headers.first { $0.name == "content-security-policy" }
            ).value
            #expect(policy.hasPrefix("default-src 'none'; script-src 'self';"))
            #expect(!policy.contains("unsafe"))
            let tag = try #require(page.headers.first { $0.name == "etag" }).value
            let again = await world.gateway.answer(
                GatewayCall(.get, path: ["console", ""], headers: [("if-none-match", tag)]))
            #expect(again.status == 304 && again.body.isEmpty)
            for path in [
                "/console/../admin.key", "/console/%2e%2e%2fadmin.key", "/console/..%5cadmin.key",
                "/console//etc/passwd", "/console/api/v1/../../healthz", "/console/api/v1/",
            ] {
                #expect(await self.page(path, in: world).status == 404, "\(path)")
            }
        }
    }

    @Test("GW-9 the description has every route, its parameters and its role")
    func openAPI() async throws {
        try await ConsoleWorld.with { world in
            let answer = await world.call(.get, "openapi.json", headers: [])
            let document = try world.json(answer)
            #expect(document["openapi"]?.string == "3.1.0")
            guard case .object(let paths)? = document["paths"] else { return #expect(Bool(false)) }
            var names: Set<String> = []
            for route in ConsoleRoute.all {
                let operation = paths["/console/api/v1/" + route.path]?[
                    route.method.rawValue.lowercased()]
                let name = try #require(operation?["operationId"]?.string)
                #expect(names.insert(name).inserted)
                guard case .array(let parameters)? = operation?["parameters"] else {
                    #expect(route.parameters.isEmpty && route.query.isEmpty)
                    continue
                }
                #expect(
                    parameters.map { $0["name"]?.string }
                        == route.parameters + route.query.map(\.name))
                #expect((operation?["security"] == nil) == (route.access == .anyone))
            }
            #expect(names.count == paths.reduce(0) { $0 + members($1.value) })
        }
    }

    private func members(_ value: JSONValue) -> Int {
        if case .object(let members) = value { members.count } else { 0 }
    }
}
