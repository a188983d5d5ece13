// SPDX-License-Identifier: Apache-2.0
//
// The Specification article and everything that refers to its rows. An ID that means nothing, and a row that nobody
// proves, are found here. Rests on the files of the repository, which are read as text.

import Foundation
import Testing

@Suite("Tidiness: the specification")
struct SpecificationTests {
    /// A row of the article. Its ID is a heading of its own, and its text begins below.
    private struct Row {
        let id: String
        /// The text begins with *Planned.* or *Addition, planned.*
        let isPlanned: Bool
    }

    private static func rows() throws -> [Row] {
        let article = try TidyTests.text("Sources/Martlet/Martlet.docc/Specification.md")
        let rows = article.matches(
            of: /(?m)^### ([A-Z]+-\d+)\n\n(\*(?:Addition, p|P)lanned\.\* )?[A-Z*`]/)
        return rows.map { Row(id: String($0.1), isPlanned: $0.2 != nil) }
    }

    /// An ID, and the file and line where it stands.
    private struct Citation {
        let id: String
        let place: String
    }

    /// What names of other people's that look like an ID begin with.
    private static let foreign: Set = ["SHA", "UTF"]

    /// The IDs in a file: two or three capital letters, a hyphen, and a number of one or two digits. Bytes are scanned
    /// around each hyphen, because a regular expression over the whole repository takes a minute.
    private static func citations(in path: String) -> [Citation] {
        let file = FileManager.default.contents(atPath: TidyTests.root.appending(path: path).path())
        let bytes = Array(file ?? Data())
        // Pictures and other files that are no text.
        guard !bytes.contains(0) else { return [] }
        var found: [Citation] = []
        var line = 1
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "\n") { line += 1 }
            guard byte == UInt8(ascii: "-") else { continue }
            var (start, end) = (index, index + 1)
            while start > 0, isWord(bytes[start - 1]) { start -= 1 }
            while end < bytes.count, isWord(bytes[end]) { end += 1 }
            let (letters, digits) = (bytes[start..<index], bytes[(index + 1)..<end])
            guard 2...3 ~= letters.count, letters.allSatisfy(isCapital), 1...2 ~= digits.count,
                digits.allSatisfy(isDigit)
            else { continue }
            guard !foreign.contains(String(decoding: letters, as: UTF8.self)) else { continue }
            let id = String(decoding: bytes[start..<end], as: UTF8.self)
            found.append(.init(id: id, place: "\(path):\(line)"))
        }
        return found
    }

    private static func isCapital(_ byte: UInt8) -> Bool {
        UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
    }

    /// Whether a byte continues a name. Names of other people's may have a second hyphen (`X-AB-1`).
    private static func isWord(_ byte: UInt8) -> Bool {
        isCapital(byte & ~0x20) || isDigit(byte) || byte == UInt8(ascii: "_")
            || byte == UInt8(ascii: "-")
    }

    /// The citations in the files below a folder. Hidden folders have other people's libraries.
    private static func citations(below folder: String) throws -> [Citation] {
        try TidyTests.files(below: folder, ending: "").filter { !$0.contains("/.") }
            .flatMap { citations(in: $0) }
    }

    @Test("The article has rows, and each ID once")
    func unique() throws {
        let rows = try Self.rows()
        #expect(rows.count > 140)
        #expect(Set(rows.map(\.id)).count == rows.count)
        let article = try TidyTests.text("Sources/Martlet/Martlet.docc/Specification.md")
        #expect(article.matches(of: /(?m)^###/).count == rows.count, "a row has another form")
    }

    @Test("Each ID that is named anywhere is a row of the article")
    func cited() throws {
        let known = Set(try Self.rows().map(\.id))
        var citations = try ["Sources", "Tests", "CModules", "Benchmarks", "Examples", "Packaging"]
            .flatMap { try Self.citations(below: $0) }
        for file in try FileManager.default.contentsOfDirectory(atPath: TidyTests.root.path())
        where file.hasSuffix(".md") || file == "Makefile" || file == "Package.swift" {
            citations += Self.citations(in: file)
        }
        #expect(citations.count > 1000)
        for citation in citations where !known.contains(citation.id) {
            Issue.record("\(citation.place) names \(citation.id), which is no row of the article")
        }
    }

    @Test("Each row of the article is named by a test, and a planned one by none")
    func proved() throws {
        let named = Set(
            try Self.citations(below: "Tests").filter {
                !$0.place.hasPrefix("Tests/TidyTests/SpecificationTests.swift")
            }.map(\.id))
        for row in try Self.rows() {
            if row.isPlanned {
                #expect(!named.contains(row.id), "\(row.id) is still marked as planned")
            } else {
                #expect(named.contains(row.id), "no test names \(row.id)")
            }
        }
    }
}
