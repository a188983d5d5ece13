// SPDX-License-Identifier: Apache-2.0
//
// The language of comments. A doc comment is read alone, in an editor's window. Rests on the files of the repository, which
// are read as text.

import Foundation
import Testing

@Suite("Tidiness: language")
struct LanguageTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The files below a folder that end so.
    private static func files(below folder: String, ending: String) throws -> [URL] {
        let start = root.appending(path: folder)
        return try FileManager.default.subpathsOfDirectory(atPath: start.path())
            .filter { $0.hasSuffix(ending) }.sorted().map { start.appending(path: $0) }
    }

    @Test("A doc comment stands alone: it does not begin with its neighbour's words")
    func beginnings() throws {
        for file in try Self.files(below: "Sources", ending: ".swift") {
            let source = try String(contentsOf: file, encoding: .utf8)
            for match in source.matches(of: /(?m)(?:^|\n)(?! *\/\/\/).*\n *\/\/\/ (.*)$/) {
                let isFollowing = ["The same", "And ", "and ", "As above", "Those ", "Its "]
                    .contains(where: match.1.hasPrefix)
                #expect(
                    !isFollowing, "\(file.lastPathComponent): a doc comment begins \"\(match.1)\"")
            }
        }
    }
}
