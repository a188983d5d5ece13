// SPDX-License-Identifier: Apache-2.0
//
// A `martlet serve` that may open few descriptors. Rests on Desk and WireClient.

import Foundation
import MartletBase
import MartletWire
import Testing

@Suite("Out of descriptors", .timeLimit(.minutes(3)))
struct DescriptorTests {
    @Test("OPS-5 past the limit of descriptors: said once, who is there is served, then others")
    func limit() throws {
        let desk = try Desk()
        defer { desk.remove() }
        #expect(try desk.run("project", "create", "tides").status == 0)
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = [
            "-c", "ulimit -n 64 && exec \"$0\" serve --port 0 --json --loops 1",
            Desk.executable.path,
        ]
        process.currentDirectoryURL = desk.folder
        process.standardOutput = Pipe()
        process.standardError = Pipe()
        process.standardInput = FileHandle.nullDevice
        try process.run()
        struct Ready: Decodable { var port: UInt16 }
        let ready = try JSONDecoder().decode(Ready.self, from: Data(desk.firstLine(process).utf8))
        // A ring holds as many connections as the limit says. Over epoll each takes one of the process's
        // descriptors, of which half are left for the rest.
        let isEpoll = ProcessInfo.processInfo.environment["MARTLET_TRANSPORT"] == "epoll"
        let room = isEpoll ? 32 : 64
        let hello = Hello.newDevice(
            projectID: "tides", appName: "a.b", platform: .android,
            credential: .key(try desk.registrationKey(of: "tides")))

        var served: [WireClient] = []
        for _ in 0..<room {
            let client = try WireClient(port: ready.port)
            #expect(try client.hello(hello))
            served.append(client)
        }
        // Connections past the limit wait.
        let waiting = try (0..<8).map { _ in try WireClient(port: ready.port) }
        for client in waiting { client.send(hello) }
        for client in served {
            client.send(Ping(value: 5))
            guard case .pong = try client.receive() else {
                Issue.record("no answer past the limit")
                return
            }
        }
        served.removeAll()
        let welcomed = try waiting.filter {
            guard case .welcome = try $0.receive() else { return false }
            return true
        }.count
        #expect(welcomed == 8)
        let late = try WireClient(port: ready.port)
        #expect(try late.hello(hello))
        process.terminate()
        let end = desk.finish(process)
        #expect(end.status == 0)
        let told = end.err.split(separator: "\n").filter {
            $0.contains("no connection can be accepted for now")
        }
        // Places come free one at a time, so the waiting connections may fill the table again, and the broker may say
        // so again. A line for each waiting connection would be a fault.
        #expect((1..<waiting.count).contains(told.count), "\(end.err)")
    }
}
