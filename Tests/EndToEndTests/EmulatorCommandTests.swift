// SPDX-License-Identifier: Apache-2.0
//
// `martlet emulator` and `martlet settings`, as their users run them. Rests on the executable beside this test.

import Foundation
import Testing

@Suite(.timeLimit(.minutes(2)))
struct EmulatorCommandTests {
    private struct Ready: Decodable {
        var url: String
        var credentials: String
        var project: String
        var data: String
        var port: Int
    }

    @Test("OPS-9 the emulator serves SDKs from a folder that is gone afterwards")
    func serves() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let emulator = try desk.start(
            ["emulator", "--http", "127.0.0.1:0", "--port", "0", "--json"],
            environment: ["TMPDIR": desk.folder.path])
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(emulator).utf8))
        #expect(ready.project == "emulator" && ready.url.hasPrefix("http://127.0.0.1:"))
        let account = try JSONSerialization.jsonObject(
            with: Data(contentsOf: URL(filePath: ready.credentials)))
        let members = try #require(account as? [String: String])
        #expect(members["token_uri"] == ready.url + "/token")
        #expect(members["project_id"] == "emulator")
        let listener = try desk.start([
            "listen", "--data", ready.data, "--port", "\(ready.port)", "--project", "emulator",
            "--app", "com.example.test", "--topic", "test", "--count", "1", "--timeout", "60",
            "--state", desk.folder.appending(path: "device.json").path,
        ])
        // The subscription is there before the message.
        var seen = ""
        while !seen.contains("Listening") {
            let line = desk.firstLine(listener)
            try #require(!line.isEmpty, "listen ended: \(desk.finish(listener).err)")
            seen += line
        }
        let sent = try desk.run(
            "send", "--data-folder", ready.data, "--project", "emulator", "--topic", "test",
            "--title", "Storm")
        #expect(sent.status == 0, "\(sent.err)")
        #expect(sent.out.contains("accepted for 1 instance"))
        let heard = desk.finish(listener)
        #expect(heard.status == 0 && heard.out.contains("Storm"), "\(heard.err)")
        emulator.interrupt()
        #expect(desk.finish(emulator).status == 0)
        #expect(!FileManager.default.fileExists(atPath: ready.credentials))
        #expect(!FileManager.default.fileExists(atPath: ready.data))
    }

    @Test("OPS-9 the emulator prints lines for a shell, and writes no credentials over others")
    func lines() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let file = desk.folder.appending(path: "sdk's.json").path
        let arguments = [
            "emulator", "--http", "127.0.0.1:0", "--port", "0", "--project", "tides",
            "--url", "http://push.test:8080", "--credentials", file,
        ]
        let emulator = try desk.start(arguments, environment: ["TMPDIR": desk.folder.path])
        let lines = (0..<4).map { _ in desk.firstLine(emulator) }
        #expect(
            lines.prefix(3) == [
                "export GOOGLE_APPLICATION_CREDENTIALS='\(file.replacing("'", with: #"'\''"#))'\n",
                "export GOOGLE_CLOUD_PROJECT='tides'\n",
                "export FCM_BASE_URL='http://push.test:8080'\n",
            ])
        #expect(lines[3].hasPrefix("export MARTLET_DATA='\(desk.folder.path)"))
        let second = desk.finish(try desk.start(arguments))
        #expect(
            second.status == 1 && second.err.contains("ALREADY_EXISTS (credentials)"),
            "\(second.err)")
        #expect(FileManager.default.fileExists(atPath: file))
        emulator.interrupt()
        #expect(desk.finish(emulator).status == 0)
        #expect(!FileManager.default.fileExists(atPath: file))
    }

    @Test("OPS-9 what the emulator prints holds in every folder")
    func absolutePaths() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let emulator = try desk.start(
            ["emulator", "--http", "127.0.0.1:0", "--port", "0", "--credentials", "sdk.json"],
            environment: ["TMPDIR": ""])
        let lines = (0..<4).map { _ in desk.firstLine(emulator) }
        let file = try #require(lines[0].split(separator: "'").dropFirst().first)
        #expect(file.hasPrefix("/") && file.hasSuffix("/sdk.json"))
        #expect(FileManager.default.fileExists(atPath: String(file)))
        #expect(lines[3].hasPrefix("export MARTLET_DATA='/tmp/martlet-emulator-"))
        emulator.interrupt()
        #expect(desk.finish(emulator).status == 0)
        #expect(try desk.run("emulator", "--url", "broker:8080").status == 64)
    }

    @Test(
        "OPS-2 a setting without a value is refused with its place",
        arguments: ["tls-key", "http-certificate", "data", "limit"])
    func emptySetting(name: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        try "port = 0\n\(name) =\n".write(
            to: desk.folder.appending(path: "one.conf"), atomically: true, encoding: .utf8)
        let refused = try desk.run("serve", "--config", "one.conf")
        #expect(refused.status != 0 && refused.err.contains("one.conf, line 2: "), "\(refused.err)")
    }

    @Test("OPS-2 the printed file has every setting, and a broker that reads it has the defaults")
    func settings() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let printed = try desk.run("settings", "port=0", "log-level=info")
        #expect(printed.status == 0, "\(printed.err)")
        let lines = printed.out.split(separator: "\n")
        #expect(lines.contains("port = 0") && lines.contains("log-level = info"))
        #expect(lines.contains("#host = 127.0.0.1") && lines.contains("#plain-elsewhere = no"))
        struct Setting: Decodable {
            var name: String
            var help: String
            var defaultValue: String?
        }
        let all = try JSONDecoder().decode(
            [Setting].self, from: Data(try desk.run("settings", "--json").out.utf8))
        #expect(all.count > 30)
        for setting in all {
            #expect(!setting.help.isEmpty, "\(setting.name)")
            let isThere = lines.contains {
                $0.hasPrefix("#\(setting.name) = ") || $0.hasPrefix("\(setting.name) = ")
            }
            #expect(isThere, "\(setting.name)")
        }
        // Each default, set, is a value that the broker takes.
        var file = "port = 0\n"
        for setting in all where setting.name != "port" && setting.name != "config" {
            if let value = setting.defaultValue { file += "\(setting.name) = \(value)\n" }
        }
        try file.write(
            to: desk.folder.appending(path: "all.conf"), atomically: true, encoding: .utf8)
        let process = try desk.start(["serve", "--config", "all.conf", "--json"])
        #expect(desk.firstLine(process).contains("\"port\""))
        process.interrupt()
        #expect(desk.finish(process).status == 0)
        #expect(try desk.run("settings", "prt=0").status == 64)
    }
}
