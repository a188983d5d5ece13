// SPDX-License-Identifier: Apache-2.0
//
// Each limit says what it counts and why it has its value, where an editor shows it. Rests on the files of the repository,
// which are read as text.

import Foundation
import Testing

@Suite("Tidiness: limits")
struct LimitTests {
    /// The files of limits: enumerations of constants.
    private static func files() throws -> [String] {
        try TidyTests.files(below: "Sources", ending: "Limits.swift").filter {
            try TidyTests.text($0).contains(/enum \w*Limits \{/)
        }
    }

    /// A constant with the text of its own doc comment.
    private struct Limit {
        let name: String
        /// What follows the name in the declaration.
        let value: String
        let comment: String

        /// The words of the name, in small letters.
        var words: [String] {
            name.matches(of: /[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+/).map { $0.0.lowercased() }
        }

        /// Each of these stands in a name, or in its type, and asks for one of its words in the comment.
        private static let units: [(sign: String, words: [String])] = [
            ("megabytes", ["MiB"]), ("bytes", ["byte", "KiB", "MiB"]),
            ("nanoseconds", ["nanosecond"]),
            ("milliseconds", ["millisecond"]), ("seconds", ["second"]), ("days", ["days"]),
            ("mille", ["per mille"]), ("minute", ["minute"]), ("hour", ["hour"]),
            ("port", ["port"]),
        ]

        /// Whether the comment names the unit: that of the name, a unit of time for a duration, and otherwise what is
        /// counted, which is a word of the name.
        var hasUnit: Bool {
            let text = comment.lowercased()
            if value.contains("Duration") { return text.contains(/second|minute|hour/) }
            if let unit = Self.units.first(where: { words.contains($0.sign) }) {
                return unit.words.contains { text.contains($0.lowercased()) }
            }
            return words.contains { $0.count > 2 && text.contains($0.prefix(max(3, $0.count - 2))) }
        }

        /// Whether something follows the sentence that says what the limit is.
        var hasReason: Bool {
            comment.matches(of: /[.:](?=\s+["A-Z0-9])|\.$/).count >= 2
        }
    }

    private static func limits(of source: String) -> [Limit] {
        var found: [Limit] = []
        var comment: [Substring] = []
        for line in source.split(separator: "\n", omittingEmptySubsequences: false) {
            if let text = line.firstMatch(of: /^ *\/\/\/ ?(.*)$/)?.1 {
                comment.append(text)
                continue
            }
            if let limit = line.firstMatch(of: /\bstatic let (\w+)(.*)$/), !line.contains("private")
            {
                found.append(
                    .init(
                        name: String(limit.1), value: String(limit.2),
                        comment: comment.joined(separator: " ")))
            }
            comment = []
        }
        return found
    }

    /// What is missing, with the names of the limits.
    private static func faults(of source: String) -> [String] {
        limits(of: source).compactMap { limit in
            guard !limit.comment.isEmpty else { return "\(limit.name) has no comment" }
            guard limit.hasUnit else { return "\(limit.name) names no unit" }
            return limit.hasReason ? nil : "\(limit.name) gives no reason"
        }
    }

    @Test("Each limit has a comment of its own that names the unit and the reason for the value")
    func unitsAndReasons() throws {
        let files = try Self.files()
        #expect(files.count >= 6)
        var count = 0
        for file in files {
            let source = try TidyTests.text(file)
            count += Self.limits(of: source).count
            #expect(Self.faults(of: source) == [], "\(file)")
        }
        #expect(count > 200)
    }

    @Test("A limit without a comment, without a unit or without a reason is found")
    func canary() {
        let source = """
            enum SomeLimits {
                /// Longest name, in bytes (TOP-2). Longer ones do not fit into a key of LMDB.
                static let nameBytesMax = 500
                static let bareMax = 1
                /// How long a name may be. Names of users are shorter.
                static let userBytesMax = 100
                /// Time between two looks, in seconds (NET-2).
                static let lookSeconds = 2
                /// Pause between two looks: a second. A shorter one finds no more.
                static let pause = Duration.seconds(1)
                /// So many wait at most. Others are refused.
                static let messagesMax = 10
            }
            """
        #expect(
            Self.faults(of: source) == [
                "bareMax has no comment", "userBytesMax names no unit",
                "lookSeconds gives no reason",
                "messagesMax names no unit",
            ])
    }
}
