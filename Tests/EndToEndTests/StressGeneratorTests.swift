// SPDX-License-Identifier: Apache-2.0
//
// The generator of `make stress` speaks the present protocol: its devices register and connect, and have each
// message once. `make stress` takes minutes, so no other test would tell that a broker refuses them. Rests on Desk.

import Foundation
import Testing

@Suite(.timeLimit(.minutes(1)))
struct StressGeneratorTests {
    private struct Answer: Decodable {
        var devices: Int?
        var settled: Bool?
        var deliveries: Int?
    }

    @Test("the devices of a stress run register, receive, leave and come back")
    func course() throws {
        let desk = try Desk()
        defer { desk.remove() }
        let (broker, port) = try desk.serve()
        defer {
            broker.terminate()
            broker.waitUntilExit()
        }
        let (projects, devicesEach, messages) = (3, 20, 5)
        let generator = Process()
        generator.executableURL = Desk.executable.deletingLastPathComponent()
            .appending(path: "bench-load")
        generator.arguments = [
            "stress", port, desk.folder.appending(path: "martlet-data/admin.key").path, "other",
            "\(projects)", "\(devicesEach)", "128", "1",
        ]
        let (commands, answers, complaints) = (Pipe(), Pipe(), Pipe())
        generator.standardInput = commands
        generator.standardOutput = answers
        generator.standardError = complaints
        try generator.run()
        // A command waits for the answer of the command before.
        var lines: [Answer] = []
        for command in ["setup", "burst \(messages)", "away", "storm", "settle 20"] {
            try commands.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
            let line = desk.firstLine(generator)
            try #require(!line.isEmpty, "\(command): \(desk.finish(generator).err)")
            lines.append(try JSONDecoder().decode(Answer.self, from: Data(line.utf8)))
        }
        try commands.fileHandleForWriting.close()
        #expect(desk.finish(generator).err == "")
        #expect(lines[0].devices == projects * devicesEach)
        #expect(lines[1].settled == true)
        #expect(lines[1].deliveries == projects * devicesEach * messages)
        #expect(lines[4].settled == true)
    }
}
