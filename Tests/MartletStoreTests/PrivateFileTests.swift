// SPDX-License-Identifier: Apache-2.0
//
// Files written whole: what a path has before, after and instead of a replacement.

import Foundation
import Glibc
import MartletFiles
import Testing

@Suite("Files written whole")
struct PrivateFileTests {
    private let folder: String

    init() throws {
        folder =
            FileManager.default.temporaryDirectory
            .appending(path: "martlet-files-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
    }

    private func content(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }

    private func mode(_ path: String) -> Int? {
        (try? FileManager.default.attributesOfItem(atPath: path))?[.posixPermissions] as? Int
    }

    @Test("OPS-5 a replaced file has the new content, and its owner alone can read it")
    func replaced() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let path = folder + "/key"
        #expect(FileManager.default.createFile(atPath: path, contents: Data("old".utf8)))
        chmod(path, 0o644)
        try PrivateFile.replace(path, with: Array("new".utf8))
        #expect(content(path) == "new")
        #expect(mode(path) == 0o600)
        #expect(mode(path + ".new") == nil)
    }

    @Test("OPS-5 what a crash or a stranger left beside the file is not written to")
    func leftovers() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (path, other) = (folder + "/key", folder + "/other")
        #expect(FileManager.default.createFile(atPath: other, contents: Data("other".utf8)))
        try FileManager.default.createSymbolicLink(
            atPath: path + ".new", withDestinationPath: other)
        try PrivateFile.replace(path, with: Array("new".utf8))
        #expect(content(path) == "new")
        #expect(content(other) == "other")
    }

    @Test("OPS-5 after a failure the file has the old content, and nothing is left beside it")
    func failed() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let path = folder + "/key"
        try PrivateFile.replace(path, with: Array("old".utf8))
        let failure = #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.replace(path, with: Array("new".utf8)) {
                (_) throws(PrivateFile.Failure) in throw PrivateFile.Failure(code: EDQUOT)
            }
        }
        #expect(failure?.code == EDQUOT)
        #expect(content(path) == "old")
        #expect(mode(path + ".new") == nil)
    }

    @Test("OPS-5 a file that is locked before it has its name is never found without the lock")
    func locked() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let path = folder + "/address"
        let file = try PrivateFile.replace(path, with: Array("here".utf8)) {
            (file) throws(PrivateFile.Failure) in
            #expect(access(path, F_OK) != 0)
            try PrivateFile.lock(file)
        }
        let reader = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(reader) }
        #expect(flock(reader, LOCK_SH | LOCK_NB) != 0)
        close(file.leaveOpen())
        #expect(flock(reader, LOCK_SH | LOCK_NB) == 0)
    }
}
