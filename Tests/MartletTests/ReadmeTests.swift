// SPDX-License-Identifier: Apache-2.0
//
// The README is short, its links lead to files, and what it shows of the libraries compiles: each of its Swift blocks is the
// imports and the function of a file of this target, which is not run.

import Foundation
import Testing

@Suite("README")
struct ReadmeTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()

    private static func lines(of path: String) throws -> [Substring] {
        let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// The body of a file's function, or of its first one.
    private static func body(of function: String = "", in file: String) throws -> [String] {
        let lines = try lines(of: file)
        let start = try #require(lines.firstIndex { $0.hasPrefix("func " + function) })
        let head = try #require(lines[start...].firstIndex { $0.hasSuffix("{") })
        let end = try #require(lines[head...].firstIndex { $0 == "}" })
        return lines[(head + 1)..<end].map { line in
            String(line.hasPrefix("    ") ? line.dropFirst(4) : line)
        }
    }

    /// Imports and the function's body, as a main file would have them.
    private static func program(in file: String) throws -> [String] {
        let imports = try lines(of: file).filter { $0.hasPrefix("import ") }.map(String.init)
        return imports + [""] + (try body(in: file))
    }

    private static func blocks(of path: String) throws -> [[String]] {
        try lines(of: path).split(separator: "```swift").dropFirst()
            .map { $0.prefix { $0 != "```" }.map(String.init) }
    }

    @Test("DOC the README's Swift blocks are these files, which compile, and there are no others")
    func compiles() throws {
        #expect(
            try Self.blocks(of: "../../README.md") == [
                try Self.program(in: "ReadmeEmbedding.swift"),
                try Self.program(in: "ReadmeDevice.swift"),
            ])
    }

    @Test("DOC the README has at most 150 lines and 10 KB, and its picture stands before line 25")
    func isShort() throws {
        let lines = try Self.lines(of: "../../README.md")
        #expect(lines.count <= 151, "The last line ends with a line feed.")
        #expect(lines.map { $0.utf8.count + 1 }.reduce(0, +) <= 10_240)
        #expect(lines.prefix(24).contains { $0.hasPrefix("![") })
    }

    @Test("DOC the README's links lead to files of the repository")
    func links() throws {
        let text = try Self.lines(of: "../../README.md").joined(separator: "\n")
        let targets = text.matches(of: #/\]\(([^)\s]+)\)/#).map { String($0.output.1) }
        #expect(targets.count > 15)
        for target in targets {
            let path = Self.folder.appending(path: "../../" + target).standardizedFileURL.path
            #expect(FileManager.default.fileExists(atPath: path), "\(target)")
        }
    }

    @Test("DOC an article's Swift block is a function of this target, which compiles")
    func articlesCompile() throws {
        let folder = "../../Sources/Martlet/Martlet.docc/"
        // The Gateway article's block is a server that its own tests run.
        let functions = [
            "Devices.md": "devicesArticle", "Martlet.md": "martletArticle",
            "Reports.md": "reportsArticle", "Upstream.md": "upstreamArticle",
        ]
        let names = try FileManager.default.contentsOfDirectory(
            atPath: Self.folder.appending(path: folder).path())
        for name in names where name.hasSuffix(".md") && name != "Gateway.md" {
            let blocks = try Self.blocks(of: folder + name)
                .map { $0.filter { !$0.hasPrefix("import ") }.drop { $0.isEmpty } }
            let expected = try functions[name].map {
                try Self.body(of: $0, in: "ArticleBlocks.swift")
            }
            #expect(blocks.map(Array.init) == (expected.map { [$0] } ?? []), "\(name)")
        }
    }
}
