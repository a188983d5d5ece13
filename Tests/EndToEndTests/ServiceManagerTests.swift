// SPDX-License-Identifier: Apache-2.0
//
// What a service manager, a collector of logs and an operator who changes settings see of a serving broker. The test
// is the service manager: it has the socket that the broker tells its states. Rests on Desk.

import Foundation
import Testing

/// A datagram socket, under a path or a name of the kernel's own.
final class NotifySocket {
    private let descriptor: Int32

    init(_ name: String) {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(name.utf8)
        if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(2 + bytes.count + (bytes[0] == 0 ? 0 : 1))
        let failed = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        #expect(failed == 0)
    }

    deinit { close(descriptor) }

    /// A state that waits, without waiting for one.
    func takeWaiting() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    /// The next state. Signs of life are left out, unless they are asked for.
    func next(withLife: Bool = false) -> String {
        while true {
            var bytes = [UInt8](repeating: 0, count: 4096)
            let count = recv(descriptor, &bytes, bytes.count, 0)
            guard count > 0 else { return "" }
            let text = String(decoding: bytes[..<count], as: UTF8.self)
            if withLife || text != "WATCHDOG=1" { return text }
        }
    }
}

@Suite("Service managers, logs and settings", .timeLimit(.minutes(2)))
struct ServiceManagerTests {
    private struct LogLine: Decodable {
        var time: String
        var level: String
        var label: String
        var message: String
        var metadata: [String: String]?
    }

    @Test(
        "OPS-11 a service manager hears of start, reload, life and end",
        arguments: [true, false], [["serve"], ["gateway", "--http", "127.0.0.1:0"]])
    func states(isPath: Bool, command: [String]) throws {
        let desk = try Desk()
        defer { desk.remove() }
        let name =
            isPath
            ? desk.folder.appending(path: "notify").path : "@martlet-\(UUID().uuidString)"
        let socket = NotifySocket(name)
        let process = try desk.start(
            command + ["--port", "0"],
            environment: ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "300000"])
        #expect(socket.next() == "READY=1")
        #expect(socket.next(withLife: true) == "WATCHDOG=1")
        kill(process.processIdentifier, SIGHUP)
        let reloading = socket.next().split(separator: "\n")
        #expect(reloading.first == "RELOADING=1")
        let time = reloading.last?.split(separator: "=")
        #expect(time?.first == "MONOTONIC_USEC" && time?.last.flatMap { UInt64($0) } ?? 0 > 0)
        #expect(socket.next() == "READY=1")
        process.terminate()
        #expect(socket.next() == "STOPPING=1")
        #expect(desk.finish(process).status == 0)
    }

    @Test(
        "OPS-11 SIGHUP reads the log level of the file again, and a fault leaves it; logs are JSON by choice"
    )
    func level() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let file = desk.folder.appending(path: "martlet.conf")
        func write(_ text: String) throws { try Data(text.utf8).write(to: file) }
        try write("log-level = error\nlog-format = json\n")
        let name = desk.folder.appending(path: "notify").path
        let socket = NotifySocket(name)
        let process = try desk.start(
            ["serve", "--port", "0", "--config", file.path], environment: ["NOTIFY_SOCKET": name])
        #expect(socket.next() == "READY=1")
        for text in ["log-level = error\n", "log-level = notice\n", "log-level = loud\n"] {
            try write(text)
            kill(process.processIdentifier, SIGHUP)
            #expect(socket.next().hasPrefix("RELOADING=1"))
            #expect(socket.next() == "READY=1")
        }
        process.terminate()
        let output = desk.finish(process)
        #expect(output.status == 0)
        let lines = try output.err.split(separator: "\n").map {
            try JSONDecoder().decode(LogLine.self, from: Data($0.utf8))
        }
        #expect(
            lines.map(\.message) == [
                "the log level was read again", "changed settings need a restart",
                "the settings stay as they were", "the broker has ended, and the folder is closed",
            ], "\(output.err)")
        try #require(lines.map(\.level) == ["notice", "warning", "error", "notice"])
        #expect(lines[1].metadata == ["settings": "log-format"])
        #expect(lines.allSatisfy { $0.label == "martlet" && $0.time.hasSuffix("Z") })
        #expect(lines[2].metadata?["error"]?.contains("line 1") ?? false)
    }

    @Test(
        "OPS-11 SIGHUP reads limits again, names what needs a restart, and a fault changes nothing")
    func limits() throws {
        let desk = try Desk()
        defer { desk.remove() }
        _ = try desk.run("project", "create", "tides")
        let file = desk.folder.appending(path: "martlet.conf")
        func write(_ text: String) throws { try Data(text.utf8).write(to: file) }
        try write("limit = topic-changes-per-second=7\nport = 0\n")
        let name = desk.folder.appending(path: "notify").path
        let socket = NotifySocket(name)
        let process = try desk.start(
            ["serve", "--config", file.path, "--log-format", "json"],
            environment: ["NOTIFY_SOCKET": name])
        #expect(socket.next() == "READY=1")
        func reload(_ text: String) throws {
            try write(text)
            kill(process.processIdentifier, SIGHUP)
            #expect(socket.next().hasPrefix("RELOADING=1"))
            #expect(socket.next() == "READY=1")
        }
        func limit() throws -> UInt64? {
            struct Quota: Decodable {
                var quota: String
                var limit: UInt64
            }
            let output = desk.finish(
                try desk.start(["quotas", "--project", "tides", "--json"]))
            return try JSONDecoder().decode([Quota].self, from: Data(output.out.utf8))
                .first { $0.quota == "topic-changes-per-second" }?.limit
        }
        #expect(try limit() == 7)
        try reload(
            """
            limit = topic-changes-per-second=9
            limit = stored-per-instance-max=5
            port = 0
            loops = 3
            """)
        while try limit() == 7 {}
        #expect(try limit() == 9)
        try reload("port = 0\nlimit = topic-changes-per-second=11\nlimit = group-members=1001\n")
        #expect(try limit() == 9)
        process.terminate()
        let output = desk.finish(process)
        #expect(output.status == 0)
        let lines = try output.err.split(separator: "\n").map {
            try JSONDecoder().decode(LogLine.self, from: Data($0.utf8))
        }
        try #require(
            lines.map(\.message) == [
                "the broker serves", "the log level was read again", "limits changed",
                "changed settings need a restart", "the settings stay as they were",
                "the broker has ended, and the folder is closed",
            ], "\(output.err)")
        #expect(lines[2].metadata == ["limits": "topic-changes-per-second=7→9"])
        #expect(lines[3].metadata == ["settings": "limit stored-per-instance-max=100→5, loops"])
        let fault = lines[4].metadata?["error"] ?? ""
        #expect(fault.contains("line 3") && fault.contains("from 1 to 1000"), "\(fault)")
    }

    @Test("OPS-2 a broker refuses a variable that is no setting")
    func variables() throws {
        let desk = try Desk()
        defer { desk.remove() }
        for name in ["MARTLET_LOGLEVEL", "MARTLET_"] {
            let output = desk.finish(
                try desk.start(["serve", "--port", "0"], environment: [name: "info"]))
            let refusal = "martlet: INVALID_ARGUMENT: \(name): there is no such setting."
            #expect(output.status == 64 && output.err.hasPrefix(refusal), "\(output)")
        }
        let other = desk.finish(
            try desk.start(
                ["project", "create", "tides"], environment: ["MARTLET_LOGLEVEL": "info"]))
        #expect(other.status == 0)
    }
}
