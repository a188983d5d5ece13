// SPDX-License-Identifier: Apache-2.0
//
// What the README shows of the libraries compiles: each of its Swift blocks is the imports and the
// function of a file of this target, which is not run.

import Foundation
import Testing

@Suite("README")
struct ReadmeTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()

    private static func lines(of path: String) throws -> [Substring] {
        let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// Imports and the function's body, as a main file would have them.
    private static func program(in file: String) throws -> [String] {
        let lines = try lines(of: file)
        let start = try #require(lines.firstIndex { $0.hasPrefix("func ") })
        let end = try #require(lines[start...].firstIndex { $0 == "}" })
        let body = lines[(start + 1)..<end].map { line in
            String(line.hasPrefix("    ") ? line.dropFirst(4) : line)
        }
        return lines.filter { $0.hasPrefix("import ") }.map(String.init) + [""] + body
    }

    @Test("DOC the README's Swift blocks are these files, which compile, and there are no others")
    func compiles() throws {
        let blocks = try Self.lines(of: "../../README.md").split(separator: "```swift").dropFirst()
            .map { $0.prefix { $0 != "```" }.map(String.init) }
        #expect(
            blocks == [
                try Self.program(in: "ReadmeEmbedding.swift"),
                try Self.program(in: "ReadmeDevice.swift"),
            ])
    }
}
