// SPDX-License-Identifier: Apache-2.0
//
// Who may register, as users of the `martlet` executable decide it: `martlet registration-key`, `martlet ticket-key`,
// `martlet app`, and the policies of `martlet project set` (REG-7, REG-8, TOP-10). Rests on Desk.

import Foundation
import MartletClient
import Testing

@Suite("martlet registration-key, ticket-key, app and project set", .timeLimit(.minutes(3)))
struct RegistrationCommandTests {
    private static let app = "com.example.tides"

    /// A broker with a project `tides`.
    private func withBroker(_ body: (Desk, _ port: String) async throws -> Void) async throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let (broker, port) = try desk.serve()
        defer {
            kill(broker.processIdentifier, SIGKILL)
            broker.waitUntilExit()
        }
        try await body(desk, port)
    }

    private struct Listened {
        /// nil: the device was refused.
        var token: String?
        var output: Desk.Output
    }

    /// Runs a device until it is ready or refused.
    private func listen(
        _ desk: Desk, _ port: String, as name: String, _ more: String...
    ) throws -> Listened {
        struct Ready: Decodable { var token: String }
        let device = try desk.start(
            [
                "listen", "--project", "tides", "--app", Self.app, "--port", port, "--state",
                name + ".json", "--json", "--timeout", "60",
            ] + more)
        let line = Data(desk.firstLine(device).utf8)
        let ready = try? JSONDecoder().decode(Ready.self, from: line)
        if ready != nil { device.terminate() }
        return Listened(token: ready?.token, output: desk.finish(device))
    }

    private func json<Answer: Decodable>(
        _ desk: Desk, _ arguments: String..., as type: Answer.Type = Answer.self
    ) throws -> Answer {
        let output = desk.finish(try desk.start(arguments + ["--json"]))
        #expect(output.status == 0, "\(output.err)")
        return try JSONDecoder().decode(type, from: Data(output.out.utf8))
    }

    private func isRefused(_ output: Desk.Output, _ word: String) -> Bool {
        output.status == 1 && output.out.isEmpty && output.err.contains(word)
    }

    // MARK: Registration keys

    @Test("REG-7 a device with a revoked registration key is refused, and a registered one stays")
    func registrationKeys() async throws {
        struct New: Decodable {
            var project: String
            var keyID: String
            var key: String
        }
        struct Key: Decodable {
            var keyID: String
            var name: String
            var revoked: Bool
        }
        try await withBroker { desk, port in
            let of = ["--project", "tides"]
            let new: New = try json(
                desk, "registration-key", "create", "--project", "tides", "--name", "app")
            #expect(new.project == "tides" && new.key.hasPrefix(new.keyID + "."))
            let first = try listen(desk, port, as: "a", "--registration-key", new.key)
            #expect(first.token != nil, "\(first.output.err)")

            let revoked = desk.finish(
                try desk.start(["registration-key", "revoke", new.keyID] + of))
            #expect(revoked.out == "Revoked registration key \(new.keyID) of project tides.\n")
            let second = try listen(desk, port, as: "b", "--registration-key", new.key)
            #expect(isRefused(second.output, "PERMISSION_DENIED"), "\(second.output)")
            #expect(try listen(desk, port, as: "a").token == first.token)

            let keys: [Key] = try json(desk, "registration-key", "list", "--project", "tides")
            #expect(keys.count == 2 && keys.filter(\.revoked).map(\.keyID) == [new.keyID])
            #expect(keys.filter(\.revoked).map(\.name) == ["app"])
            let list = desk.finish(try desk.start(["registration-key", "list"] + of))
            #expect(list.out.contains("revoked") && list.out.contains("valid"))
            #expect(!list.out.contains(new.key))
            // The other key of the project lies in the data folder.
            #expect(try listen(desk, port, as: "c").token != nil)
        }
    }

    @Test("OPS-1 registration keys are made and revoked on the folder while no broker runs")
    func registrationKeysAlone() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let created = try desk.run("registration-key", "create", "--project", "tides")
        let key = created.out.trimmingCharacters(in: .whitespacesAndNewlines)
        let id = key.prefix { $0 != "." }
        #expect(created.err == "Registration key \(id) of project tides. It is not shown again.\n")
        let revoked = try desk.run(
            "registration-key", "revoke", String(id), "--project", "tides", "--json")
        #expect(revoked.out == "{\"keyID\":\"\(id)\",\"revoked\":true}\n")
        let unknown = try desk.run("registration-key", "revoke", "nobody", "--project", "tides")
        #expect(isRefused(unknown, "NOT_FOUND"))
        #expect(try desk.run("registration-key", "create").status == 64)
        #expect(try desk.run("check").status == 0)
    }

    // MARK: Ticket keys

    private static let secret = "0123456789abcdef0123456789abcdef"

    /// A ticket, signed with HS256 as an app's server does.
    private func ticket(_ name: String, keyID: String = "login") throws -> String {
        let server = Process()
        server.executableURL = URL(filePath: "/usr/bin/env")
        server.arguments = [
            "python3", "-c",
            """
            import base64, hashlib, hmac, json, sys, time
            def part(raw): return base64.urlsafe_b64encode(raw).rstrip(b"=")
            head = part(json.dumps({"alg": "HS256", "kid": sys.argv[1]}).encode())
            claims = part(json.dumps({"exp": int(time.time()) + 600, "jti": sys.argv[3]}).encode())
            code = hmac.new(sys.argv[2].encode(), head + b"." + claims, hashlib.sha256).digest()
            print((head + b"." + claims + b"." + part(code)).decode(), end="")
            """, keyID, Self.secret, name,
        ]
        let output = Pipe()
        server.standardOutput = output
        try server.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        server.waitUntilExit()
        return String(decoding: text, as: UTF8.self)
    }

    /// The word with which a registration is refused; nil: the device is registered.
    private func refusal(_ port: String, _ registration: DeviceRegistration) async throws
        -> ErrorWord?
    {
        var options = DeviceOptions()
        options.registration = registration
        do {
            _ = try await MartletDevice.register(
                host: "127.0.0.1", port: try #require(Int(port)), projectID: "tides",
                appName: Self.app, platform: .android, options: options)
            return nil
        } catch let error as MartletError {
            return error.word
        }
    }

    @Test("REG-7 a secret from standard input verifies tickets until the key is revoked")
    func ticketKeys() async throws {
        struct Key: Decodable, Equatable {
            var keyID: String
            var name: String
            var algorithm: String
            var revoked: Bool
        }
        try await withBroker { desk, port in
            let of = ["--project", "tides"]
            // `echo` ends a secret with a new line.
            let added = desk.finish(
                try desk.start(
                    ["ticket-key", "add", "login", "--algorithm", "hs256"] + of,
                    input: Self.secret + "\n"))
            #expect(added.out == "Added ticket key login (HS256) to project tides.\n", "\(added)")
            let set = try desk.run("project", "set", "tides", "--registration", "ticket")
            #expect(set.status == 0, "\(set.err)")
            let good = try ticket("1")
            #expect(try await refusal(port, .ticket { good }) == nil)
            #expect(try await refusal(port, .ticket { good }) == .permissionDenied)
            let key = try desk.registrationKey(of: "tides")
            #expect(try await refusal(port, .key(key)) == .permissionDenied)

            let revoked = desk.finish(try desk.start(["ticket-key", "revoke", "login"] + of))
            #expect(revoked.out == "Revoked ticket key login of project tides.\n")
            let late = try ticket("2")
            #expect(try await refusal(port, .ticket { late }) == .permissionDenied)
            let keys: [Key] = try json(desk, "ticket-key", "list", "--project", "tides")
            #expect(
                keys == [Key(keyID: "login", name: "default", algorithm: "HS256", revoked: true)])
        }
    }

    @Test("REG-7 OPS-1 a public key is read from a file, and what is no key is refused")
    func publicKeys() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let text = """
            -----BEGIN PUBLIC KEY-----
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhF9RJorCesrLvAP/Ymy8USyv6Xv0
            7qC28zJK+0PQT/sxtT9ajTtR1t7LRGtpNkcdML2eFGGqFBtvADYfhrMo8g==
            -----END PUBLIC KEY-----

            """
        try Data(text.utf8).write(to: desk.folder.appending(path: "key.pem"))
        func add(_ id: String, _ algorithm: String, _ more: String...) throws -> Desk.Output {
            desk.finish(
                try desk.start(
                    ["ticket-key", "add", id, "--project", "tides", "--algorithm", algorithm] + more
                ))
        }
        let added = try add("login", "es256", "--file", "key.pem", "--json")
        #expect(
            added.out == "{\"algorithm\":\"ES256\",\"keyID\":\"login\",\"project\":\"tides\"}\n",
            "\(added)")
        #expect(isRefused(try add("login", "es256", "--file", "key.pem"), "ALREADY_EXISTS"))
        #expect(isRefused(try add("other", "rs256", "--file", "key.pem"), "INVALID_ARGUMENT"))
        #expect(isRefused(try add("other", "es256", "--file", "none.pem"), "NOT_FOUND"))
        // Standard input is empty.
        #expect(isRefused(try add("other", "hs256"), "INVALID_ARGUMENT"))
        try Data(count: 16 * 1024 + 1).write(to: desk.folder.appending(path: "large"))
        #expect(isRefused(try add("other", "hs256", "--file", "large"), "INVALID_ARGUMENT"))
        #expect(try add("other", "none", "--file", "key.pem").status == 64)
        #expect(try desk.run("ticket-key", "add", "other", "--project", "tides").status == 64)

        // A secret that is no text is taken as it is, a new line at its end included.
        try Data([UInt8](repeating: 200, count: 31) + [10])
            .write(to: desk.folder.appending(path: "secret"))
        #expect(try add("random", "hs256", "--file", "secret").status == 0)
        let list = try desk.run("ticket-key", "list", "--project", "tides")
        let rows = list.out.split(separator: "\n").dropFirst()
        #expect(rows.count == 2 && rows.allSatisfy { $0.hasSuffix("valid") }, "\(list)")
    }

    // MARK: Apps

    private struct App: Decodable, Equatable {
        var app: String
        var platform: String
        var instances: UInt64
        var beingDeleted: Bool
    }

    @Test(
        "REG-8 in an open project an app is made by an administrator, and `app delete` unregisters")
    func apps() async throws {
        try await withBroker { desk, port in
            let named = [Self.app, "--platform", "android", "--project", "tides"]
            let set = try desk.run("project", "set", "tides", "--registration", "open")
            #expect(set.status == 0, "\(set.err)")
            let early = try listen(desk, port, as: "a")
            #expect(isRefused(early.output, "PERMISSION_DENIED"), "\(early.output)")
            let created = desk.finish(try desk.start(["app", "create"] + named))
            #expect(created.out == "Created app \(Self.app) on android in project tides.\n")
            let again = desk.finish(try desk.start(["app", "create"] + named))
            #expect(isRefused(again, "ALREADY_EXISTS"))
            let device = try listen(desk, port, as: "a")
            let token = try #require(device.token, "\(device.output.err)")
            let apps: [App] = try json(desk, "app", "list", "--project", "tides")
            let expected = App(
                app: Self.app, platform: "android", instances: 1, beingDeleted: false)
            #expect(apps == [expected])

            let deleted = desk.finish(try desk.start(["app", "delete"] + named + ["--json"]))
            #expect(deleted.status == 0 && deleted.out.contains("\"deleted\":true"))
            while try json(desk, "app", "list", "--project", "tides", as: [App].self) != [] {}
            let sent = try desk.run(
                "send", "--project", "tides", "--token", token, "--data", "n=1")
            #expect(isRefused(sent, "UNREGISTERED"), "\(sent)")
            let later = try listen(desk, port, as: "a")
            #expect(later.token == nil && later.output.err.contains("UNREGISTERED"))
            let twice = desk.finish(try desk.start(["app", "delete"] + named))
            #expect(isRefused(twice, "NOT_FOUND"))
        }
    }

    // MARK: Policies

    @Test("TOP-10 `project set --topics` says what a device may subscribe itself to")
    func topics() async throws {
        try await withBroker { desk, port in
            let none = try desk.run("project", "set", "tides", "--topics", "none")
            #expect(
                none.out == """
                    Project tides: weight 1, on overload defer, up to 5 topics in a condition.
                    Registration: key. Topics that devices choose: none.

                    """)
            let refused = try listen(desk, port, as: "a", "--topic", "storm")
            #expect(isRefused(refused.output, "PERMISSION_DENIED"), "\(refused.output)")
            let token = try #require(try listen(desk, port, as: "b").token)
            // A sender may subscribe anybody to anything.
            let sender = try desk.run(
                "subscribe", "storm", "--project", "tides", "--token", token)
            #expect(sender.status == 0, "\(sender.err)")

            let some = try desk.run("project", "set", "tides", "--topics", "news.,/topics/user.")
            #expect(some.status == 0, "\(some.err)")
            #expect(try listen(desk, port, as: "c", "--topic", "user.7").token != nil)
            let outside = try listen(desk, port, as: "d", "--topic", "storm")
            #expect(isRefused(outside.output, "PERMISSION_DENIED"), "\(outside.output)")
        }
    }

    @Test("REG-7 TOP-10 `project list` shows the policies, and what is not given stays")
    func policies() throws {
        struct Project: Decodable {
            var project: String
            var weight: Int
            var registration: String
            var deviceTopics: String
        }
        let desk = try Desk()
        defer { desk.remove() }
        let new: Project = try json(desk, "project", "create", "tides")
        #expect(new.registration == "key" && new.deviceTopics == "all")
        let set: Project = try json(
            desk, "project", "set", "tides", "--registration", "ticket", "--topics", "news.,user.")
        #expect(set.registration == "ticket" && set.deviceTopics == "news.,user.")
        let weighty: Project = try json(desk, "project", "set", "tides", "--weight", "3")
        #expect(weighty.weight == 3 && weighty.registration == "ticket")
        let open: Project = try json(desk, "project", "set", "tides", "--registration", "open")
        #expect(open.registration == "open" && open.deviceTopics == "news.,user.")
        #expect(try desk.run("project", "create", "wharf").status == 0)
        let list: [Project] = try json(desk, "project", "list")
        #expect(list.map(\.registration) == ["open", "key"])
        let text = try desk.run("project", "list").out
        #expect(text.contains("DEVICE TOPICS") && text.contains("news.,user."))
        for misuse in [
            ["--topics", "a,,b"], ["--topics", ""], ["--topics", "a b"],
            ["--registration", "anybody"], ["--weight", "2", "--topics", "*"],
        ] {
            #expect(desk.finish(try desk.start(["project", "set", "tides"] + misuse)).status == 64)
        }
        #expect(try json(desk, "project", "list", as: [Project].self).map(\.weight) == [3, 1])
        let unknown = try desk.run("project", "set", "nobody", "--topics", "none")
        #expect(isRefused(unknown, "NOT_FOUND"))
    }
}
