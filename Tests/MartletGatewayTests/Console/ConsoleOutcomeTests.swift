// SPDX-License-Identifier: Apache-2.0
//
// The outcomes in the console's pages: `format.js` is the one list of them, by which the reports make their bars and columns.
// Rests on nothing.

import Foundation
import MartletAnswers
import MartletBase
import Testing

@Suite("Console: the parts of a report")
struct ConsoleOutcomeTests {
    private static let text: String? = try? String(
        contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/MartletConsole/Web/format.js"), encoding: .utf8)

    /// The strings of each entry of a list in `format.js`.
    private func entries(of list: String) throws -> [[String]] {
        let text = try #require(Self.text)
        let start = try #require(text.range(of: "export const \(list) = ["))
        let end = try #require(text[start.upperBound...].range(of: "\n];"))
        return text[start.upperBound..<end.lowerBound].matches(of: /\[("[^\]]*")\]/).map { entry in
            entry.1.matches(of: /"([^"]*)"/).map { String($0.1) }
        }
    }

    @Test(
        "REP-1 GW-9: each outcome of a report has one part in the console, so the parts add up to what is targeted"
    )
    func parts() throws {
        let outcomes = try entries(of: "OUTCOMES")
        #expect(outcomes.allSatisfy { $0.count == 3 })
        let encoded = try JSONEncoder().encode(CountsAnswer(DeliveryCounts()))
        let counts = try #require(
            try JSONSerialization.jsonObject(with: encoded) as? [String: Any])
        // `discarded` is the sum of two outcomes; the others are no outcomes.
        let others: Set = ["targeted", "sent", "displayed", "opened", "discarded"]
        #expect(outcomes.map(\.[0]).sorted() == Set(counts.keys).subtracting(others).sorted())
        let parts = try entries(of: "PARTS").map(\.[0])
        #expect(Set(parts).count == parts.count)
        #expect(Set(outcomes.map(\.[2])) == Set(parts))
        #expect(outcomes.filter { $0[2] == "nowOrNever" }.map(\.[0]) == ["nowOrNever"])
    }
}
