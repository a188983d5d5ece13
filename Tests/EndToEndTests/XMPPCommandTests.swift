// SPDX-License-Identifier: Apache-2.0
//
// `martlet serve --xmpp`, as its users run it (GW-10): with a gateway and without, from the start to a signal. The app
// server is openssl, which speaks TLS, and texts. Rests on Desk.

import Foundation
import Testing

@Suite(
    .timeLimit(.minutes(2)),
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl"), "needs openssl"))
struct XMPPCommandTests {
    private static func openssl(_ desk: Desk, _ arguments: String...) throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/openssl")
        process.arguments = arguments
        process.currentDirectoryURL = desk.folder
        process.standardInput = Pipe()
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        try process.run()
        return process
    }

    private static func makeCertificate(_ desk: Desk) throws {
        let made = try openssl(
            desk, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-keyout", "key.pem", "-out", "chain.pem", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        try #require(desk.finish(made).status == 0)
    }

    /// A connection of openssl.
    private struct AppServer {
        let process: Process

        init(_ desk: Desk, port: String) throws {
            process = try openssl(
                desk, "s_client", "-quiet", "-verify_return_error", "-CAfile", "chain.pem",
                "-connect", "127.0.0.1:\(port)")
        }

        func write(_ text: String) throws {
            let input = process.standardInput as? Pipe
            try input?.fileHandleForWriting.write(contentsOf: Data(text.utf8))
        }

        func read(until mark: String) -> String {
            guard let output = (process.standardOutput as? Pipe)?.fileHandleForReading else {
                return ""
            }
            var bytes = Data()
            while !bytes.suffix(mark.utf8.count).elementsEqual(Data(mark.utf8)),
                let byte = try? output.read(upToCount: 1), !byte.isEmpty
            {
                bytes += byte
            }
            return String(decoding: bytes, as: UTF8.self)
        }

        func signIn(_ senderID: Int, _ key: String) throws {
            let header = """
                <stream:stream to="localhost" version="1.0" xmlns="jabber:client" \
                xmlns:stream="http://etherx.jabber.org/streams">
                """
            let credential = Data("\0\(senderID)@localhost\0\(key)".utf8).base64EncodedString()
            try write(header)
            _ = read(until: "</stream:features>")
            try write(
                """
                <auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="PLAIN">\
                \(credential)</auth>
                """)
            _ = read(until: "<success xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\"/>")
            try write(header)
            _ = read(until: "</stream:features>")
            try write(
                "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
            #expect(read(until: "</iq>").contains("type=\"result\""))
        }
    }

    private struct Ready: Decodable {
        var http: String?
        var xmpp: [String]?
    }

    @Test(
        "GW-10 OPS-2 app servers are served at each address of --xmpp, with a gateway or without, until a signal",
        arguments: [false, true])
    func serving(hasGateway: Bool) throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Self.makeCertificate(desk)
        struct Project: Decodable { var senderID: Int }
        struct Key: Decodable { var key: String }
        let project = try JSONDecoder().decode(
            Project.self, from: Data(try desk.run("project", "create", "tides", "--json").out.utf8))
        let key = try JSONDecoder().decode(
            Key.self,
            from: Data(
                try desk.run(
                    "key", "create", "--project", "tides", "--name", "xmpp", "--json"
                ).out.utf8))
        let more =
            hasGateway
            ? [
                "--http", "127.0.0.1:0", "--http-certificate", "chain.pem", "--http-key", "key.pem",
            ] : ["--xmpp-certificate", "chain.pem", "--xmpp-key", "key.pem"]
        let broker = try desk.start(
            [
                "serve", "--port", "0", "--json", "--loops", "1", "--xmpp", "127.0.0.1:0", "--xmpp",
                "127.0.0.1:0",
            ] + more)
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(broker).utf8))
        #expect((ready.http != nil) == hasGateway)
        let ports = try #require(ready.xmpp).compactMap { $0.split(separator: ":").last }
        #expect(Set(ports).count == 2)
        var appServers: [AppServer] = []
        for port in ports {
            let appServer = try AppServer(desk, port: String(port))
            try appServer.signIn(project.senderID, key.key)
            try appServer.write(
                """
                <message><gcm xmlns="google:mobile:data">{"to": "/topics/t", "message_id": "1"}\
                </gcm></message>
                """)
            #expect(appServer.read(until: "</message>").contains("ack"))
            appServers.append(appServer)
        }
        // A new certificate after SIGHUP drains open connections.
        try Self.makeCertificate(desk)
        kill(broker.processIdentifier, SIGHUP)
        for appServer in appServers {
            #expect(appServer.read(until: "</message>").contains("CONNECTION_DRAINING"))
        }
        let new = try AppServer(desk, port: String(ports[0]))
        try new.signIn(project.senderID, key.key)
        broker.terminate()
        #expect(new.read(until: "</message>").contains("CONNECTION_DRAINING"))
        #expect(new.read(until: "</stream:stream>").contains("<system-shutdown "))
        for appServer in appServers + [new] { appServer.process.terminate() }
        #expect(desk.finish(broker).status == 0)
        #expect(try desk.run("check").status == 0)
    }

    @Test(
        "GW-10 OPS-2 XMPP without a certificate, and settings that are none, are refused at the start"
    )
    func refusals() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let plain = try desk.run("serve", "--port", "0", "--xmpp", "127.0.0.1:0")
        #expect(plain.status == 1 && plain.err.contains("--xmpp-certificate"), "\(plain.err)")
        let nowhere = try desk.run("serve", "--port", "0", "--xmpp", "nowhere")
        #expect(nowhere.status == 64 && nowhere.err.contains("--xmpp takes"), "\(nowhere.err)")
        let half = try desk.run(
            "serve", "--port", "0", "--xmpp", "127.0.0.1:0", "--xmpp-key", "key.pem")
        #expect(half.status == 64 && half.err.contains("go together"), "\(half.err)")
    }
}
