// SPDX-License-Identifier: Apache-2.0
//
// Attacks on signing in (GW-9): nobody locks another person out, and nobody learns which names exist. Rests on ConsoleWorld.

import Foundation
import Martlet
import MartletAnswers
import MartletGateway
import Testing

import MartletConsole

@Suite("Console: signing in")
struct ConsoleLoginTests {
    private func attempt(
        _ name: String, _ password: String = "wrong", from address: String,
        cookie: String = "", _ world: ConsoleWorld
    ) async -> GatewayAnswer {
        await world.call(
            .post, "session", body: #"{"name":"\#(name)","password":"\#(password)"}"#,
            as: .init(cookie: cookie, address: address))
    }

    @Test(
        "GW-9 wrong passwords make the next attempt from there wait, whether the name exists or not"
    )
    func guessing() async throws {
        try await ConsoleWorld.with { world in
            try world.add("ann", .viewer)
            var answers: [[GatewayAnswer]] = []
            for name in ["ann", "nobody"] {
                var own: [GatewayAnswer] = []
                for _ in 0..<8 { own.append(await attempt(name, from: "192.0.2.1", world)) }
                answers.append(own)
            }
            for own in answers {
                #expect(own.prefix(6).allSatisfy { $0.status == 401 })
                #expect(own[6].status == 429)
                #expect(own[6].headers.contains { $0.name == "retry-after" })
            }
            #expect(answers[0].map(\.status) == answers[1].map(\.status))
            #expect(answers[0][0].body == answers[1][0].body)
        }
    }

    @Test("GW-9 wrong passwords of others do not keep a user from signing in from elsewhere")
    func elsewhere() async throws {
        try await ConsoleWorld.with { world in
            try world.add("ann", .viewer)
            for _ in 0..<8 { _ = await attempt("ann", from: "192.0.2.1", world) }
            let password = ConsoleWorld.password
            #expect(await attempt("ann", password, from: "192.0.2.1", world).status == 429)
            #expect(await attempt("ann", password, from: "198.51.100.7", world).status == 200)
        }
    }

    @Test(
        "GW-9 a browser that has signed in as a user before does so beside any attack, and no other user's mark helps"
    )
    func known() async throws {
        try await ConsoleWorld.with(configured: { $0.limits.refusalsPerMinutePerAddress = 5 }) {
            world in
            for name in ["ann", "till"] { try world.add(name, .viewer) }
            let (password, address) = (ConsoleWorld.password, "192.0.2.1")
            let marks = [
                ConsoleWorld.cookies(await attempt("ann", password, from: address, world)),
                ConsoleWorld.cookies(await attempt("till", password, from: address, world)),
            ]
            // The address has too many wrong credentials, and the name too many wrong passwords from there.
            for _ in 0..<8 { _ = await attempt("ann", from: address, world) }
            func ann(_ cookie: String) async -> Int {
                await attempt("ann", password, from: address, cookie: cookie, world).status
            }
            #expect(await ann("") == 429)
            #expect(await ann(marks[1]) == 429)
            #expect(await ann(marks[0]) == 200)
        }
    }

    @Test("GW-9 REG-10 an address with too many wrong credentials costs no comparison more")
    func refusedAddress() async throws {
        try await ConsoleWorld.with(configured: { $0.limits.refusalsPerMinutePerAddress = 3 }) {
            world in
            for number in 0..<3 {
                #expect(await attempt("user\(number)", from: "192.0.2.1", world).status == 401)
            }
            #expect(await attempt("another", from: "192.0.2.1", world).status == 429)
            #expect(await attempt("another", from: "192.0.2.2", world).status == 401)
        }
    }

