// SPDX-License-Identifier: Apache-2.0
//
// The language of comments and articles. Readers come from any country: a sentence has a noun as its subject, and a
// doc comment is read alone. Pronouns and relatives can be counted, and a text that has many is hard to read. The
// comments of swift-nio, swift-collections and swift-argument-parser have 4.5 to 5.1 %. Rests on the files of the
// repository, which are read as text.

import Foundation
import Testing

@Suite("Tidiness: language")
struct LanguageTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private static let pronouns: Set<Substring> = [
        "it", "its", "itself", "they", "them", "their", "theirs", "this", "these", "that", "those",
        "what", "whatever", "who", "whoever", "whom", "whose", "which", "one", "ones", "none",
        "nobody", "anybody", "somebody", "everybody", "nothing", "anything", "something",
        "everything", "such", "same", "others",
    ]

    /// A share of pronouns among the words of a folder's comments, or of an article.
    private static let shareMax = 0.06

    /// The files below a folder that end so.
    private static func files(below folder: String, ending: String) throws -> [URL] {
        let start = root.appending(path: folder)
        return try FileManager.default.subpathsOfDirectory(atPath: start.path())
            .filter { $0.hasSuffix(ending) }.sorted().map { start.appending(path: $0) }
    }

    private static func comments(of file: URL) throws -> [Substring] {
        try String(contentsOf: file, encoding: .utf8).matches(of: /(?m)(?:^|\s)\/\/+ (.*)$/)
            .map(\.1)
    }

    private static func prose(of article: URL) throws -> [Substring] {
        [
            try String(contentsOf: article, encoding: .utf8)
                .replacing(/(?ms)^```.*?^```$/, with: "")[...]
        ]
    }

    private static func share(_ texts: [Substring]) -> Double {
        var (words, found) = (0, 0)
        for text in texts {
            for match in text.replacing(/`[^`]*`/, with: " ").matches(of: /[A-Za-z]+/) {
                words += 1
                if pronouns.contains(match.0.lowercased()[...]) { found += 1 }
            }
        }
        return Double(found) / Double(max(words, 1))
    }

    @Test("Comments name their subjects: pronouns are few among their words")
    func comments() throws {
        let folders = try FileManager.default.contentsOfDirectory(
            atPath: Self.root.appending(path: "Sources").path())
        #expect(folders.count > 10)
        for folder in folders {
            let texts = try Self.files(below: "Sources/" + folder, ending: ".swift")
                .flatMap { try Self.comments(of: $0) }
            let share = Self.share(texts)
            #expect(share <= Self.shareMax, "Sources/\(folder): \(share) of the words are pronouns")
        }
    }

    @Test("Articles name their subjects: pronouns are few among their words")
    func articles() throws {
        let articles = try Self.files(below: "Sources/Martlet/Martlet.docc", ending: ".md")
        #expect(articles.count > 10)
        for article in articles + [Self.root.appending(path: "README.md")] {
            let share = Self.share(try Self.prose(of: article))
            #expect(
                share <= Self.shareMax,
                "\(article.lastPathComponent): \(share) of the words are pronouns")
        }
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
