// SPDX-License-Identifier: Apache-2.0
//
// Starts that must fail with a sentence, and starts from a poor environment: taken ports, closed standard descriptors, no
// threads, limited files. Rests on Desk, with real processes.

import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("Starts", .timeLimit(.minutes(2)))
struct StartTests {
    /// Connects to a port of this machine again and again.
    private final class Fleet: Sendable {
        let welcomes = Atomic(0)
        private let isOver = Atomic(false)

        init(port: UInt16) {
            Thread.detachNewThread { [self] in
                while !isOver.load(ordering: .acquiring) {
                    let peer = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
                    var address = sockaddr_in()
                    address.sin_family = sa_family_t(AF_INET)
                    address.sin_port = port.bigEndian
                    address.sin_addr.s_addr = inet_addr("127.0.0.1")
                    let result = withUnsafePointer(to: &address) {
                        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                            connect(peer, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                        }
                    }
                    if result == 0 { welcomes.add(1, ordering: .relaxed) }
                    close(peer)
                    usleep(1000)
                }
            }
        }

        func end() { isOver.store(true, ordering: .releasing) }
    }

    /// A listening socket of this process, on a port that the system chooses.
    private static func listener() -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(descriptor, $0, size)
                _ = listen(descriptor, 1)
                _ = getsockname(descriptor, $0, &size)
            }
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    @Test(
        "OPS-5 a start that fails for a taken port has welcomed no device",
        arguments: ["http", "metrics"])
    func taken(setting: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (holder, taken) = Self.listener()
        defer { close(holder) }
        // The port is closed while nobody listens, so every connection is one to the broker.
        let port = try FreePort.claim()
        let fleet = Fleet(port: port)
        let end = try desk.run(
            "serve", "--port", "\(port)", "--\(setting)", "127.0.0.1:\(taken)")
        fleet.end()
        #expect(end.status == 1 && end.out.isEmpty, "\(end)")
        #expect(end.err.contains("\(taken)") && end.err.contains("in use"), "\(end)")
        #expect(fleet.welcomes.load(ordering: .relaxed) == 0)
    }

    @Test("OPS-5 a closed standard descriptor is not the number of a socket or a file")
    func closed() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.shell("exec \"$0\" serve --port 0 0<&- 1>&- 2>&-")
        let address = desk.folder.appending(path: "martlet-data/serve.address").path
        while !FileManager.default.fileExists(atPath: address), process.isRunning { usleep(10_000) }
        for descriptor in 0...2 {
            #expect(
                try FileManager.default.destinationOfSymbolicLink(
                    atPath: "/proc/\(process.processIdentifier)/fd/\(descriptor)") == "/dev/null")
        }
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    @Test("OPS-5 too few threads end a start with the reason", arguments: [1, 8])
    func threads(count: Int) throws {
        let desk = try Desk()
        defer { desk.remove() }
        // Root has no limit of processes, and no other user may have the number.
        let user = geteuid() == 0 ? "setpriv --reuid 64123 --clear-groups" : ""
        let process = try desk.shell(
            "chmod 777 .; ulimit -u \(count); exec \(user) \"$0\" serve --port 0 --data /tmp/martlet-none/d"
        )
        let end = desk.finish(process)
        #expect(end.status == 1 && end.err.contains("TasksMax"), "\(end)")
    }

    @Test(
        "OPS-2 the reason of a failed start is a line of the log, in the form of the log",
        arguments: ["text", "json"])
    func reason(format: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (holder, taken) = Self.listener()
        defer { close(holder) }
        for setting in ["http", "metrics"] {
            let end = try desk.run(
                "serve", "--port", "0", "--\(setting)", "127.0.0.1:\(taken)", "--log-format", format
            )
            #expect(end.status == 1 && end.out.isEmpty, "\(end)")
            let last = try #require(end.err.split(separator: "\n").last)
            #expect(last.contains("in use"), "\(end)")
            if format == "json" {
                struct Line: Decodable { var time, level, message: String }
                let line = try JSONDecoder().decode(Line.self, from: Data(last.utf8))
                #expect(line.level == "critical" && line.message.contains("\(taken)"))
            } else {
                #expect(last.prefix(2) == "20" && last.contains("Z critical martlet:"), "\(end)")
            }
        }
        // OPS-1
        let asked = try desk.run(
            "serve", "--port", "0", "--http", "127.0.0.1:\(taken)", "--json")
        #expect(asked.status == 1 && asked.err.hasPrefix("{\"error\":"), "\(asked)")
    }

    @Test(
        "OPS-2 a setting without an effect beside the others is refused, and both are named",
        arguments: [
            (["--port", "0", "--listen", "127.0.0.1:0"], "--port", "--listen"),
            (["--listen", "127.0.0.1:0", "--host=127.0.0.1"], "--host", "--listen"),
            (["--listen=127.0.0.1:0", "--config", "port.conf"], "port.conf, line 1", "--listen"),
            (
                ["--http-certificate", "c.pem", "--http-key", "k.pem"], "--http-certificate",
                "--http"
            ),
            (
                ["--xmpp-certificate", "c.pem", "--xmpp-key", "k.pem"], "--xmpp-certificate",
                "--xmpp"
            ),
            (["--http-token-url", "http://a/token"], "--http-token-url", "--http,"),
            (["--web-push-origin", "http://a"], "--web-push-origin", "--http,"),
            (["--http-plain-elsewhere"], "--http-plain-elsewhere", "--http,"),
            (["--console"], "--console", "--http,"),
        ])
    func overridden(arguments: [String], ignored: String, other: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("port = 0\n".utf8).write(to: desk.folder.appending(path: "port.conf"))
        let refused = desk.finish(try desk.start(["serve"] + arguments))
        #expect(refused.status == 64, "\(refused)")
        #expect(refused.err.contains(ignored) && refused.err.contains(other), "\(refused)")
    }

    @Test("OPS-1 what is not what it was given for is told in words that help")
    func mistaken() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let folder = try desk.run("serve", "--config", ".")
        #expect(folder.status == 64 && folder.err.contains("it is a folder"), "\(folder)")
        for line in [["restore", "martlet-data", "new"], ["check", "--backup", "martlet-data"]] {
            let refused = desk.finish(try desk.start(line))
            #expect(refused.status == 1, "\(refused)")
            #expect(
                refused.err.contains("it is a data folder") && !refused.err.contains("damaged"),
                "\(refused)")
        }
        let other = try desk.run("restore", ".", "new")
        #expect(other.status == 1 && other.err.contains("it has no manifest.json"), "\(other)")

        let gateway = try desk.start(["gateway", "--port", "0", "--http", "127.0.0.1:0", "--json"])
        struct Ready: Decodable { var http: String }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(gateway).utf8))
        let port = String(ready.http.split(separator: ":").last ?? "")
        for line in [
            ["listen", "--app", "a.b"], ["send", "--key", "k", "--topic", "a", "--title", "x"],
        ] {
            let refused = desk.finish(
                try desk.start(line + ["--project", "tides", "--port", port]))
            #expect(
                refused.status == 1 && refused.err.contains("server of HTTP answers"),
                "\(refused)")
        }
        gateway.terminate()
        #expect(desk.finish(gateway).status == 0)
    }

    @Test("OPS-5 a limit of the size of files is named")
    func size() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let end = desk.finish(try desk.shell("ulimit -f 100; exec \"$0\" serve --port 0"))
        #expect(end.status == 1 && end.err.contains("LimitFSIZE"), "\(end)")
    }
}
