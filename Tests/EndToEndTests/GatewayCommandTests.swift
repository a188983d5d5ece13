// SPDX-License-Identifier: Apache-2.0
//
// `martlet gateway`, `martlet service-account` and settings from elsewhere than the command line, as
// their users run them. Rests on the executable beside this test.

import Foundation
import Testing

@Suite(.timeLimit(.minutes(2)))
struct GatewayCommandTests {
    private struct File: Decodable {
        var type: String
        var projectID: String
        var privateKeyID: String
        var privateKey: String
        var clientEmail: String
        var tokenURI: String

        enum CodingKeys: String, CodingKey {
            case type
            case projectID = "project_id"
            case privateKeyID = "private_key_id"
            case privateKey = "private_key"
            case clientEmail = "client_email"
            case tokenURI = "token_uri"
        }
    }

    @Test("GW-1 the shell lines of the page on SDKs run as they are printed, but for the ports")
    func page() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let page = URL(filePath: #filePath)
            .appending(path: "../../../Sources/Martlet/Martlet.docc/AdminSDK.md").standardized
        let text = try String(contentsOf: page, encoding: .utf8)
        let blocks = text.matches(of: #/(?m)^```sh\n((?:.|\n)*?)^```$/#).map { String($0.1) }
        #expect(blocks.count == 1)
        let lines = try #require(blocks.first).replacing(
            "127.0.0.1:8080", with: "127.0.0.1:0 --port 0")
        // The last line serves; in the place of the shell, it gets the signal of the test.
        let shell = try desk.shell(
            """
            set -e
            PATH="$(dirname "$0"):$PATH"
            \(lines.replacing("martlet serve", with: "exec martlet serve --json"))
            """)
        var ready = desk.firstLine(shell)
        while !ready.isEmpty, !ready.hasPrefix("{") { ready = desk.firstLine(shell) }
        #expect(ready.contains(#""http":"http://127.0.0.1:"#), "\(ready)")
        let file = desk.folder.appending(path: "service-account.json")
        let account = try JSONDecoder().decode(File.self, from: try Data(contentsOf: file))
        #expect(account.projectID == "tides" && account.tokenURI == "http://127.0.0.1:8080/token")
        let listed = try desk.run(
            "service-account", "list", "--project", "tides", "--data", "data", "--json")
        #expect(listed.out.contains(account.privateKeyID), "\(listed)")
        shell.terminate()
        #expect(desk.finish(shell).status == 0)
    }

    @Test("REG-5 service accounts are made, listed and revoked, with a broker running and without")
    func serviceAccounts() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        for isRunning in [false, true] {
            let broker = isRunning ? try desk.serve().process : nil
            let made = try desk.run(
                "service-account", "create", "--project", "tides", "--token-uri",
                "https://push/token")
            #expect(made.status == 0, "\(made.err)")
            let file = try JSONDecoder().decode(File.self, from: Data(made.out.utf8))
            #expect(file.type == "service_account" && file.projectID == "tides")
            #expect(file.privateKey.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
            #expect(file.tokenURI == "https://push/token")
            let listed = try desk.run("service-account", "list", "--project", "tides", "--json")
            #expect(listed.out.contains("\"keyID\":\"\(file.privateKeyID)\""))
            #expect(listed.out.contains("\"clientEmail\":\"\(file.clientEmail)\""))
            let revoked = try desk.run(
                "service-account", "revoke", "--project", "tides", file.privateKeyID)
            #expect(revoked.status == 0)
            let after = try desk.run("service-account", "list", "--project", "tides")
            #expect(after.out.contains("revoked") && !after.out.contains("valid"))
            let missing = try desk.run("service-account", "revoke", "--project", "tides", "0")
            #expect(missing.status == 1 && missing.err.contains("NOT_FOUND"))
            broker?.terminate()
            if let broker { #expect(desk.finish(broker).status == 0) }
        }
        #expect(try desk.run("check").status == 0)
    }

