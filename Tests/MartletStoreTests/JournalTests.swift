// SPDX-License-Identifier: Apache-2.0
//
// The journal (OPS-4): whatever of the data file a crash of the machine leaves behind the last checkpoint, every
// transaction that was committed is there afterwards, and nothing else is. A crash is played by files that are
// mixed from two moments, page by page. Rests on StoredBench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

@Suite("Journal")
struct JournalTests {
    private static let pageBytes = 4096
    private static let names = ["data.mdb", "journal.0", "journal.1"]

    /// The files of a store at one moment.
    private struct Files {
        var files: [String: Data] = [:]

        init(of folder: String) throws {
            // A checkpoint may write its base meanwhile.
            var before: [String: Data]?
            while before != files {
                before = files
                for name in JournalTests.names {
                    files[name] = try Data(contentsOf: URL(filePath: folder + "/" + name))
                }
            }
        }

        func write(to folder: String) throws {
            try? FileManager.default.removeItem(atPath: folder)
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true)
            for (name, data) in files { try data.write(to: URL(filePath: folder + "/" + name)) }
        }
    }

    /// What a crash may leave: each page of the data file as it was, as it is, or, if it is new, as zeros.
    private static func mixed(
        _ before: Data, _ after: Data, _ random: inout SeededGenerator
    ) -> Data {
        var mixed = after
        let fate = random.number(0...3)
        for start in stride(from: 0, to: after.count, by: pageBytes) {
            let end = min(start + pageBytes, after.count)
            let isOld =
                fate == 0 || fate == 1 && random.chance(50) || fate == 2 && random.chance(90)
            guard isOld else { continue }
            if end <= before.count {
                mixed.replaceSubrange(start..<end, with: before[start..<end])
            } else {
                mixed.resetBytes(in: start..<end)
            }
        }
        return mixed
    }

    /// Everything that the files held when no transaction was open.
    private static func rows(_ files: Files) throws -> [String: [[UInt8]: [UInt8]]] {
        let folder = TemporaryFolder()
        try files.write(to: folder.data)
        return try RawStore(folder: folder.data).rows()
    }

    private static func bench(checkpointCommitsMax: Int = 1_000_000) throws -> StoredBench {
        let bench = try StoredBench(checkpointCommitsMax: checkpointCommitsMax)
        try bench.project("tides")
        return bench
    }

    /// Ends the process that has the store, and begins another one with what a crash has left.
    /// - Returns: what is in the store then.
    private static func crash(
        _ bench: StoredBench, leaving files: Files, mapBytes: Int = 1 << 24
    ) throws -> [String: [[UInt8]: [UInt8]]] {
        try bench.reopen(mapBytes: mapBytes) { folder in try files.write(to: folder) }
        try bench.expectClean()
        return try rows(Files(of: bench.folder.data))
    }

    @Test(
        "OPS-4: no mixture of pages that a crash leaves loses a transaction",
        arguments: 0..<rounds(40) as Range<UInt64>)
    func crash(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = try Self.bench()
        for _ in 0..<random.number(1...6) {
            for _ in 0..<random.number(0...30) { try bench.applyRandom(&random) }
            try bench.files.checkpoint()
            let before = try Files(of: bench.folder.data)
            for _ in 0..<random.number(0...30) { try bench.applyRandom(&random) }
            let after = try Files(of: bench.folder.data)
            var left = after
            left.files["data.mdb"] = Self.mixed(
                before.files["data.mdb"]!, after.files["data.mdb"]!, &random)
            #expect(try Self.crash(bench, leaving: left) == Self.rows(after))
        }
    }

    @Test(
        "OPS-4: a crash while a checkpoint is brought to disk loses nothing",
        arguments: 0..<rounds(20) as Range<UInt64>)
    func crashInCheckpoint(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let disk = SlowDisk()
        let bench = try StoredBench(
            checkpointCommitsMax: random.number(3...20),
            faults: StoreFaults(
                beforeRead: { nil }, beforeCommit: { nil }, beforeBase: { disk.wait() }))
        try bench.project("tides")
        try bench.files.checkpoint()
        for _ in 0..<random.number(0...20) { try bench.applyRandom(&random) }
        try bench.files.checkpoint()
        let before = try Files(of: bench.folder.data)
        disk.stop()
        for _ in 0..<random.number(1...60) { try bench.applyRandom(&random) }
        // Of what came behind the checkpoint any part has come to disk, and of the next base nothing.
        var left = try Files(of: bench.folder.data)
        let rows = try Self.rows(left)
        left.files["data.mdb"] = Self.mixed(
            before.files["data.mdb"]!, left.files["data.mdb"]!, &random)
        let isBroken = random.chance(50)
        disk.goOn(
            isBroken
                ? StorageError(operation: "checkpoint", code: EIO, text: "no", isFull: false) : nil)
        if isBroken {
            #expect(throws: StorageError.self) { try bench.files.checkpoint() }
            // What was committed is there, also for the next process.
            #expect(try Self.rows(Files(of: bench.folder.data)) == rows)
            // OPS-12: a later transaction is refused as a whole, or taken after a recovery.
            let isTaken = (try? bench.project("another")) != nil
            #expect((try Self.rows(Files(of: bench.folder.data)) == rows) == !isTaken)
        }
        disk.goOn(nil)
        #expect(try Self.crash(bench, leaving: left) == rows)
    }

    @Test(
        "OPS-4: a record that was written in part is no transaction; those before it are",
        arguments: 0..<rounds(20) as Range<UInt64>)
    func torn(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = try Self.bench()
        for _ in 0..<random.number(1...20) { try bench.applyRandom(&random) }
        let before = try Files(of: bench.folder.data)
        _ = try bench.accepted(.topic("nobody"), in: ProjectNumber(0))
        var left = try Files(of: bench.folder.data)
        // LMDB writes its pages behind the record.
        left.files["data.mdb"] = before.files["data.mdb"]
        let name = Self.names.dropFirst().first { before.files[$0] != left.files[$0] }!
        let changed = zip(before.files[name]!, left.files[name]!).enumerated()
            .first { $1.0 != $1.1 }!.offset
        let record = changed / Self.pageBytes * Self.pageBytes
        let byteCount = left.files[name]![(record + 24)..<(record + 32)].reversed()
            .reduce(0) { $0 << 8 | Int($1) }
        left.files[name]![record + random.number(0...(byteCount + 31))] ^=
            UInt8(1 << random.number(0...7))
        #expect(try Self.crash(bench, leaving: left) == Self.rows(before))
    }

    @Test(
        "OPS-4: a damaged record before a whole one is refused, not taken for the end",
        arguments: 0..<rounds(20) as Range<UInt64>)
    func rotten(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = try Self.bench()
        try bench.files.checkpoint()
        let before = try Files(of: bench.folder.data)
        for _ in 0..<random.number(2...40) { try bench.applyRandom(&random) }
        _ = try bench.accepted(.topic("nobody"), in: ProjectNumber(0))
        _ = try bench.accepted(.topic("nobody"), in: ProjectNumber(0))
        var left = try Files(of: bench.folder.data)
        let name = Self.names.dropFirst().first { before.files[$0] != left.files[$0] }!
        var records: [Range<Int>] = []
        var record = Self.pageBytes
        while left.files[name]![record] != 0 {
            let byteCount = left.files[name]![(record + 24)..<(record + 32)].reversed()
                .reduce(0) { $0 << 8 | Int($1) }
            records.append(record..<(record + 32 + byteCount))
            record += (32 + byteCount + Self.pageBytes - 1) / Self.pageBytes * Self.pageBytes
        }
        let rotten = records.dropLast().randomElement(using: &random)!
        left.files[name]![rotten.randomElement(using: &random)!] ^= UInt8(1 << random.number(0...7))
        let folder = TemporaryFolder()
        try left.write(to: folder.data)
        #expect(throws: StoreOpenError.self) {
            try Store(StoreConfiguration(folder: folder.data, mapBytes: 1 << 24))
        }
        #expect(try Files(of: folder.data).files == left.files)
    }

    @Test("OPS-4: checkpoints beside transactions, in files that begin anew again and again")
    func many() throws {
        var random = SeededGenerator(seed: 4711)
        let bench = try Self.bench(checkpointCommitsMax: 7)
        for _ in 0..<max(3, rounds(12)) {
            for _ in 0..<40 { try bench.applyRandom(&random) }
            let files = try Files(of: bench.folder.data)
            #expect(try Self.crash(bench, leaving: files) == Self.rows(files))
        }
    }

    @Test("OPS-4: a map that is full grows, and nothing from before or after is lost in a crash")
    func growing() throws {
        var random = SeededGenerator(seed: 1)
        let bench = try StoredBench(mapBytes: 1 << 19, checkpointCommitsMax: 1_000_000)
        try bench.project("tides")
        let mapBytes = bench.files.size.map
        while bench.files.size.map < 4 * mapBytes { try bench.applyRandom(&random) }
        let files = try Files(of: bench.folder.data)
        #expect(try Self.crash(bench, leaving: files) == Self.rows(files))
    }

    @Test(
        "OPS-4: a map that is too small for the records behind a checkpoint grows while they are applied"
    )
    func growingInRecovery() throws {
        let bench = try Self.bench()
        let mapBytes = 1 << 19
        for _ in 0..<10 { _ = try bench.register(1000, in: "tides") }
        let files = try Files(of: bench.folder.data)
        #expect(try Self.crash(bench, leaving: files, mapBytes: mapBytes) == Self.rows(files))
        #expect(bench.files.size.map > mapBytes)
    }

    @Test("A store without a journal goes on where one with a journal was, and the other way round")
    func withAndWithout() throws {
        let folder = TemporaryFolder()
        for (run, durability) in [StoreConfiguration.Durability.fsync, .os, .fsync].enumerated() {
            let store = try Store(
                StoreConfiguration(folder: folder.data, mapBytes: 1 << 22, durability: durability))
            var engine = Engine(limits: .none)
            for number in 0..<5 {
                try store.write { (transaction) throws(StorageError) in
                    _ = try engine.apply(
                        .createProject(
                            id: "tides-\(run)-\(number)", senderID: 4711, conditionTopicsMax: 0),
                        now: Instant(millisecondsSince1970: 0), in: transaction)
                }
            }
            let count = try store.read { try $0.projects.projects(after: "", limit: 100).count }
            #expect(count == 5 * (run + 1))
            store.close()
            let hasJournal = FileManager.default.fileExists(atPath: folder.data + "/journal.0")
            #expect(hasJournal == (durability == .fsync))
        }
    }

    @Test("OPS-16: a data file beside a journal that is not its own, or not whole, is refused")
    func foreign() throws {
        var random = SeededGenerator(seed: 3)
        let bench = try Self.bench()
        let early = try Files(of: bench.folder.data)
        for _ in 0..<10 { try bench.applyRandom(&random) }
        try bench.files.checkpoint()
        var files = try Files(of: bench.folder.data)
        files.files["data.mdb"] = early.files["data.mdb"]
        let folder = TemporaryFolder()
        func expectRefused() {
            #expect(throws: StoreOpenError.self) {
                try Store(StoreConfiguration(folder: folder.data, mapBytes: 1 << 24))
            }
        }
        try files.write(to: folder.data)
        expectRefused()
        // A newer one, that does not follow from its base.
        files = early
        for _ in 0..<200 { try bench.applyRandom(&random) }
        files.files["data.mdb"] = try Files(of: bench.folder.data).files["data.mdb"]
        try files.write(to: folder.data)
        expectRefused()
        #expect(try Files(of: folder.data).files["data.mdb"] == files.files["data.mdb"])
        for name in Self.names.dropFirst() {
            try Files(of: bench.folder.data).write(to: folder.data)
            try FileManager.default.removeItem(atPath: folder.data + "/" + name)
            expectRefused()
            // One that is empty is no journal that was just being made: the data file has seen one.
            try early.write(to: folder.data)
            for name in Self.names.dropFirst() {
                try Data().write(to: URL(filePath: folder.data + "/" + name))
            }
            try FileManager.default.removeItem(atPath: folder.data + "/" + name)
            expectRefused()
        }
    }
}

/// Holds up whoever waits for it.
private final class SlowDisk: @unchecked Sendable {
    private let changed = NSCondition()
    private var isStopped = false
    private var fault: StorageError?

    func wait() -> StorageError? {
        changed.withLock {
            while isStopped { changed.wait() }
            return fault
        }
    }

    func stop() { changed.withLock { isStopped = true } }

    func goOn(_ fault: StorageError?) {
        changed.withLock {
            (isStopped, self.fault) = (false, fault)
            changed.broadcast()
        }
    }
}
