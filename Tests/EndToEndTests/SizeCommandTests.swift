// SPDX-License-Identifier: Apache-2.0
//
// `martlet size` as an operator runs it (OPS-10), and its example in the article Operating. Rests on Desk.

import Foundation
import Testing

@Suite(.timeLimit(.minutes(1)))
struct SizeCommandTests {
    private static let article = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/Martlet/Martlet.docc/Operating.md")

    @Test("OPS-10 the example of the article prints what the article shows")
    func article() throws {
        let text = try String(contentsOf: Self.article, encoding: .utf8)
        let block = try #require(
            text.firstMatch(of: /```\n\$ martlet (size [^\n]*(?:\\\n[^\n]*)*)\n((?s).*?)```/))
        let arguments = block.1.replacing("\\\n", with: " ").split(separator: " ").map(String.init)
        let desk = try Desk()
        defer { desk.remove() }
        let output = desk.finish(try desk.start(arguments))
        #expect(output.status == 0, "\(output.err)")
        #expect(output.out == String(block.2))
    }

    @Test("OPS-10 the size of a load is printed as JSON too, and a wrong load is refused")
    func json() throws {
        struct Answer: Decodable {
            struct Memory: Decodable {
                var total: UInt64
                var connections: UInt64
            }
            struct Disk: Decodable { var total: UInt64 }
            struct Cores: Decodable { var total: Int }
            var memory: Memory
            var disk: Disk
            var cores: Cores
            var loops: Int
            var secondsToAll: Double
            var remarks: [String]
        }
        let desk = try Desk()
        defer { desk.remove() }
        let load = [
            "size", "--instances", "20000000", "--connections", "300000", "--messages-per-day",
            "2000000",
        ]
        let output = desk.finish(
            try desk.start(load + ["--fanouts-per-day", "4", "--http", "--no-tls", "--json"]))
        let answer = try JSONDecoder().decode(Answer.self, from: Data(output.out.utf8))
        #expect(answer.memory.connections == 99_300_000)
        #expect(answer.memory.total < answer.disk.total && answer.cores.total >= 2)
        #expect(answer.loops == 5 && answer.secondsToAll > 0)
        #expect(answer.remarks.count == 1)
        for wrong in [
            ["--instances", "2"], ["--away", "1.1"], ["--stored", "-1"], ["--days", "29"],
            ["--peak", "0"], ["--topics-per-instance", "2001"], ["--recipients", "-1"],
            ["--messages-per-day", "x"],
        ] {
            #expect(desk.finish(try desk.start(load + wrong)).status == 64, "\(wrong)")
        }
        #expect(try desk.run("size").status == 64)
    }
}