    @Test(
        "GW-5 REG-5 the gateway serves HTTP until a signal, plain HTTP for this machine alone, and service accounts are written for it"
    )
    func gateway() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let elsewhere = try desk.run("gateway", "--port", "0", "--http", "0.0.0.0:0")
        #expect(elsewhere.status == 1 && elsewhere.err.contains("--http-certificate"))
        let gateway = try desk.start(["gateway", "--port", "0", "--http", "127.0.0.1:0", "--json"])
        struct Ready: Decodable { var http: String }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(gateway).utf8))
        #expect(ready.http.hasPrefix("http://127.0.0.1:"))
        let made = try desk.run(
            "service-account", "create", "--project", "tides", "--output", "account.json")
        #expect(made.status == 0 && made.out.isEmpty, "\(made.err)")
        let path = desk.folder.appending(path: "account.json").path
        let file = try JSONDecoder().decode(
            File.self, from: Data(contentsOf: URL(filePath: path)))
        #expect(file.tokenURI == ready.http + "/token")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
        let again = try desk.run(
            "service-account", "create", "--project", "tides", "--output", "account.json")
        #expect(again.status == 1 && again.err.contains("ALREADY_EXISTS"))
        // No key was made that nobody has.
        let listed = try desk.run("service-account", "list", "--project", "tides", "--json")
        #expect(listed.out.components(separatedBy: "keyID").count == 2)
        gateway.terminate()
        #expect(desk.finish(gateway).status == 0)
    }

    @Test("REG-5 a service account whose file cannot be written is not registered")
    func unwrittenFile() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let (broker, _) = try desk.serve()
        // No file of this process may grow. The broker's may.
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = [
            "-c",
            "trap '' 25; ulimit -f 0; exec \"$0\" service-account create --project tides --output a.json",
            Desk.executable.path,
        ]
        process.currentDirectoryURL = desk.folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        try process.run()
        let refused = desk.finish(process)
        #expect(refused.status == 1 && refused.err.contains("cannot be written"), "\(refused.err)")
        #expect(
            !FileManager.default.fileExists(atPath: desk.folder.appending(path: "a.json").path))
        let listed = try desk.run("service-account", "list", "--project", "tides", "--json")
        #expect(listed.status == 0 && !listed.out.contains("keyID"), "\(listed.out)")
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test("OPS-2 what is wrong in a file or in the environment is refused at start with its place")
    func settings() throws {
        let desk = try Desk()
        defer { desk.remove() }
        func run(_ text: String, _ more: String...) throws -> Desk.Output {
            try Data(text.utf8).write(to: desk.folder.appending(path: "martlet.conf"))
            return desk.finish(
                try desk.start(["serve", "--config", "martlet.conf", "--port", "0"] + more))
        }
        for (text, fault) in [
            (
                "# people\n\nloops = 1\nlops = 2\n",
                "martlet.conf, line 4: there is no setting 'lops'"
            ),
            ("loops = many\n", "martlet.conf, line 1: "),
            ("\nhttp = nowhere\n", "martlet.conf, line 2: "),
            ("loops\n", "martlet.conf, line 1: write name = value"),
            ("http-plain-elsewhere = perhaps\n", "martlet.conf, line 1: write yes or no"),
        ] {
            let refused = try run(text)
            #expect(refused.status == 64, "\(text)")
            #expect(refused.err.contains(fault), "\(refused.err)")
        }
        try Data("loops = 1\nport = 1\nlimit = device-messages-per-minute=0\n".utf8)
            .write(to: desk.folder.appending(path: "martlet.conf"))
        let broker = try desk.start([
            "serve", "--config", "martlet.conf", "--port", "0", "--json",
        ])
        // The command line wins over the file.
        let ready = desk.firstLine(broker)
        #expect(ready.contains("\"port\":") && !ready.contains("\"port\":1,"))
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test(
        "OPS-2 a flag of the file is undone by the environment, and that of the environment by the command line",
        arguments: [
            ("yes", "no", [], false), ("no", "yes", [], true),
            ("no", "yes", ["--no-http-plain-elsewhere"], false),
            ("yes", "no", ["--http-plain-elsewhere"], true),
        ] as [(String, String, [String], Bool)])
    func flags(file: String, environment: String, typed: [String], isAllowed: Bool) throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("http-plain-elsewhere = \(file)\n".utf8)
            .write(to: desk.folder.appending(path: "martlet.conf"))
        let gateway = try desk.start(
            ["gateway", "--config", "martlet.conf", "--port", "0", "--http", "0.0.0.0:0"] + typed,
            environment: ["MARTLET_HTTP_PLAIN_ELSEWHERE": environment])
        // A gateway that is refused ends without a line.
        #expect(desk.firstLine(gateway).isEmpty != isAllowed)
        gateway.terminate()
        let output = desk.finish(gateway)
        #expect(output.err.contains("--http-certificate") != isAllowed, "\(output.err)")
    }
}
