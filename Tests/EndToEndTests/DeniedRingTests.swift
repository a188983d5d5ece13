// SPDX-License-Identifier: Apache-2.0
//
// `martlet serve` where the kernel refuses io_uring: a child under a filter of system calls, as in a
// container. Rests on Desk, WireClient and Tests/Python/deny_calls.py.

import Foundation
import MartletBase
import MartletWire
import Testing

@Suite("io_uring denied", .timeLimit(.minutes(3)))
struct DeniedRingTests {
    private static let helper = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Python/deny_calls.py").path

    /// The command in a desk's folder, without some system calls.
    private func start(
        _ desk: Desk, without calls: String, _ code: String, _ arguments: [String]
    ) throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments =
            ["python3", Self.helper, code, calls, Desk.executable.path] + arguments
        // The choice is the subject here, so the one that all tests are run with does not count.
        process.environment = ProcessInfo.processInfo.environment.filter {
            $0.key != "MARTLET_TRANSPORT"
        }
        process.currentDirectoryURL = desk.folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return process
    }

    private struct Ready: Decodable {
        var port: UInt16
        var transport: String
    }

    private static let fallback = "io_uring is not available; the broker runs on epoll"

    @Test(
        "OPS-8 where io_uring is denied the broker says so once with the reason, and serves on epoll",
        arguments: [
            ("io_uring_setup", "EPERM", "The kernel denies io_uring (Operation not permitted"),
            ("io_uring_setup", "ENOSYS", "The kernel lacks io_uring"),
            ("io_uring_register", "EPERM", "The kernel denies io_uring (Operation not permitted"),
            ("io_uring_enter", "EPERM", "The kernel denies io_uring (Operation not permitted"),
            // A sandbox that lacks the newer way to wait, too.
            ("io_uring_setup,epoll_pwait2", "ENOSYS", "The kernel lacks io_uring"),
        ])
    func serves(calls: String, code: String, reason: String) throws {
        let desk = try Desk()
        defer { desk.remove() }
        // A command without a broker writes to the folder, and needs no io_uring either.
        let made = desk.finish(
            try start(desk, without: calls, code, ["project", "create", "tides"]))
        #expect(made.status == 0 && made.err.contains("new data folder"), "\(made.err)")
        let broker = try start(
            desk, without: calls, code, ["serve", "--port", "0", "--json", "--loops", "2"])
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(broker).utf8))
        #expect(ready.transport == "epoll")

        let device = try WireClient(port: ready.port)
        device.send(
            Hello.newDevice(
                projectID: "tides", appName: "a.b", platform: .android,
                credential: .key(try desk.registrationKey(of: "tides"))))
        guard case .welcome(let welcome) = try device.receive() else {
            Issue.record("no WELCOME")
            return
        }
        let sent = try desk.run(
            "send", "--project", "tides", "--token", welcome.token, "--title", "High tide")
        #expect(sent.status == 0, "\(sent.err)")
        guard case .deliver = try device.receive() else {
            Issue.record("no DELIVER")
            return
        }
        broker.terminate()
        let end = desk.finish(broker)
        #expect(end.status == 0)
        let told = end.err.split(separator: "\n").filter { $0.contains(Self.fallback) }
        #expect(told.count == 1, "\(end.err)")
        #expect(told.first?.contains(reason) == true, "\(end.err)")
    }

    @Test(
        "OPS-8 with io_uring required a denial is an error that says what to change",
        arguments: [["--require-io-uring"], ["--transport", "io_uring"]])
    func required(flags: [String]) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let refused = desk.finish(
            try start(
                desk, without: "io_uring_setup", "EPERM", ["serve", "--port", "0"] + flags))
        #expect(refused.status == 1)
        #expect(refused.err.contains("The kernel denies io_uring"), "\(refused.err)")
        #expect(refused.err.contains("--security-opt seccomp=unconfined"), "\(refused.err)")
        #expect(refused.err.contains("--require-io-uring"), "\(refused.err)")
        #expect(!refused.err.contains(Self.fallback))
    }

    @Test("OPS-8 epoll on request is no fallback, and does not ask for io_uring")
    func chosen() throws {
        let desk = try Desk()
        defer { desk.remove() }
        for calls in ["io_uring_setup", "epoll_pwait2"] {
            let broker = try start(
                desk, without: calls, "EPERM",
                ["serve", "--port", "0", "--json", "--transport", "epoll"])
            let ready = try JSONDecoder().decode(
                Ready.self, from: Data(desk.firstLine(broker).utf8))
            #expect(ready.transport == "epoll")
            broker.terminate()
            let end = desk.finish(broker)
            #expect(end.status == 0 && !end.err.contains("io_uring"), "\(end.err)")
        }
    }

    @Test("OPS-8 requiring io_uring and choosing epoll exclude each other, wherever each is set")
    func contradiction() throws {
        let desk = try Desk()
        defer { desk.remove() }
        try Data("transport = epoll\n".utf8)
            .write(to: desk.folder.appending(path: "martlet.conf"))
        let refused = try desk.run(
            "serve", "--config", "martlet.conf", "--port", "0", "--require-io-uring")
        #expect(refused.status == 64)
        #expect(refused.err.contains("exclude each other"), "\(refused.err)")
        let unknown = try desk.run("serve", "--port", "0", "--transport", "kqueue")
        #expect(unknown.status == 64 && unknown.err.contains("epoll"), "\(unknown.err)")
    }
}
