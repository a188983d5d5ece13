// SPDX-License-Identifier: Apache-2.0
//
// The `martlet` executable as its users run it: exit codes, what is on which output, a message from
// one process to another, and a broker that is killed. Rests on the executable beside this test.

import Foundation
import Glibc
import Martlet
import Testing

@Suite(.timeLimit(.minutes(2)))
struct CommandTests {
    @Test(
        "OPS-1 commands work on the folder while no broker runs, and refuse with 1, misuse with 64")
    func embedded() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "list").err.contains("NOT_FOUND"))
        #expect(try desk.run("project", "create", "tides").status == 0)
        let again = try desk.run("project", "create", "tides")
        #expect(again.status == 1 && again.out.isEmpty && again.err.contains("ALREADY_EXISTS"))
        #expect(try desk.run("project", "list", "--json").out.contains("\"project\":\"tides\""))
        #expect(try desk.run("project", "create").status == 64)
        #expect(try desk.run("send", "--project", "tides", "--data", "x").status == 64)

        // MSG-1
        for targets in [[], ["--topic", "a", "--token", "b"]] {
            let refused = desk.finish(try desk.start(["send", "--project", "tides"] + targets))
            #expect(refused.status == 1 && refused.err.contains("INVALID_ARGUMENT"))
        }
        // TOP-8
        let sent = try desk.run("send", "--project", "tides", "--topic", "nobody", "--title", "x")
        #expect(sent.out == "projects/tides/messages/1  accepted for 0 instances\n")
        #expect(try desk.run("check").status == 0)
    }

    @Test("OPS-1 a value may begin with a hyphen, also one that looks like an option")
    func hyphens() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        for words in [
            ["--title", "-5 degrees"], ["--body", "-1"], ["--title", "--json"],
            ["--data", "-k=-v"], ["--title=-5 degrees"], ["--collapse-key", "-c"],
        ] {
            let sent = desk.finish(
                try desk.start(["send", "--project", "tides", "--topic", "-storms"] + words))
            #expect(sent.status == 0, "\(words): \(sent)")
        }
        #expect(try desk.run("key", "create", "--project", "tides", "--name", "-n").status == 0)
    }

    @Test(
        "OPS-1 all errors have one form: the program, the word, the sentence; or one object with --json",
        arguments: [
            (
                "sned --project tides", 64,
                "There is no command 'martlet sned'. Did you mean 'send'?"
            ),
            (
                "topics --project tides --tokn t", 64,
                "Unknown option '--tokn'. Did you mean '--token'?"
            ),
            ("topics --project tydes", 1, "There is no project 'tydes'. Did you mean 'tides'?"),
            (
                "project set tidse --weight 2", 1,
                "There is no project 'tidse'. Did you mean 'tides'?"
            ),
            ("topics --project harbour", 1, "There is no such project"),
            ("settings prot=0", 64, "There is no setting 'prot'. Did you mean 'port'?"),
            ("serve --limit fanouts-deffered=1", 64, "Did you mean 'fanouts-deferred'?"),
            ("restore . new", 1, "it has no manifest.json"),
        ])
    func form(line: String, status: Int32, sentence: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let words = line.split(separator: " ").map { String($0) }
        let text = desk.finish(try desk.start(words))
        #expect(text.status == status && text.out.isEmpty, "\(text)")
        #expect(text.err.contains(sentence), "\(text)")
        #expect(text.err.starts(with: #/martlet: [A-Z_]+(?: \([^)]*\))?: /#), "\(text)")
        struct Answer: Decodable {
            struct Body: Decodable { var code, message: String }
            var error: Body
        }
        let json = desk.finish(try desk.start(words + ["--json"]))
        let answer = try JSONDecoder().decode(Answer.self, from: Data(json.err.utf8))
        #expect(json.status == status && answer.error.message.contains(sentence), "\(json)")
    }

    @Test(
        "OPS-1 a running broker's administrator is told the project that was meant, and a sender is not"
    )
    func meantProject() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let (broker, port) = try desk.serve()
        defer {
            broker.terminate()
            _ = desk.finish(broker)
        }
        let meant = "Did you mean 'tides'?"
        #expect(try desk.run("topics", "--project", "tides2").err.contains(meant))
        let sender = try desk.run("topics", "--project", "tides2", "--key", key, "--port", port)
        #expect(sender.status == 1 && !sender.err.contains(meant), "\(sender)")
        let device = try desk.run(
            "listen", "--project", "tides2", "--app", "com.example.tides", "--timeout", "5")
        #expect(device.status == 1 && device.err.contains(meant), "\(device)")
        #expect(
            !FileManager.default.fileExists(
                atPath: desk.folder.appending(path: "martlet-tides2-com.example.tides.json").path))
    }

    @Test("OPS-2 a command works on the folder of MARTLET_CONFIG, and tells a folder that it makes")
    func configuredFolder() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("data = harbour-data\n".utf8)
            .write(to: desk.folder.appending(path: "martlet.conf"))
        let environment = ["MARTLET_CONFIG": "martlet.conf"]
        func run(_ arguments: String...) throws -> Desk.Output {
            desk.finish(try desk.start(arguments, environment: environment))
        }
        let made = try run("project", "create", "tides")
        #expect(
            made.status == 0
                && made.err.contains("'harbour-data' is a new data folder, and no broker serves it"),
            "\(made)")
        let second = try run("project", "create", "storms")
        #expect(second.status == 0 && second.err.isEmpty, "\(second)")
        #expect(try desk.run("project", "list", "--data", "harbour-data").out.contains("storms"))
        try Data("dta = harbour-data\n".utf8)
            .write(to: desk.folder.appending(path: "martlet.conf"))
        let refused = try run("project", "list")
        #expect(
            refused.status == 64
                && refused.err.contains(
                    "martlet.conf, line 1: there is no setting 'dta'. Did you mean 'data'?"),
            "\(refused)")
    }

    @Test("OPS-1 the version names the commit that was built, where the build knew it")
    func version() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let version = try desk.run("--version").out
        let match = try #require(
            version.wholeMatch(of: #/\d+\.\d+\.\d+(?: \(([0-9a-f]{10})\))?\n/#), "\(version)")
        // `make` tells both the build and the tests.
        if let commit = ProcessInfo.processInfo.environment["BUILD_COMMIT"], !commit.isEmpty {
            #expect(match.1.map { String($0) } == commit)
        }
    }

    @Test("CON-6 a caret stands below the byte at fault")
    func caret() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let refused = try desk.run(
            "explain", "--project", "tides", "'a' in topics & 'b' in topics")
        #expect(refused.status == 1)
        #expect(
            refused.err.hasSuffix(
                "\n  'a' in topics & 'b' in topics\n" + "                ^\n"))
        let json = try desk.run(
            "audience", "--project", "tides", "--json", "'a' in topics & 'b' in topics")
        #expect(json.out.isEmpty && json.err.contains("\"byteOffset\":14"))
    }

    @Test("MSG-1 a message file is read strictly: a key that is not known is named")
    func messageFile() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let files = [
            (#"{"message":{"topic":"a","notification":{"title":"t"},"data":{"k":"v"}}}"#, nil),
            (#"{"topic":"a"}"#, nil),
            (#"{"topic":"a","notification":{"titel":"t"}}"#, "notification.titel"),
            (#"{"message":{"topic":"a","colour":"red"}}"#, "message.colour"),
            (#"{"message":{"topic":"a"},"dry":true}"#, "dry"),
            (#"{"topic":"a","data":{"n":1}}"#, "data.n"),
            (#"{"topic":"a","token":"b"}"#, "2 targets"),
            (#"{"topic":"a""#, "no JSON"),
        ]
        for (text, fault) in files {
            try Data(text.utf8).write(to: desk.folder.appending(path: "message.json"))
            let result = try desk.run("send", "--project", "tides", "--file", "message.json")
            #expect(result.status == (fault == nil ? 0 : 1))
            if let fault { #expect(result.err.contains(fault), "\(text)") }
        }
    }

    @Test("OPS-4 serve, listen and send; kill -9 of serve loses nothing; the device resumes")
    func processes() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let key = try desk.run("key", "create", "--project", "tides").out
            .trimmingCharacters(in: .whitespacesAndNewlines)
        var (broker, port) = try desk.serve()
        let listen = [
            "listen", "--project", "tides", "--app", "com.example.tides", "--topic", "tides",
            "--json", "--timeout", "60",
        ]
        let device = try desk.start(listen + ["--port", port, "--count", "1"])
        #expect(desk.firstLine(device).hasPrefix("{\"event\":\"ready\""))
        let condition = "'tides' in topics && !('silent' in topics)"
        let sent = try desk.run(
            "send", "--project", "tides", "--condition", condition, "--title", "High tide",
            "--key", key, "--port", port)
        #expect(sent.out == "projects/tides/messages/1  accepted for 1 instance\n")
        let received = desk.finish(device)
        #expect(received.status == 0 && received.out.contains("\"title\":\"High tide\""))

        // The device is away; the broker dies without a word; one message is sent to the folder itself.
        // COL-2: without a payload the second would replace the first.
        let away = ["send", "--project", "tides", "--topic", "tides", "--data"]
        #expect(desk.finish(try desk.start(away + ["n=2"])).status == 0)
        kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
        #expect(desk.finish(try desk.start(away + ["n=3"])).status == 0)
        #expect(try desk.run("check").status == 0)
        (broker, port) = try desk.serve()
        let resumed = desk.finish(try desk.start(listen + ["--port", port, "--count", "2"]))
        #expect(resumed.status == 0, "\(resumed.err)")
        struct Line: Decodable {
            var event: String
            var streamID: Int?
            var data: [String: String]?
        }
        let lines = try resumed.out.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }.filter { $0.event == "message" }
        #expect(lines.map(\.streamID) == [2, 3])
        #expect(lines.map { $0.data?["n"] } == ["2", "3"])

        let second = try desk.run("serve", "--port", "0")
        #expect(second.status == 1 && second.err.contains("in use"))
        try FileManager.default.createDirectory(
            at: desk.folder.appending(path: "other"), withIntermediateDirectories: true)
        let samePort = try desk.run("serve", "--data", "other", "--port", port)
        #expect(samePort.status == 1 && samePort.err.contains("in use"))
        broker.terminate()
        #expect(desk.finish(broker).status == 0)
    }

    @Test("CON-2 the demo's numbers are right on either transport", arguments: ["auto", "epoll"])
    func demo(transport: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let demo = try desk.run("demo", "--devices", "100", "--exit", "--transport", transport)
        #expect(demo.status == 0, "\(demo.out)")
        #expect(transport == "auto" || demo.out.contains(" over epoll "), "\(demo.out)")
    }

    @Test("OPS-1 the administrator key does not go to an address that a crash left")
    func leftAddress() async throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        // Another process has the folder, and a stranger listens where a killed broker did.
        let folder = desk.folder.appending(path: "martlet-data")
        let holder = try await Broker.open(BrokerConfiguration(folder: folder.path))
        let stranger = try Stranger()
        try Data("127.0.0.1 \(stranger.port)\n".utf8)
            .write(to: folder.appending(path: "serve.address"))
        let refused = try desk.run("project", "list")
        #expect(
            refused.status == 1 && refused.err.contains("could not ask it: no broker"),
            "\(refused.err)")
        #expect(!stranger.wasCalled())
        try await holder.close()
    }
}

/// A program that listens and is no broker.
private final class Stranger {
    private let descriptor: Int32
    let port: UInt16

    struct Failure: Error { let code: Int32 }

    init() throws {
        descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0
        )
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let code = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 8) == 0
                    ? getsockname(descriptor, $0, &length) : -1
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard code == 0 else { throw Failure(code: errno) }
    }

    deinit { close(descriptor) }

    /// Whether somebody has connected.
    func wasCalled() -> Bool {
        let caller = accept(descriptor, nil, nil)
        if caller >= 0 { close(caller) }
        return caller >= 0
    }
}
