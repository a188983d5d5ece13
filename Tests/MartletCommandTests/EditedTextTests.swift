// SPDX-License-Identifier: Apache-2.0
//
// Texts as editors of any machine write them (OPS-2): line ends, byte-order marks, UTF-16. Rests on EditedText.

import Foundation
import MartletFiles
import Testing

@Suite("Edited texts")
struct EditedTextTests {
    /// A text of three lines, as an editor writes it.
    struct Form: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]

        /// - Parameter text: with LF at the end of each line.
        static func all(_ text: String) -> [Form] {
            [("LF", "\n"), ("CR LF", "\r\n"), ("CR", "\r")].flatMap { name, end in
                let text = text.replacing("\n", with: end)
                return [
                    Form(testDescription: name, bytes: Array(text.utf8)),
                    Form(
                        testDescription: "\(name) behind a byte-order mark",
                        bytes: [0xEF, 0xBB, 0xBF] + Array(text.utf8)),
                    Form(
                        testDescription: "\(name) in UTF-16, little-endian",
                        bytes: [0xFF, 0xFE]
                            + text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }),
                    Form(
                        testDescription: "\(name) in UTF-16, big-endian",
                        bytes: [0xFE, 0xFF]
                            + text.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }),
                ]
            }
        }
    }

    private static let text = "# Grüße 🌊\n\ndata = ./tides\n"

    @Test("OPS-2 a text has the same lines in every form", arguments: Form.all(text))
    func forms(form: Form) {
        let text = EditedText(form.bytes)
        #expect(text.text == Self.text)
        #expect(
            text.lines.map { String(decoding: $0, as: UTF8.self) }
                == ["# Grüße 🌊", "", "data = ./tides", ""])
    }

    @Test(
        "OPS-2 line ends may be mixed, and a mark counts at the start alone",
        arguments: [
            ("", [""]), ("\r\n", ["", ""]), ("a\r\r\nb\n\rc", ["a", "", "b", "", "c"]),
            ("a\u{FEFF}\nb", ["a\u{FEFF}", "b"]), ("\u{FEFF}\u{FEFF}a", ["\u{FEFF}a"]),
            ("a\u{2028}b\u{B}c", ["a\u{2028}b\u{B}c"]),
        ])
    func lines(text: String, lines: [String]) {
        #expect(
            EditedText(Array(text.utf8)).lines.map { Array($0) } == lines.map { Array($0.utf8) })
    }

    @Test(
        "Bytes that are no text stay as they are",
        arguments: [[0xFF], [0xFF, 0xFE, 0x41], [0, 0xC3]])
    func bytes(_ bytes: [UInt8]) {
        #expect(EditedText(bytes).bytes == bytes)
        #expect(EditedText(bytes).text == nil)
    }

    @Test("A file that is missing, a folder and a file that is too long have the system's reasons")
    func failures() throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "martlet-text-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "text").path
        func code(_ path: String) -> Int32? {
            do throws(PrivateFile.Failure) {
                _ = try EditedText(contentsOf: path, bytesMax: 3)
                return nil
            } catch { return error.code }
        }
        #expect(code(path) == ENOENT)
        #expect(code(folder.path) == EISDIR)
        try Data("abc".utf8).write(to: URL(filePath: path))
        #expect(code(path) == nil)
        try Data("abcd".utf8).write(to: URL(filePath: path))
        #expect(code(path) == EFBIG)
    }
}
