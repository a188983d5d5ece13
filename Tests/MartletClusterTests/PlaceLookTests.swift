// SPDX-License-Identifier: Apache-2.0
//
// How far behind a node is, beside a log that goes on.

import MartletCluster
import Testing

@Suite("The places of nodes")
struct PlaceLookTests {
    private func sighting(
        _ applied: UInt64, age: Duration, address: String = "10.0.0.1:5230"
    ) throws -> NodeSighting {
        NodeSighting(
            report: NodeReport(
                name: try NodeName(validating: "a"), run: 1, address: address, formats: 1...1,
                applied: applied), age: age)
    }

    @Test("OPS-7 a level node is 0 rows behind, however many rows come while one looks")
    func level() throws {
        let look = PlaceLook(before: 1000, after: 9000)
        for (applied, behind, ahead) in [
            (1000, 0, 0), (5000, 0, 0), (9000, 0, 0), (400, 600, 0), (9001, 0, 1),
        ] as [(UInt64, UInt64, UInt64)] {
            let report = try sighting(applied, age: .zero).report
            #expect(look.behind(report) == behind, "row \(applied)")
            #expect(look.ahead(report) == ahead, "row \(applied)")
        }
    }

    @Test("OPS-7 a look waits for a report after the log's row, but for no ended or silent node")
    func later() throws {
        // Age of the report, time since the log's row, whether a later report is to come.
        for (age, elapsed, awaits) in [
            (500, 0, true), (500, 500, true), (500, 799, true), (500, 800, false), (0, 100, true),
            (0, 300, false), (2900, 2950, true), (2900, 3000, false), (10_001, 0, false),
        ] as [(Int, Int, Bool)] {
            #expect(
                PlaceLook.awaits(
                    try sighting(1, age: .milliseconds(age)), after: .milliseconds(elapsed))
                    == awaits, "\(age) ms old after \(elapsed) ms")
        }
        #expect(try !PlaceLook.awaits(sighting(1, age: .zero, address: ""), after: .zero))
    }
}
