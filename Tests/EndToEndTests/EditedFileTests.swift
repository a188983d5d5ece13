// SPDX-License-Identifier: Apache-2.0
//
// Files that a person wrote on another machine, as commands read them: line ends of Windows and of old Macs, byte-order
// marks, UTF-16. Rests on Desk, with real processes.

import Foundation
import Testing

@Suite("Edited files", .timeLimit(.minutes(2)))
struct EditedFileTests {
    /// How an editor writes a text.
    enum Form: String, CaseIterable {
        case lf = "LF"
        case crLF = "CR LF"
        case cr = "CR"
        case markedLF = "LF behind a byte-order mark"
        case markedCRLF = "CR LF behind a byte-order mark"
        case utf16 = "CR LF in UTF-16"

        func data(_ text: String) -> Data {
            switch self {
            case .lf: Data(text.utf8)
            case .crLF: Data(text.replacing("\n", with: "\r\n").utf8)
            case .cr: Data(text.replacing("\n", with: "\r").utf8)
            case .markedLF: [0xEF, 0xBB, 0xBF] + Data(text.utf8)
            case .markedCRLF: [0xEF, 0xBB, 0xBF] + Form.crLF.data(text)
            case .utf16:
                Data(
                    [0xFF, 0xFE]
                        + text.replacing("\n", with: "\r\n").utf16.flatMap {
                            [UInt8($0 & 0xFF), UInt8($0 >> 8)]
                        })
            }
        }
    }

    private func end(_ broker: Process, _ desk: Desk) -> Desk.Output {
        broker.terminate()
        return desk.finish(broker)
    }

    @Test("OPS-2 settings hold in every form, comment or setting first", arguments: Form.allCases)
    func settings(form: Form) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let file = desk.folder.appending(path: "martlet.conf")
        for first in ["# settings of the harbour\n", ""] {
            try form.data(first + "data = ./tides\nport = 0\nlog-level = warning\n").write(to: file)
            let broker = try desk.start(["serve", "--config", "martlet.conf"])
            #expect(desk.firstLine(broker).contains("data in ./tides (by martlet.conf)"))
            #expect(end(broker, desk).status == 0)
        }
        let made = try FileManager.default.contentsOfDirectory(atPath: desk.folder.path)
        #expect(Set(made) == ["martlet.conf", "tides"])
        try form.data("port = 0\n\nharbour = 1\n").write(to: file)
        let refused = try desk.run("serve", "--config", "martlet.conf")
        #expect(
            refused.status == 64 && refused.err.contains("line 3: there is no setting 'harbour'"),
            "\(refused)")
    }

    @Test(
        "OPS-2 a rarer line end in a line of the settings is refused, in a comment too",
        arguments: [
            ("\u{85}", "0085"), ("\u{2028}", "2028"), ("\u{2029}", "2029"), ("\u{B}", "000B"),
        ], ["data = ./tides", "# data"])
    func rareLineEnds(end: (text: String, name: String), line: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let text = "port = 0\(end.text)\n\(line)\(end.text)log-level = warning\n"
        try text.write(
            to: desk.folder.appending(path: "martlet.conf"), atomically: true, encoding: .utf8)
        let refused = try desk.run("serve", "--config", "martlet.conf")
        #expect(
            refused.status == 64 && refused.err.contains("line 2: ")
                && refused.err.contains("U+\(end.name) ends no line here"), "\(refused)")
        let made = try FileManager.default.contentsOfDirectory(atPath: desk.folder.path)
        #expect(made == ["martlet.conf"])
    }

    @Test("OPS-2 a CR behind a variable, as an edited file leaves it, is no part of it")
    func variables() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let broker = try desk.start(
            ["serve"], environment: ["MARTLET_PORT": "0\r", "MARTLET_DATA": "tides\r"])
        #expect(desk.firstLine(broker).contains("data in tides (by MARTLET_DATA)"))
        #expect(end(broker, desk).status == 0)
        let made = desk.finish(
            try desk.start(["project", "create", "a"], environment: ["MARTLET_DATA": "tides\r"]))
        #expect(made.status == 0, "\(made)")
    }

    @Test("OPS-2 a broker beside a service called martlet starts, and says what it passes over")
    func services() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let broker = try desk.start(
            ["serve", "--port", "0"],
            environment: [
                "MARTLET_PORT": "tcp://10.0.0.1:5228", "MARTLET_SERVICE_HOST": "10.0.0.1",
            ])
        #expect(desk.firstLine(broker).contains("Martlet listens on"))
        let said = end(broker, desk).err
        #expect(said.contains("variables=MARTLET_PORT, MARTLET_SERVICE_HOST"), "\(said)")
        let refused = desk.finish(
            try desk.start(["serve"], environment: ["MARTLET_SERVICE_HOSTS": "10.0.0.1"]))
        #expect(refused.status == 64 && refused.err.contains("MARTLET_SERVICE_HOSTS"), "\(refused)")
    }

    @Test(
        "OPS-2 keys and the files of a data folder are read in every form",
        arguments: Form.allCases)
    func keys(form: Form) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let secret = desk.folder.appending(path: "secret")
        try form.data(String(repeating: "s", count: 40) + "\n").write(to: secret)
        let added = try desk.run(
            "ticket-key", "add", "k", "--project", "tides", "--algorithm", "hs256",
            "--file", "secret")
        #expect(added.status == 0, "\(added)")
        // REG-7 The key of a restart, and what a command presents to the running broker.
        for name in ["admin.key", "token.key", "registration-tides.key"] {
            let file = desk.folder.appending(path: "martlet-data/" + name)
            let text = try String(contentsOf: file, encoding: .utf8)
            try form.data(text).write(to: file)
        }
        let (broker, port) = try desk.serve()
        let listed = try desk.run("project", "list")
        #expect(listed.status == 0 && listed.out.contains("tides"), "\(listed)")
        let listened = try desk.run(
            "listen", "--project", "tides", "--app", "a.b", "--port", port, "--count", "0",
            "--send-upstream", "x")
        #expect(listened.status == 0, "\(listened)")
        #expect(end(broker, desk).status == 0)
    }

    @Test("GW-9 line end and byte-order mark are no part of a password", arguments: Form.allCases)
    func password(form: Form) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        // A password has eight bytes at least, so the bytes of the form would make up for the one that is missing.
        for (password, status) in [("sevenby\n", 1), ("eightbyt\n", 0)] where form != .utf16 {
            try form.data(password).write(to: desk.folder.appending(path: "password"))
            let added = desk.finish(
                try desk.shell("exec \"$0\" console user add anna --role sender < password"))
            #expect(added.status == status, "\(added)")
        }
    }

    @Test(
        "MSG-1 a message file is read with any line ends and a byte-order mark",
        arguments: Form.allCases)
    func message(form: Form) throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        try form.data("{\n  \"topic\": \"a\",\n  \"data\": {\"k\": \"v\"}\n}\n")
            .write(to: desk.folder.appending(path: "message.json"))
        for line in ["--file message.json", "--file - < message.json"] {
            let sent = desk.finish(try desk.shell("exec \"$0\" send --project tides \(line)"))
            if form == .utf16 {
                #expect(sent.status == 1 && sent.err.contains("not UTF-8"), "\(sent)")
            } else {
                #expect(sent.status == 0, "\(sent)")
            }
        }
    }
}