    @Test("GW-9 many attempts of a network at a time leave the others their turns")
    func crowd() async throws {
        try await ConsoleWorld.with { world in
            try world.add("ann", .viewer)
            let statuses = await withTaskGroup(of: (isOwn: Bool, Int).self) { tasks in
                for number in 0..<48 {
                    tasks.addTask {
                        (false, await attempt("n\(number)", from: "192.0.2.1", world).status)
                    }
                }
                tasks.addTask {
                    (
                        true,
                        await attempt(
                            "ann", ConsoleWorld.password, from: "198.51.100.7", world
                        ).status
                    )
                }
                return await tasks.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.first { $0.isOwn }?.1 == 200)
            let others = statuses.filter { !$0.isOwn }.map(\.1)
            #expect(others.allSatisfy { $0 == 401 || $0 == 503 })
            #expect(others.contains(503))
        }
    }

    // MARK: Sessions

    @Test("GW-9 a user who signs in very often ends own sessions alone")
    func manySessions() async throws {
        try await ConsoleWorld.with { world in
            let ann = try await world.signedIn(.administrator)
            try world.add("vic", .viewer)
            let body = #"{"name":"vic","password":"\#(ConsoleWorld.password)"}"#
            var browsers: [ConsoleWorld.Browser] = []
            for _ in 0...Limits.consoleSessionsPerUserMax {
                world.clock.advance(seconds: 1)
                browsers.append(try await world.signIn(body))
            }
            #expect(await world.call(.get, "projects", as: ann).status == 200)
            #expect(await world.call(.get, "projects", as: browsers[0]).status == 401)
            #expect(await world.call(.get, "projects", as: browsers[1]).status == 200)
        }
    }

    @Test("GW-9 a user has a bounded number of streams, however many sessions are open")
    func manyStreams() async throws {
        try await ConsoleWorld.with { world in
            try world.add("vic", .viewer)
            let body = #"{"name":"vic","password":"\#(ConsoleWorld.password)"}"#
            var open: [AsyncStream<[UInt8]>] = []
            for _ in 0..<4 {
                let browser = try await world.signIn(body)
                for _ in 0..<8 {
                    let answer = await world.call(.get, "events", as: browser)
                    if answer.status == 200 { open.append(try #require(answer.stream)) }
                }
            }
            #expect(open.count == Limits.consoleStreamsPerUserMax)
            // Each link is for a person of its own.
            let (file, now) = (AccessFile(in: world.folder.url.path), world.broker.now)
            for _ in 0..<3 {
                let link = try file.change { (list) throws(MartletError) in
                    list.openLink(role: .viewer, project: nil, lifeSeconds: 60, at: now)
                }
                let browser = try await world.signIn(#"{"link":"\#(link)"}"#)
                for _ in 0..<8 {
                    open.append(
                        try #require(await world.call(.get, "events", as: browser).stream))
                }
            }
            #expect(open.count == Limits.consoleStreamsPerUserMax + 24)
            #expect(world.console.viewers.count == open.count)
            open = []
            while world.console.viewers.count > 0 { await Task.yield() }
        }
    }

    @Test("GW-9 what a page asks by itself does not prolong a session")
    func background() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            func poll(_ path: String) async -> Int {
                let headers = browser.headers + [("x-martlet-background", "1")]
                return await world.call(.get, path, headers: headers).status
            }
            world.clock.advance(seconds: 3000)
            #expect(await poll("projects") == 200)
            #expect(await poll("session") == 200)
            _ = await world.call(.get, "events", as: browser)
            #expect(world.console.door.recognises { browser.headers.first(named: $0) })
            world.clock.advance(seconds: 1000)
            #expect(await poll("projects") == 401)
        }
    }

    @Test("GW-9 signing in again ends the browser's session before")
    func again() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let body = #"{"name":"viewer.all","password":"\#(ConsoleWorld.password)"}"#
            #expect(await world.call(.post, "session", body: body, as: browser).status == 200)
            #expect(await world.call(.get, "projects", as: browser).status == 401)
        }
    }

