// SPDX-License-Identifier: Apache-2.0
//
// What ends a `martlet serve` and its connections, and what does not. Rests on Desk and WireClient.

import Foundation
import MartletBase
import MartletWire
import Testing

@Suite("Signals", .timeLimit(.minutes(2)))
struct SignalTests {
    @Test("NET-5 the first signal ends a broker in order", arguments: [SIGINT, SIGTERM, SIGHUP])
    func ends(signal: Int32) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.start(["serve", "--port", "0"])
        _ = desk.firstLine(process)
        kill(process.processIdentifier, signal)
        #expect(desk.finish(process).status == 0)
        #expect(
            !FileManager.default.fileExists(
                atPath: desk.folder.appending(path: "martlet-data/serve.address").path))
    }

    @Test(
        "OPS-5 a second broker on a served folder is refused with the folder's name; the first goes on"
    )
    func second() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, _) = try desk.serve()
        defer {
            broker.terminate()
            _ = desk.finish(broker)
        }
        let sentence = """
            The data folder './martlet-data' is in use by another broker. Stop it, or choose another \
            folder; a folder belongs to one process at a time.
            """
        let second = try desk.run("serve", "--port", "0")
        #expect(second.status == 1, "\(second)")
        #expect(second.err.hasSuffix(" critical martlet: code=FAILED \(sentence)\n"), "\(second)")
        #expect(second.out.isEmpty)
        let json = try desk.run("serve", "--port", "0", "--json")
        #expect(json.status == 1 && json.err.contains(sentence), "\(json)")
        #expect(json.err.hasPrefix("{\"error\":"))
        #expect(try desk.run("project", "create", "tides").status == 0)
    }

    @Test("OPS-5 a reader of the log who goes, and a terminal of nohup's, end nothing")
    func endures() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let process = try desk.shell("trap '' HUP; exec \"$0\" serve --port 0")
        _ = desk.firstLine(process)
        for signal in [SIGHUP, SIGPIPE] { kill(process.processIdentifier, signal) }
        #expect(try desk.run("project", "create", "tides").status == 0)
        process.terminate()
        #expect(desk.finish(process).status == 0)
    }

    @Test(
        "NET-11 after a freeze what came in is read before silence is judged",
        arguments: ["io_uring", "epoll"])
    func freeze(transport: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, port) = try desk.serve(["--idle-seconds", "2", "--transport", transport])
        defer {
            broker.terminate()
            _ = desk.finish(broker)
        }
        let key = try String(
            contentsOf: desk.folder.appending(path: "martlet-data/admin.key"), encoding: .utf8)
        let hello = Hello.administrator(
            administratorKey: key.trimmingCharacters(in: .whitespacesAndNewlines), projectID: "")
        let clients = try (0..<40).map { _ in try WireClient(port: UInt16(port)!) }
        for client in clients { #expect(try client.hello(hello)) }
        kill(broker.processIdentifier, SIGSTOP)
        sleep(4)
        for client in clients { client.send(Ping(value: 7)) }
        kill(broker.processIdentifier, SIGCONT)
        for client in clients {
            guard case .pong? = try client.receive() else {
                Issue.record("a living connection was ended")
                return
            }
        }
        // Silence that the broker has seen still ends a connection.
        guard case .error(let frame)? = try clients[0].receive() else {
            Issue.record("a silent connection lives on")
            return
        }
        #expect(frame.error.word == .deadlineExceeded)
    }

    @Test("OPS-15 OPS-11 a log that nobody reads stops neither requests nor the end of a broker")
    func unread() throws {
        let desk = try Desk()
        defer { desk.remove() }
        var ends: [Int32] = [-1, -1]
        pipe(&ends)
        defer { for end in ends { close(end) } }
        let log = FileHandle(fileDescriptor: ends[1])
        // The pipe is full before the first line of the log.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        let page = [UInt8](repeating: 10, count: 4096)
        while write(ends[1], page, page.count) > 0 {}
        _ = fcntl(ends[1], F_SETFL, 0)
        let process = Process()
        process.executableURL = Desk.executable
        process.arguments = ["serve", "--port", "0", "--loops", "1", "--json"]
        process.currentDirectoryURL = desk.folder
        process.standardOutput = Pipe()
        process.standardError = log
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let address = desk.folder.appending(path: "martlet-data/serve.address").path
        while !FileManager.default.fileExists(atPath: address), process.isRunning { usleep(10_000) }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let send = ["send", "--project", "tides", "--topic", "high", "--title", "High"]
        #expect(desk.finish(try desk.start(send)).status == 0)
        process.terminate()
        #expect(desk.finish(process).status == 0)
        #expect(!FileManager.default.fileExists(atPath: address))
    }

    @Test(
        "NET-5 two signals shortly after each other are one, and the folder is closed",
        arguments: [0, 1_000, 100_000] as [UInt32])
    func twice(microseconds: UInt32) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (process, _) = try desk.serve()
        kill(process.processIdentifier, SIGTERM)
        usleep(microseconds)
        kill(process.processIdentifier, SIGTERM)
        let end = desk.finish(process)
        #expect(end.status == 0 && end.err.contains("the broker has ended"), "\(end)")
    }

    @Test("NET-5 a signal seconds after the first one ends a broker that cannot end in order")
    func later() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let disk = try FailingDisk(in: desk.folder)
        let process = try desk.start(
            ["serve", "--port", "0", "--json"], environment: disk.environment)
        _ = desk.firstLine(process)
        #expect(try desk.run("project", "create", "tides").status == 0)
        // The folder cannot be closed in less than that.
        try disk.slow(milliseconds: 30_000)
        kill(process.processIdentifier, SIGTERM)
        usleep(3_200_000)
        #expect(process.isRunning)
        kill(process.processIdentifier, SIGTERM)
        #expect(desk.finish(process).status == 130)
    }

    @Test(
        "OPS-11 signals of other programs' customs end no broker",
        arguments: [SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXFSZ])
    func foreign(signal: Int32) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (process, _) = try desk.serve()
        kill(process.processIdentifier, signal)
        #expect(try desk.run("project", "create", "tides").status == 0)
        process.terminate()
        #expect(desk.finish(process).status == 0)
    }

    @Test("OPS-11 SIGQUIT ends a broker at once, and the next start recovers the folder")
    func quit() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (process, _) = try desk.serve()
        #expect(try desk.run("project", "create", "tides").status == 0)
        kill(process.processIdentifier, SIGQUIT)
        let end = desk.finish(process)
        #expect(end.status == SIGQUIT && process.terminationReason == .uncaughtSignal, "\(end)")
        #expect(!end.err.contains("crashed"))
        let (next, _) = try desk.serve()
        #expect(try desk.run("project", "list").out.contains("tides"))
        next.terminate()
        #expect(desk.finish(next).err.contains("is recovered"))
    }
}
