// SPDX-License-Identifier: Apache-2.0
//
// A folder whose files are not of one time is refused, and so is a journal without its end (OPS-4): what is missing is
// never served as if nothing was. Rests on StoredBench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("A folder that is not what it was")
struct WholeFolderTests {
    private static let journals = ["journal.0", "journal.1"]
    private static let blockBytes = 4096

    /// The offsets of the records in a file of the journal, in the order of their numbers.
    private static func records(_ file: Data) -> [(number: UInt64, offset: Int)] {
        stride(from: blockBytes, to: file.count, by: blockBytes).compactMap { offset in
            let header = Array(file[offset..<(offset + 24)])
            guard Array(header[..<8]) == Array("MARLTRN1".utf8) else { return nil }
            return (
                header[16..<24].reversed().reduce(0) { $0 << 8 | UInt64($1) }, offset
            )
        }.sorted { $0.number < $1.number }
    }

    private static func copy(_ names: [String], from source: String, to target: String) throws {
        try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: true)
        for name in names {
            let file = try Data(contentsOf: URL(filePath: source + "/" + name))
            try file.write(to: URL(filePath: target + "/" + name))
        }
    }

    /// - Parameter told: is called with whether nothing is lost, if the folder is recovered.
    private static func open(
        _ folder: String, told: @escaping @Sendable (Bool) -> Void = { _ in }
    ) throws -> Store {
        var configuration = StoreConfiguration(folder: folder, mapBytes: 1 << 24)
        configuration.recovered = { _, isComplete in told(isComplete) }
        return try Store(configuration)
    }

    /// A folder as kill -9 leaves it: the project, and a number of transactions behind it.
    private static func killed(transactions: Int) throws -> (StoredBench, TemporaryFolder) {
        var random = SeededGenerator(seed: 5)
        let bench = try StoredBench()
        try bench.project("tides")
        for _ in 0..<transactions { try bench.applyRandom(&random) }
        let folder = TemporaryFolder()
        try copy(["data.mdb"] + journals, from: bench.folder.data, to: folder.data)
        return (bench, folder)
    }

    @Test("OPS-4 a journal without its last records is refused", arguments: [1, 2, 64, 1000])
    func shortJournal(missing: Int) throws {
        let (bench, folder) = try Self.killed(transactions: 180)
        try withExtendedLifetime(bench) {
            for name in Self.journals {
                let path = URL(filePath: folder.data + "/" + name)
                var file = try Data(contentsOf: path)
                for record in Self.records(file).suffix(missing) {
                    file.resetBytes(in: record.offset..<(record.offset + Self.blockBytes))
                }
                try file.write(to: path)
            }
            let before = try Data(contentsOf: URL(filePath: folder.data + "/data.mdb"))
            #expect(throws: StoreOpenError.self) { try Self.open(folder.data) }
            // What is refused is left as it was, and is refused again.
            #expect(try Data(contentsOf: URL(filePath: folder.data + "/data.mdb")) == before)
            #expect(throws: StoreOpenError.self) { try Self.open(folder.data) }
        }
    }

    @Test("OPS-4 after kill -9 it is said that nothing is lost, once it was compared")
    func complete() throws {
        let (bench, folder) = try Self.killed(transactions: 20)
        try withExtendedLifetime(bench) {
            let told = Mutex<[Bool]>([])
            try Self.open(folder.data) { isComplete in told.withLock { $0.append(isComplete) } }
                .close()
            #expect(told.withLock { $0 } == [true])
            // A closed folder needs no recovery.
            try Self.open(folder.data) { isComplete in told.withLock { $0.append(isComplete) } }
                .close()
            #expect(told.withLock { $0 } == [true])
        }
    }

    @Test(
        "OPS-4 a data file that does not tell of its last transaction is recovered, and no more is said"
    )
    func unreadable() throws {
        let (bench, folder) = try Self.killed(transactions: 20)
        try withExtendedLifetime(bench) {
            // A crash of the machine: of the pages behind the checkpoint only the first two came to disk.
            let path = URL(filePath: folder.data + "/data.mdb")
            var file = try Data(contentsOf: path)
            let isFirst = file[144] > file[Self.blockBytes + 144]
            let meta = isFirst ? 0 : Self.blockBytes
            let root = file[(meta + 128)..<(meta + 136)].reversed().reduce(0) { $0 << 8 | Int($1) }
            file.resetBytes(in: (root * Self.blockBytes)..<((root + 1) * Self.blockBytes))
            try file.write(to: path)
            let told = Mutex<[Bool]>([])
            let store = try Self.open(folder.data) { isComplete in
                told.withLock { $0.append(isComplete) }
            }
            defer { store.close() }
            #expect(told.withLock { $0 } == [false])
            #expect(try store.check().problemCount == 0)
        }
    }

    @Test("OPS-4 a copy of a folder in use is refused, or is right", arguments: 0..<6)
    func liveCopy(order: Int) throws {
        var names = ["data.mdb"] + Self.journals
        names.swapAt(0, order % 3)
        if order >= 3 { names.swapAt(1, 2) }
        let bench = try StoredBench(checkpointCommitsMax: 5)
        try bench.project("tides")
        let isOver = Atomic<Bool>(false)
        let ended = DispatchSemaphore(value: 0)
        let work = UncheckedBench(bench: bench)
        Thread.detachNewThread {
            var random = SeededGenerator(seed: UInt64(order))
            while !isOver.load(ordering: .relaxed) { try? work.bench.applyRandom(&random) }
            ended.signal()
        }
        for _ in 0..<20 {
            usleep(5000)
            let folder = TemporaryFolder()
            try Self.copy(names, from: bench.folder.data, to: folder.data)
            guard let store = try? Self.open(folder.data) else { continue }
            #expect(try store.check().problemCount == 0)
            #expect(try store.read { try $0.projects.projects(after: "", limit: 10).count } == 1)
            store.close()
        }
        isOver.store(true, ordering: .relaxed)
        ended.wait()
    }
}

/// The writing thread alone uses the bench until it has ended.
private struct UncheckedBench: @unchecked Sendable {
    let bench: StoredBench
}
