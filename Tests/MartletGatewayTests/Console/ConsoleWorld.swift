// SPDX-License-Identifier: Apache-2.0
//
// A broker with two projects, and its console, called without HTTP as a browser would call it. Rests on MartletConsole.

import Foundation
import Logging
import Martlet
import MartletAnswers
import MartletClient
import MartletGateway
import Testing

import MartletConsole

/// A console of a running broker.
final class ConsoleWorld: Sendable {
    static let password = "a long password"

    let folder: TestFolder
    let clock: TestClock
    let broker: Broker
    let console: Console
    let gateway: Gateway

    private init(_ folder: TestFolder, _ clock: TestClock, _ broker: Broker, _ console: Console) {
        self.folder = folder
        self.clock = clock
        self.broker = broker
        self.console = console
        var configuration = GatewayConfiguration()
        configuration.logger.logLevel = .critical
        gateway = Gateway(broker, configuration, doors: [console.door])
    }

    static func with(
        isSecure: Bool = false,
        configured change: (inout BrokerConfiguration) -> Void = { _ in },
        _ body: (ConsoleWorld) async throws -> Void
    ) async throws {
        let (folder, clock) = (TestFolder(), TestClock())
        let broker = try await folder.open(clock: clock, change)
        for project in ["tides", "waves"] { _ = try await broker.createProject(project) }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let console = Console(broker, ConsoleConfiguration(isSecure: isSecure, logger: logger))
        try await body(ConsoleWorld(folder, clock, broker, console))
        try await broker.close()
    }

    /// What a browser keeps of a session.
    struct Browser: Sendable {
        var cookie = ""
        var csrf = ""
        /// Address of the browser; nil: this machine.
        var address: String?
        var headers: [(name: String, value: String)] {
            [
                ("host", "localhost"), ("cookie", cookie), ("x-martlet-csrf", csrf),
                ("origin", "https://localhost"), ("sec-fetch-site", "same-origin"),
            ]
        }
    }

    func add(_ name: String, _ role: ConsoleRole, of project: String? = nil) throws {
        let now = broker.now
        try AccessFile(in: folder.url.path).change { (list) throws(MartletError) in
            try list.add(name, role: role, project: project, password: Self.password, at: now)
        }
    }

    /// A signed-in user with the role.
    func signedIn(
        _ role: ConsoleRole, of project: String? = nil
    ) async throws -> Browser {
        let name = "\(role.rawValue).\(project ?? "all")"
        try add(name, role, of: project)
        return try await signIn(#"{"name":"\#(name)","password":"\#(Self.password)"}"#)
    }

    func signIn(_ body: String) async throws -> Browser {
        let answer = await call(.post, "session", body: body, as: Browser())
        #expect(answer.status == 200)
        return Browser(
            cookie: Self.cookies(answer), csrf: try #require(try json(answer)["csrf"]?.string))
    }

    /// The cookies of an answer, as a browser sends them back.
    static func cookies(_ answer: GatewayAnswer) -> String {
        answer.headers.filter { $0.name == "set-cookie" }
            .map { String($0.value.prefix { $0 != ";" }) }.joined(separator: "; ")
    }

    func call(
        _ method: GatewayCall.Method, _ path: String, body: String = "", as browser: Browser
    ) async -> GatewayAnswer {
        await call(
            method, path, body: body, headers: browser.headers, address: browser.address)
    }

    func call(
        _ method: GatewayCall.Method, _ path: String, body: String = "",
        headers: [(name: String, value: String)], address: String? = nil
    ) async -> GatewayAnswer {
        guard
            var call = GatewayCall(
                method, target: "/console/api/v1/" + path, headers: headers, body: Array(body.utf8))
        else { return GatewayAnswer(status: 400) }
        call.peer = address
        return await gateway.answer(call)
    }

    /// A device of the project `tides`, not connected yet.
    func newDevice(
        _ platform: Platform = .android, app: String = "com.example.tides",
        state: DeviceState = .active
    ) async throws -> (token: String, connect: @Sendable () -> MartletDevice) {
        let known = try await broker.register(app: app, platform: platform, in: "tides")
        let port = Int(try #require(broker.port))
        return (
            known.token,
            {
                MartletDevice(
                    host: "127.0.0.1", port: port,
                    credentials: DeviceCredentials(
                        projectID: "tides", token: known.token, deviceKey: known.deviceKey),
                    deviceState: state)
            }
        )
    }

    func json(_ answer: GatewayAnswer) throws -> JSONValue { try JSONValue(parsing: answer.body) }
}
