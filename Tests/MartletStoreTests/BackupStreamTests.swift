// SPDX-License-Identifier: Apache-2.0
//
// The stream of a backup, row by row (OPS-3). Neighbouring rows are written as changes, so the tests have rows of all
// lengths at which the form changes. Rests on RawStore and CheckTests.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

@Suite("Stream of a backup")
struct BackupStreamTests {
    /// Writes a backup of a store into a file.
    private func backUp(
        _ bench: StoredBench, to path: String, flags: Int32 = O_TRUNC, at place: off_t = 0
    ) throws -> BackupSummary {
        let file = open(path, O_WRONLY | O_CREAT | flags, 0o600)
        #expect(file >= 0)
        #expect(lseek(file, place, SEEK_SET) == place)
        defer { close(file) }
        return try bench.files.backUp(
            to: file, folder: bench.folder.data, created: 1_800_000_000_000, bytesPerSecond: 0
        ) { _ in }
    }

    private func restore(_ path: String, into folder: String) throws -> BackupSummary {
        let file = open(path, O_RDONLY)
        #expect(file >= 0)
        defer { close(file) }
        return try RestoredFolder(folder).restore(from: file) { _ in
        } accepts: { _ in
        }
    }

    /// Topics whose names share up to 440 bytes, and instances with none, one and many of them.
    private func fill(_ bench: StoredBench) throws {
        _ = try CheckTests.fill(bench)
        let project = try bench.project("long")
        let instances = try bench.register(40, in: "long")
        let name = String(repeating: "n", count: 250)
        for count in 0..<40 {
            try bench.change(
                .subscribe, name + String(repeating: "m", count: 4 * count), instances[count...],
                in: project)
        }
        for instance in instances {
            _ = try bench.accepted(.token(instance.token.text), in: project)
        }
    }

    @Test(
        "OPS-3 the reading ahead ends with the backup: at a byte a second it would take days",
        arguments: [1 << 20, nil])
    func readAhead(byteCount: Int?) throws {
        struct Refusal: Error, Equatable {}
        let bench = try StoredBench()
        let path = bench.folder.path + "/ahead"
        if let byteCount { try Data(count: byteCount).write(to: URL(filePath: path)) }
        #expect(try ReadAhead.during(path, bytesPerSecond: 1) { 7 } == 7)
        #expect(throws: Refusal()) {
            try ReadAhead.during(path, bytesPerSecond: 1) { throw Refusal() }
        }
    }

    @Test("OPS-3 each row of a store comes back from its backup, byte by byte")
    func rows() throws {
        let bench = try StoredBench()
        try fill(bench)
        let backup = bench.folder.path + "/backup"
        let written = try backUp(bench, to: backup)
        let restored = bench.folder.path + "/restored"
        #expect(try restore(backup, into: restored) == written)
        bench.files.close()
        var rows = try RawStore(folder: bench.folder.data).rows()
        var found = try RawStore(folder: restored).rows()
        // The numbers of messages go on far behind those of the backup.
        let (projects, foundProjects) = (rows["projects"], found["projects"])
        #expect(projects?.keys == foundProjects?.keys)
        rows["projects"] = nil
        found["projects"] = nil
        #expect(rows.keys == found.keys)
        for (table, expected) in rows { #expect(found[table] == expected, "\(table)") }
        #expect(
            written.rowCount
                == UInt64(rows.values.reduce(projects?.count ?? 0) { $0 + $1.count }))
        let plain = rows.values.joined().reduce(0) { $0 + $1.key.count + $1.value.count + 7 }
        #expect(written.byteCount < UInt64(plain), "neighbours are not written as changes")
    }

    @Test(
        "OPS-3 a backup has equal bytes at a file's beginning, behind blocks, behind bytes and appended"
    )
    func places() throws {
        let bench = try StoredBench()
        try fill(bench)
        let path = bench.folder.path + "/backup"
        _ = try backUp(bench, to: path)
        let expected = try Data(contentsOf: URL(filePath: path))
        for (bytesBefore, isAppended) in [
            (0, false), (8192, false), (13, false), (8192, true), (13, true),
        ] {
            let before = Data(repeating: 7, count: bytesBefore)
            try before.write(to: URL(filePath: path))
            _ = try backUp(
                bench, to: path, flags: isAppended ? O_APPEND : 0,
                at: isAppended ? 0 : off_t(bytesBefore))
            let found = try Data(contentsOf: URL(filePath: path))
            #expect(found == before + expected, "\(bytesBefore) bytes, \(isAppended)")
        }
    }

    @Test(
        "OPS-3 keys, users of the console and its log come back, files of a running broker do not")
    func files() throws {
        let bench = try StoredBench()
        _ = try bench.project("tides")
        let kept = [
            "admin.key": 64, "token.key": 64, "web-push.key": 64, "bridge.key": 64,
            "registration-tides.key": 40, "console.access": 20_000,
            "audit.log": Limits.auditFileBytesMax + 1500,
        ]
        let left = [
            "registration-gone.key": 40, "console.sessions": 500, "gateway.unanswered": 64,
            "serve.address": 20, "audit.log.lock": 0,
        ]
        func file(_ name: String, in folder: String) -> URL { URL(filePath: "\(folder)/\(name)") }
        var contents: [String: Data] = [:]
        for (name, byteCount) in kept.merging(left, uniquingKeysWith: { $1 }) {
            contents[name] = Data((0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31) })
            try contents[name]?.write(to: file(name, in: bench.folder.data))
        }
        let backup = bench.folder.path + "/backup"
        _ = try backUp(bench, to: backup)
        let restored = bench.folder.path + "/restored"
        _ = try restore(backup, into: restored)
        for name in kept.keys {
            #expect(try Data(contentsOf: file(name, in: restored)) == contents[name], "\(name)")
        }
        for name in left.keys {
            #expect(!FileManager.default.fileExists(atPath: "\(restored)/\(name)"), "\(name)")
        }
    }

    @Test("OPS-3 a backup with any changed byte is refused, and leaves no data folder")
    func changedBytes() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(12, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        let path = bench.folder.path + "/backup"
        _ = try backUp(bench, to: path)
        let bytes = try [UInt8](Data(contentsOf: URL(filePath: path)))
        let restored = bench.folder.path + "/restored"
        for at in stride(from: 0, to: bytes.count, by: 70 / rounds(10)) {
            var changed = bytes
            changed[at] ^= UInt8(1 << (at % 8))
            try Data(changed).write(to: URL(filePath: path))
            #expect(throws: (any Error).self, "byte \(at)") {
                _ = try restore(path, into: restored)
            }
            #expect(!FileManager.default.fileExists(atPath: restored), "byte \(at)")
        }
        for count in stride(from: 0, to: bytes.count, by: 970 / rounds(10)) {
            try Data(bytes[..<count]).write(to: URL(filePath: path))
            #expect(throws: (any Error).self) { _ = try restore(path, into: restored) }
        }
        try Data(bytes).write(to: URL(filePath: path))
        _ = try restore(path, into: restored)
    }
}
