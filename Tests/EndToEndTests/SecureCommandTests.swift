// SPDX-License-Identifier: Apache-2.0
//
// TLS as an operator and a user of the commands see it, and as openssl's own client does (OPS-6, OPS-11). Rests on Desk.

import Foundation
import Testing

@Suite("Commands over TLS", .timeLimit(.minutes(3)))
struct SecureCommandTests {
    private static let openssl = "/usr/bin/openssl"
    private static let hasOpenSSL = FileManager.default.isExecutableFile(atPath: openssl)

    /// What openssl prints.
    private static func openssl(
        _ desk: Desk, _ arguments: [String], input: String = ""
    ) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: openssl)
        process.arguments = arguments
        process.currentDirectoryURL = desk.folder
        let (output, typed) = (Pipe(), Pipe())
        process.standardInput = typed
        process.standardOutput = output
        process.standardError = output
        try process.run()
        // An answer of the server is waited for before the next line.
        for line in input.split(separator: "\n") {
            usleep(200_000)
            try? typed.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
        }
        // The end of the input ends openssl, and so does the end of the connection after the server's last answer.
        if input.isEmpty { try typed.fileHandleForWriting.close() }
        let said = output.fileHandleForReading.readDataToEndOfFile()
        if !input.isEmpty { try typed.fileHandleForWriting.close() }
        process.waitUntilExit()
        return String(decoding: said, as: UTF8.self)
    }

    private static func certificate(_ desk: Desk, _ kind: [String]) throws {
        _ = try openssl(
            desk,
            ["req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "chain.pem", "-days", "2"]
                + ["-subj", "/CN=localhost"]
                + ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"] + kind)
    }

    private static let kinds = [
        ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], ["-newkey", "rsa:2048"],
    ]

    @Test(
        "OPS-6 a device listens and a sender sends with --ca; commands of the folder need nothing",
        .enabled(if: hasOpenSSL, "needs openssl"), arguments: kinds)
    func commands(kind: [String]) throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, kind)
        let (broker, port) = try desk.serve([
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem",
        ])
        #expect(try desk.run("project", "create", "tides").status == 0)
        let made = try desk.run("key", "create", "--project", "tides", "--name", "k", "--json")
        struct Key: Decodable { var key: String }
        let key = try JSONDecoder().decode(Key.self, from: Data(made.out.utf8)).key
        let device = try desk.start([
            "listen", "--project", "tides", "--app", "com.example.tides", "--port", port, "--ca",
            "chain.pem", "--topic", "storms", "--count", "1", "--timeout", "60", "--json",
        ])
        #expect(desk.firstLine(device).contains("ready"))
        let sent = try desk.run(
            "send", "--project", "tides", "--key", key, "--port", port, "--ca", "chain.pem",
            "--topic", "storms", "--title", "Gale")
        #expect(sent.status == 0, "\(sent)")
        let heard = desk.finish(device)
        #expect(heard.status == 0 && heard.out.contains("Gale"), "\(heard)")
        let plain = try desk.run(
            "send", "--project", "tides", "--key", key, "--port", port, "--topic", "storms",
            "--title", "Gale")
        #expect(plain.status == 1)
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test(
        "OPS-6 a command on the folder of a broker connects once, and an unknown project is an answer",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func handshakes() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, Self.kinds[0])
        struct Ready: Decodable { var metrics: String }
        let broker = try desk.start([
            "serve", "--port", "0", "--json", "--loops", "1", "--metrics", "127.0.0.1:0",
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem",
        ])
        let ready = try JSONDecoder().decode(
            Ready.self, from: Data(desk.firstLine(broker).utf8))
        #expect(try desk.run("project", "create", "tides").status == 0)
        #expect(try desk.run("project", "list").status == 0)
        let sent = try desk.run("send", "--project", "tides", "--topic", "all", "--title", "Gale")
        #expect(sent.status == 0, "\(sent.err)")
        let unknown = try desk.run("send", "--project", "tide", "--topic", "all", "--title", "Gale")
        #expect(unknown.status == 1 && unknown.err.contains("Did you mean 'tides'?"), "\(unknown)")
        #expect(!unknown.err.contains("could not ask"), "\(unknown)")
        let client = try HTTPClient(
            port: try #require(
                URL(string: ready.metrics)?.port.flatMap { UInt16(exactly: $0) }))
        client.send("GET", "/metrics")
        let lines = try client.answer().split(whereSeparator: \.isNewline)
        // One more asks which projects there are.
        #expect(lines.contains("martlet_tls_handshakes_total 5"), "\(lines)")
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test(
        "OPS-6 a sender without a key sends by its certificate, for its own project and while it is listed",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func senderCertificate() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, Self.kinds[0])
        func openssl(_ words: String) throws -> String {
            try Self.openssl(desk, words.split(separator: " ").map(String.init))
        }
        func write(_ text: String, _ name: String) throws {
            try text.write(
                to: desk.folder.appending(path: name), atomically: true, encoding: .utf8)
        }
        func read(_ name: String) throws -> String {
            try String(contentsOf: desk.folder.appending(path: name), encoding: .utf8)
        }
        let new = "req -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
        _ = try openssl("\(new) -x509 -days 2 -subj /CN=Authority -keyout ca.key -out ca.pem")
        for name in ["till-7", "till-8"] {
            _ = try openssl("\(new) -subj /O=Shop/CN=\(name) -keyout \(name).key -out \(name).csr")
            _ = try openssl(
                "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
                    + "-out \(name).crt")
            try write(try read("\(name).crt") + read("\(name).key"), "\(name).pem")
        }
        let printed = try openssl("x509 -in till-7.crt -noout -subject -nameopt RFC2253")
        #expect(printed == "subject=CN=till-7,O=Shop\n")
        let line = "tides " + printed.dropFirst("subject=".count)
        try write("# app servers\n\n" + line, "senders")
        for project in ["tides", "other"] {
            #expect(try desk.run("project", "create", project).status == 0)
        }
        let (broker, port) = try desk.serve([
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem", "--tls-client-ca", "ca.pem",
            "--tls-client-senders", "senders",
        ])
        func send(_ project: String, _ certificate: String) throws -> String {
            let sent = try desk.run(
                "send", "--project", project, "--port", port, "--ca", "chain.pem",
                "--client-certificate", certificate, "--topic", "storms", "--title", "Gale",
                "--json")
            return sent.status == 0 ? "sent" : sent.out + sent.err
        }
        #expect(try send("tides", "till-7.pem") == "sent")
        let others = [
            try send("other", "till-7.pem"), try send("tides", "till-8.pem"),
        ]
        for answer in others { #expect(answer.contains("stands for no sender"), "\(answer)") }
        try write(line.replacing("till-7", with: "till-8"), "senders")
        kill(broker.processIdentifier, SIGHUP)
        var isChanged = false
        for _ in 0..<100 where !isChanged {
            isChanged = try send("tides", "till-8.pem") == "sent"
        }
        #expect(isChanged)
        #expect(try send("tides", "till-7.pem").contains("stands for no sender"))
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test(
        "OPS-11 SIGHUP reads the certificate again; a bad file is logged and changes nothing",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func reloads() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, Self.kinds[0])
        let (broker, port) = try desk.serve([
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem",
        ])
        func served() throws -> Bool {
            let said = try Self.openssl(
                desk,
                ["s_client", "-connect", "127.0.0.1:\(port)", "-CAfile", "chain.pem"]
                    + ["-alpn", "martlet", "-verify_return_error"])
            return said.contains("Verification: OK") && said.contains("TLSv1.3")
        }
        #expect(try served())
        try Self.certificate(desk, Self.kinds[1])
        #expect(try !served())
        kill(broker.processIdentifier, SIGHUP)
        var isNew = false
        for _ in 0..<100 where !isNew { isNew = try served() }
        #expect(isNew)
        try "no key".write(
            to: desk.folder.appending(path: "key.pem"), atomically: true, encoding: .utf8)
        kill(broker.processIdentifier, SIGHUP)
        #expect(try served())
        broker.terminate()
        let end = desk.finish(broker)
        #expect(end.status == 0 && end.err.contains("no private key"), "\(end.err)")
    }

    @Test(
        "RFC 8446 §4.6.3 OPS-6 openssl's client changes keys and goes on; short records and resumption too",
        .enabled(if: hasOpenSSL, "needs openssl"))
    func client() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.certificate(desk, Self.kinds[0])
        let (broker, port) = try desk.serve([
            "--tls-certificate", "chain.pem", "--tls-key", "key.pem", "--log-level", "critical",
        ])
        let connect = ["s_client", "-connect", "127.0.0.1:\(port)", "-CAfile", "chain.pem"]
        // K: KEY UPDATE with an answer, k: without. The text that follows is no frame: its first four bytes are the
        // length of a frame past every bound, and the broker answers with ERROR under the changed keys.
        let said = try Self.openssl(desk, connect, input: "K\nk\nK\nnonsense")
        #expect(said.contains("KEYUPDATE"), "\(said)")
        #expect(said.contains("frame"), "\(said)")
        let short = try Self.openssl(desk, connect + ["-maxfraglen", "512"], input: "nonsense")
        #expect(short.contains("frame"), "\(short)")
        _ = try Self.openssl(desk, connect + ["-sess_out", "session.pem"], input: "nonsense")
        let again = try Self.openssl(
            desk, connect + ["-sess_in", "session.pem"], input: "nonsense")
        #expect(again.contains("Reused, TLSv1.3"), "\(again)")
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test("OPS-6 the demo's numbers are right over TLS")
    func demo() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let demo = try desk.run("demo", "--devices", "100", "--exit", "--tls")
        #expect(demo.status == 0, "\(demo.out)")
    }

    @Test("OPS-2 a certificate that is not there is refused at start with its file")
    func missing() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let output = try desk.run("serve", "--port", "0", "--tls-certificate", "nowhere.pem")
        #expect(output.status == 1 && output.err.contains("nowhere.pem cannot be read"))
        let alone = try desk.run("serve", "--port", "0", "--tls-key", "nowhere.pem")
        #expect(alone.status != 0 && alone.err.contains("--tls-certificate"))
    }
}