    @Test("GW-9 cookies of the same name from elsewhere do not hide a session")
    func severalCookies() async throws {
        try await ConsoleWorld.with { world in
            var browser = try await world.signedIn(.viewer)
            let name = browser.cookie.split(separator: "; ").last?.prefix { $0 != "=" } ?? ""
            browser.cookie = "a=b; \(name)=guess; " + browser.cookie
            #expect(await world.call(.get, "projects", as: browser).status == 200)
            let fields = browser.headers.flatMap { header in
                header.name == "cookie"
                    ? header.value.split(separator: "; ").map {
                        (name: "cookie", value: String($0))
                    }
                    : [header]
            }
            #expect(await world.call(.get, "projects", headers: fields).status == 200)
        }
    }

    @Test("GW-9 two consoles on one host use cookies of different names")
    func neighbours() async throws {
        try await ConsoleWorld.with { one in
            try await ConsoleWorld.with { other in
                let browsers = [try await one.signedIn(.viewer), try await other.signedIn(.viewer)]
                let both = browsers.map(\.cookie).joined(separator: "; ")
                for world in [one, other] {
                    let answer = await world.call(.get, "projects", as: .init(cookie: both))
                    #expect(answer.status == 200)
                }
            }
        }
    }

    @Test(
        "GW-9 a console of this machine answers under names of this machine alone",
        arguments: [
            ("localhost:8080", 200), ("127.0.0.1:80", 200), ("[::1]:8080", 200),
            ("console.localhost", 200), ("evil.test", 403), ("127.0.0.1.evil.test", 403),
        ])
    func hosts(host: String, status: Int) async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let headers = browser.headers.map {
                $0.name == "host" ? (name: "host", value: host) : $0
            }
            #expect(await world.call(.get, "projects", headers: headers).status == status)
        }
    }

    @Test("GW-9 a proxy may write another host into a change from the console's own page")
    func rewrittenHost() async throws {
        try await ConsoleWorld.with(isSecure: true) { world in
            let browser = try await world.signedIn(.administrator)
            let headers = browser.headers.map {
                $0.name == "host" ? (name: "host", value: "10.0.0.7:8080") : $0
            }
            let body = #"{"project":"storms"}"#
            let without = headers.filter { $0.name != "sec-fetch-site" }
            #expect(await world.call(.post, "projects", body: body, headers: without).status == 403)
            #expect(await world.call(.post, "projects", body: body, headers: headers).status == 200)
        }
    }

    @Test(
        "GW-9 no user has a name that the log uses itself", arguments: ["link", "command", "Link"])
    func reserved(name: String) async throws {
        try await ConsoleWorld.with { world in
            #expect(throws: MartletError.self) { try world.add(name, .viewer) }
        }
    }

    @Test("GW-9 a person changes the own password, and the other sessions end")
    func ownPassword() async throws {
        try await ConsoleWorld.with { world in
            let browser = try await world.signedIn(.viewer)
            let other = try await world.signIn(
                #"{"name":"viewer.all","password":"\#(ConsoleWorld.password)"}"#)
            func change(_ current: String, _ next: String) async -> GatewayAnswer {
                await world.call(
                    .post, "session/password",
                    body: #"{"current":"\#(current)","next":"\#(next)"}"#, as: browser)
            }
            #expect(await change("wrong", "another password").status == 401)
            #expect(await change(ConsoleWorld.password, "short").status == 400)
            let answer = await change(ConsoleWorld.password, "another password")
            #expect(answer.status == 200)
            #expect(await world.call(.get, "projects", as: other).status == 401)
            let fresh = ConsoleWorld.Browser(cookie: ConsoleWorld.cookies(answer))
            #expect(await world.call(.get, "projects", as: fresh).status == 200)
            _ = try await world.signIn(#"{"name":"viewer.all","password":"another password"}"#)
        }
    }
}

extension [(name: String, value: String)] {
    fileprivate func first(named name: String) -> String? { first { $0.name == name }?.value }
}
