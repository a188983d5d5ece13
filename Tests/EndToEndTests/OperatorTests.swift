// SPDX-License-Identifier: Apache-2.0
//
// What an operator meets beside the usual way: users without rights, certificates for other names, brokers that cannot
// be asked, and renewals by SIGHUP (OPS-1, OPS-2, OPS-6, OPS-11). Rests on Desk, openssl and setpriv.

import Foundation
import TestSupport
import Testing

@Suite("The operator's day", .timeLimit(.minutes(3)))
struct OperatorTests {
    private static let openssl = "/usr/bin/openssl"
    private static let setpriv = "/usr/bin/setpriv"
    private static let hasOpenSSL = FileManager.default.isExecutableFile(atPath: openssl)
    /// Whether the test may become a user without rights who may run the executable.
    private static let canBecomeNobody: Bool = {
        guard geteuid() == 0, FileManager.default.isExecutableFile(atPath: setpriv) else {
            return false
        }
        let tried = try? run(setpriv, nobody + [Desk.executable.path, "--version"])
        return tried?.status == 0
    }()
    private static let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"]

    private static func run(
        _ program: String, _ arguments: [String], in folder: URL? = nil
    ) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        if let folder { process.currentDirectoryURL = folder }
        let output = Pipe()
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: text, as: UTF8.self))
    }

    /// Writes `chain.pem` and `key.pem`.
    private static func certificate(_ desk: Desk, names: String) throws {
        let made = try run(
            openssl,
            [
                "req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "chain.pem", "-days", "2",
                "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=tides",
                "-addext", "subjectAltName=" + names,
            ], in: desk.folder)
        #expect(made.status == 0, "\(made.text)")
    }

    private func end(_ broker: Process, _ desk: Desk) -> Desk.Output {
        broker.terminate()
        return desk.finish(broker)
    }

    @Test("OPS-12 commands find a broker that could not write its address when it started")
    func lateAddress() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        // A folder in the place of the file refuses the file, as a full disk does.
        let place = desk.folder.appending(path: "martlet-data/serve.address")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        let (broker, _) = try desk.serve()
        defer {
            broker.terminate()
            broker.waitUntilExit()
        }
        let lost = try desk.run("project", "list")
        #expect(lost.status == 1 && lost.err.contains("started on a full disk"), "\(lost)")
        try FileManager.default.removeItem(at: place)
        var found = lost
        for _ in 0..<300 where found.status != 0 {
            found = try desk.run("project", "list")
            usleep(100_000)
        }
        #expect(found.status == 0 && found.out.contains("tides"), "\(found)")
    }

    @Test(
        "OPS-1 a user without rights is a device and a sender",
        .enabled(if: canBecomeNobody, "needs root and setpriv"))
    func nobody() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, port) = try desk.serve()
        #expect(try desk.run("project", "create", "tides").status == 0)
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let sent = try Self.run(
            Self.setpriv,
            Self.nobody + [
                Desk.executable.path, "send", "--project", "tides", "--key", key, "--port", port,
                "--topic", "storms", "--title", "Gale",
            ])
        #expect(sent.status == 0, "\(sent.text)")
        let home = desk.folder.appending(path: "nobody")
        try FileManager.default.createDirectory(
            at: home, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o777])
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: home.path)
        let listened = try Self.run(
            Self.setpriv,
            Self.nobody + [
                Desk.executable.path, "listen", "--project", "tides", "--app", "a.b", "--port",
                port, "--registration-key", try desk.registrationKey(of: "tides"), "--state",
                home.appending(path: "state.json").path, "--send-upstream", "hello", "--count", "0",
                "--timeout", "60",
            ])
        #expect(listened.status == 0 && listened.text.contains("sent to the project"))
        #expect(end(broker, desk).status == 0)
    }

    @Test(
        "OPS-6 a certificate without an address of this machine does not lock the administrator out",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func foreignNames() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, names: "DNS:push.example.com")
        let (broker, _) = try desk.serve([
            "--host", "0.0.0.0", "--tls-certificate", "chain.pem", "--tls-key", "key.pem",
        ])
        let made = try desk.run("project", "create", "tides")
        #expect(made.status == 0, "\(made.err)")
        #expect(try desk.run("key", "list", "--project", "tides").status == 0)
        // Each command before needed a handshake at least, and so does this one.
        let top = try desk.run("top", "--json")
        let handshakes = top.out.firstMatch(of: /"tlsFailures":0,"tlsHandshakes":(\d+)/)?.1
        #expect(try #require(handshakes.flatMap { Int($0) }) >= 3, "\(top)")
        #expect(end(broker, desk).status == 0)
    }

    @Test(
        "OPS-11 after SIGHUP the commands still reach a plain listener beside one with TLS",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func plainBesideSecure() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, names: "DNS:push.example.com")
        let (broker, _) = try desk.serve([
            "--listen", "127.0.0.1:0,plain", "--listen", "127.0.0.1:0,tls",
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem",
        ])
        let address = desk.folder.appending(path: "martlet-data/serve.address")
        let before = try Data(contentsOf: address)
        #expect(try desk.run("project", "create", "tides").status == 0)
        kill(broker.processIdentifier, SIGHUP)
        usleep(300_000)
        let listed = try desk.run("project", "list")
        #expect(listed.status == 0, "\(listed.err)")
        #expect(try Data(contentsOf: address) == before)
        let ended = end(broker, desk)
        #expect(ended.status == 0 && ended.err.contains("were read again"), "\(ended.err)")
    }

    @Test("OPS-1 a broker that cannot be asked is told apart from a folder in use, with the reason")
    func obstacles() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, _) = try desk.serve()
        let file = desk.folder.appending(path: "martlet-data/admin.key")
        let key = try Data(contentsOf: file)
        func refusal() throws -> String {
            let refused = try desk.run("project", "list")
            #expect(refused.status == 1 && refused.err.contains("could not ask it"))
            #expect(!refused.err.contains("another broker"))
            return refused.err
        }
        try FileManager.default.removeItem(at: file)
        #expect(try refusal().contains("'admin.key' is missing"))
        try Data("another".utf8).write(to: file)
        #expect(try refusal().contains("refuses the key in 'admin.key'"))
        try key.write(to: file)
        #expect(try desk.run("project", "list").status == 0)
        #expect(end(broker, desk).status == 0)

        let (proxied, _) = try desk.serve([
            "--listen", "127.0.0.1:0,plain,proxy", "--proxy", "127.0.0.1",
        ])
        #expect(try refusal().contains("',proxy' writes no address"))
        #expect(end(proxied, desk).status == 0)
    }

    @Test(
        "OPS-11 SIGHUP renews the certificate of the gateway, also where the port is plain",
        .enabled(if: hasOpenSSL, "needs openssl"), arguments: [true, false])
    func renewal(isPortSecure: Bool) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let names = "DNS:localhost,IP:127.0.0.1"
        try Self.certificate(desk, names: names)
        let port = isPortSecure ? ["--tls-certificate", "chain.pem", "--tls-key", "key.pem"] : []
        let broker = try desk.start(
            ["serve", "--port", "0", "--json", "--loops", "1", "--http", "127.0.0.1:0"] + port
                + ["--http-certificate", "chain.pem", "--http-key", "key.pem"])
        struct Ready: Decodable { var http: String }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(broker).utf8))
        let place = ready.http.replacing("https://", with: "")
        func isServed() throws -> Bool {
            try Self.run(
                Self.openssl,
                ["s_client", "-connect", place, "-CAfile", "chain.pem", "-verify_return_error"],
                in: desk.folder
            ).text.contains("Verification: OK")
        }
        #expect(try isServed())
        try Self.certificate(desk, names: names)
        #expect(try !isServed())
        kill(broker.processIdentifier, SIGHUP)
        var isNew = false
        for _ in 0..<100 where !isNew { isNew = try isServed() }
        #expect(isNew)
        // A file that cannot be used changes nothing.
        try "no key".write(
            to: desk.folder.appending(path: "key.pem"), atomically: true, encoding: .utf8)
        kill(broker.processIdentifier, SIGHUP)
        #expect(try isServed())
        let ended = end(broker, desk)
        #expect(ended.status == 0 && ended.err.contains("setting=http-certificate"), "\(ended.err)")
        #expect(ended.err.contains("'key.pem' cannot be read"), "\(ended.err)")
    }

    @Test(
        "OPS-2 a wrong key of the gateway, a port in use, a listener given twice and a lost file are named",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func faults() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, names: "DNS:localhost")
        try FileManager.default.copyItem(
            at: desk.folder.appending(path: "key.pem"),
            to: desk.folder.appending(path: "old.pem"))
        try Self.certificate(desk, names: "DNS:localhost")
        let (broker, port) = try desk.serve()
        func fault(_ arguments: String...) throws -> String {
            let refused = desk.finish(
                try desk.start(["serve", "--data", "other"] + arguments))
            #expect(refused.status != 0)
            return refused.err
        }
        let key = try fault(
            "--port", "0", "--http", "127.0.0.1:0", "--http-certificate", "chain.pem",
            "--http-key", "old.pem")
        #expect(key.contains("'old.pem' is not the key of the first certificate in 'chain.pem'"))
        let used = try fault("--port", "0", "--http", "127.0.0.1:\(port)")
        #expect(used.contains("127.0.0.1 port \(port) is in use"), "\(used)")
        let twice = try fault("--listen", "127.0.0.1:5999", "--listen", "127.0.0.1:5999")
        #expect(twice.contains("the same place before"), "\(twice)")
        let proxied = try fault(
            "--listen", "127.0.0.1:0,proxy", "--proxy", "127.0.0.1", "--tls-certificate",
            "chain.pem", "--tls-key", "key.pem")
        #expect(proxied.contains("'plain' must be written"), "\(proxied)")
        let lost = try fault("--config", "nosuch.conf")
        #expect(
            lost.contains("'nosuch.conf'") && lost.contains("No such file or directory"), "\(lost)")
        let unknown = try desk.run("receipt", "--help")
        #expect(unknown.status == 64 && unknown.err.contains("receipt"), "\(unknown)")
        #expect(end(broker, desk).status == 0)
    }

    @Test("OPS-2 the ready line says where the data folder's name came from")
    func source() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try "data = filed\n".write(
            to: desk.folder.appending(path: "martlet.conf"), atomically: true, encoding: .utf8)
        func line(_ environment: [String: String], _ arguments: String...) throws -> String {
            let broker = try desk.start(
                ["serve", "--port", "0", "--config", "martlet.conf"] + arguments,
                environment: environment)
            defer { _ = end(broker, desk) }
            return desk.firstLine(broker)
        }
        #expect(try line([:]).contains("data in filed (by martlet.conf)"))
        #expect(
            try line(["MARTLET_DATA": "told"]).contains("data in told (by MARTLET_DATA)"))
        #expect(
            try line(["MARTLET_DATA": "told"], "--data", "typed").contains(
                "data in typed, which is new."))
    }

    @Test("NET-7 all IPv4 and all IPv6 addresses are two listeners of one port")
    func bothFamilies() throws {
        guard FileManager.default.fileExists(atPath: "/proc/net/if_inet6") else { return }
        let desk = try Desk()
        defer { desk.remove() }
        let port = "\(try FreePort.claim())"
        let broker = try desk.start([
            "serve", "--json", "--loops", "1", "--plain-elsewhere", "--listen", "0.0.0.0:\(port)",
            "--listen", "[::]:\(port)",
        ])
        #expect(desk.firstLine(broker).contains("[::]:\(port)"))
        #expect(try desk.run("project", "create", "tides").status == 0)
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        for host in ["127.0.0.1", "::1"] {
            let sent = try desk.run(
                "send", "--project", "tides", "--key", key, "--host", host, "--port", port,
                "--topic", "storms", "--title", "Gale")
            #expect(sent.status == 0, "\(host): \(sent.err)")
        }
        #expect(end(broker, desk).status == 0)
    }

    @Test(
        "REG-7 revoking the folder's registration key removes its file; listen takes a ticket from a file"
    )
    func registration() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let key = try desk.registrationKey(of: "tides")
        let id = String(key.prefix { $0 != "." })
        let revoked = try desk.run("registration-key", "revoke", id, "--project", "tides")
        #expect(revoked.status == 0 && revoked.err.contains("registration-tides.key"))
        #expect(throws: (any Error).self) { try desk.registrationKey(of: "tides") }
        let (broker, port) = try desk.serve()
        try "no ticket\n".write(
            to: desk.folder.appending(path: "ticket"), atomically: true, encoding: .utf8)
        #expect(
            try desk.run("project", "set", "tides", "--registration", "ticket").status == 0)
        let listened = try desk.run(
            "listen", "--project", "tides", "--app", "a.b", "--port", port, "--ticket", "ticket",
            "--timeout", "60")
        #expect(
            listened.status == 1 && listened.err.contains("no JSON Web Token"), "\(listened.err)")
        #expect(end(broker, desk).status == 0)
    }
}
