// SPDX-License-Identifier: Apache-2.0
//
// Who may do what in the console, and attacks on it (GW-9). Rests on ConsoleWorld.

import Foundation
import Martlet
import MartletAnswers
import MartletGateway
import Testing

import MartletConsole

@Suite("Console: access")
struct ConsoleAccessTests {
    /// A path of a route with a value for each of its parameters.
    private func path(_ route: ConsoleRoute, project: String) -> String {
        route.parameters.reduce(route.path) { path, name in
            path.replacing("{\(name)}", with: name == "project" ? project : "x")
        }
    }

    @Test("GW-9 no route answers without a session, but those to sign in and the description")
    func strangers() async throws {
        try await ConsoleWorld.with { world in
            for route in ConsoleRoute.all where route.access != .anyone {
                let answer = await world.call(
                    route.method, path(route, project: "tides"), body: "{}",
                    headers: ConsoleWorld.Browser(cookie: "martlet-console=guess").headers)
                #expect(answer.status == 401, "\(route.name)")
            }
            let open = ConsoleRoute.all.filter { $0.access == .anyone }.map(\.name)
            #expect(open == ["session.begin", "session.show", "openapi"])
        }
    }

    @Test(
        "GW-9 a user of one project is refused in every route of another, as in one that is not there"
    )
    func foreignProjects() async throws {
        try await ConsoleWorld.with { world in
            let own = try await world.signedIn(.administrator, of: "waves")
            for route in ConsoleRoute.all where route.parameters.contains("project") {
                let foreign = await world.call(
                    route.method, path(route, project: "tides"), body: "{}", as: own)
                let missing = await world.call(
                    route.method, path(route, project: "nothing"), body: "{}", as: own)
                #expect(foreign.status == 403, "\(route.name)")
                #expect(foreign.body == missing.body, "\(route.name)")
            }
            for path in ["events?project=tides", "fanouts?project=tides", "history", "users"] {
                #expect(await world.call(.get, path, as: own).status == 403, "\(path)")
            }
            let list = try world.json(await world.call(.get, "projects", as: own))
            guard case .array(let projects)? = list["entries"] else { return #expect(Bool(false)) }
            #expect(projects.map { $0["project"]?.string } == ["waves"])
            let status = await world.call(.get, "status", as: own)
            #expect(try world.json(status)["status"]?["connections"] == nil)
        }
    }

    @Test("GW-9 a role is refused what only a higher role may")
    func roles() async throws {
        try await ConsoleWorld.with { world in
            let browsers = [
                (ConsoleRole.viewer, try await world.signedIn(.viewer)),
                (ConsoleRole.sender, try await world.signedIn(.sender)),
            ]
            for route in ConsoleRoute.all {
                let needed: ConsoleRole
                switch route.access {
                case .anyone: continue
                case .role(let role), .everywhere(let role): needed = role
                }
                for (role, browser) in browsers where role < needed {
                    let answer = await world.call(
                        route.method, path(route, project: "tides"), body: "{}", as: browser)
                    #expect(answer.status == 403, "\(role) \(route.name)")
                }
            }
        }
    }

    @Test(
        "GW-9 a change from another site, or without the session's value, changes nothing",
        arguments: [
            ("origin", "https://evil.test"), ("sec-fetch-site", "cross-site"),
            ("x-martlet-csrf", "guess"),
        ])
    func forgery(header: String, value: String) async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.administrator)
            var headers = browser.headers.map {
                $0.name == header ? (name: header, value: value) : $0
            }
            // A browser that tells the site is believed; an older browser tells the origin alone.
            if header == "origin" { headers.removeAll { $0.name == "sec-fetch-site" } }
            let body = #"{"project":"forged"}"#
            let answer = await world.call(.post, "projects", body: body, headers: headers)
            #expect(answer.status == 403)
            #expect((try? world.broker.project("forged")) == nil)
            #expect(await world.call(.post, "projects", body: body, as: browser).status == 200)
        }
    }

    @Test(
        "GW-9 the cookie is out of the reach of scripts and other sites, and over TLS bound to the host"
    )
    func cookies() async throws {
        try await ConsoleWorld.with(isSecure: true) { world in
            try world.add("ann", .viewer)
            let answer = await world.call(
                .post, "session",
                body: #"{"name":"ann","password":"\#(ConsoleWorld.password)"}"#,
                as: .init())
            let cookies = answer.headers.filter { $0.name == "set-cookie" }.map(\.value)
            #expect(cookies.count == 2)
            for cookie in cookies {
                #expect(cookie.hasPrefix("__Host-martlet-"))
                for part in ["Path=/;", "HttpOnly", "SameSite=Strict", "Secure"] {
                    #expect(cookie.contains(part))
                }
            }
        }
    }

    @Test("GW-9 a session ends after an hour of silence, and after twelve hours in any case")
    func times() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            for _ in 0..<13 {
                world.clock.advance(seconds: 3200)
                #expect(await world.call(.get, "projects", as: browser).status == 200)
            }
            world.clock.advance(seconds: 3200)
            #expect(await world.call(.get, "projects", as: browser).status == 401)
            try world.add("late", .viewer)
            let late = try await world.signIn(
                #"{"name":"late","password":"\#(ConsoleWorld.password)"}"#)
            world.clock.advance(seconds: 3601)
            #expect(await world.call(.get, "projects", as: late).status == 401)
        }
    }

    @Test("GW-9 a removed user's sessions end at once, and another process may remove the user")
    func removed() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            #expect(await world.call(.get, "projects", as: browser).status == 200)
            try AccessFile(in: world.folder.url.path).change { (list) throws(MartletError) in
                try list.remove("viewer.all")
            }
            #expect(await world.call(.get, "projects", as: browser).status == 401)
        }
    }

    @Test("GW-9 a link opens one session, once, within an hour")
    func links() async throws {
        try await ConsoleWorld.with { world in
            let file = AccessFile(in: world.folder.url.path)
            let now = world.broker.now
            func link() throws -> String {
                try file.change { (list) throws(MartletError) in
                    list.openLink(role: .sender, project: "tides", lifeSeconds: 3600, at: now)
                }
            }
            let body = #"{"link":"\#(try link())"}"#
            let browser = try await world.signIn(body)
            let who = try world.json(await world.call(.get, "session", as: browser))
            #expect(who["role"]?.string == "sender" && who["project"]?.string == "tides")
            #expect(await world.call(.post, "session", body: body, as: .init()).status == 401)
            let late = #"{"link":"\#(try link())"}"#
            world.clock.advance(seconds: 3601)
            #expect(await world.call(.post, "session", body: late, as: .init()).status == 401)
        }
    }

    @Test("GW-9 sessions outlive a restart, and the folder's files have no secret of them")
    func restart() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let again = Console(world.broker, world.console.configuration)
            let secrets = browser.cookie.split(separator: "; ").map {
                $0.drop { $0 != "=" }.dropFirst()
            }
            let person = try again.people.session(in: browser.cookie)
            #expect(person.name == "viewer.all")
            for name in try FileManager.default.contentsOfDirectory(atPath: world.folder.url.path)
            where name.hasPrefix("console.") || name.hasPrefix("audit.") {
                let path = world.folder.url.appending(path: name)
                let text = try String(contentsOf: path, encoding: .utf8)
                #expect(!secrets.contains { text.contains($0) })
                #expect(!text.contains(ConsoleWorld.password))
                let mode = try FileManager.default.attributesOfItem(atPath: path.path)
                #expect(mode[.posixPermissions] as? Int == 0o600, "\(name)")
            }
        }
    }

    @Test("GW-9 event streams are bounded, for a session and for all, and come back")
    func streams() async throws {
        try await ConsoleWorld.with { world in
            var open: [AsyncStream<[UInt8]>] = []
            for number in 0..<10 {
                try world.add("user\(number)", .viewer)
                let browser = try await world.signIn(
                    #"{"name":"user\#(number)","password":"\#(ConsoleWorld.password)"}"#)
                for _ in 0..<100 {
                    let answer = await world.call(.get, "events", as: browser)
                    if answer.status == 200 { open.append(try #require(answer.stream)) }
                }
                #expect(
                    open.count
                        == min(
                            (number + 1) * Limits.consoleStreamsPerSessionMax,
                            Limits.consoleStreamsMax))
            }
            open = []
            while world.console.viewers.count > 0 { await Task.yield() }
        }
    }
}
