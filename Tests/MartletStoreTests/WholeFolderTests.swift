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
import TestSupport
import Testing

@Suite("A folder that is not what it was")
struct WholeFolderTests {
    private static let journals = ["journal.0", "journal.1"]
    private static let files = ["data.mdb"] + journals
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

    /// What opening a folder tells.
    private enum Told: Equatable {
        case checkingCopy
        case recovered(isComplete: Bool)
    }

    private static func open(_ folder: String) throws -> (Store, [Told]) {
        let told = Mutex<[Told]>([])
        var configuration = StoreConfiguration(folder: folder, mapBytes: 1 << 24)
        configuration.recovered = { _, isComplete in
            told.withLock { $0.append(.recovered(isComplete: isComplete)) }
        }
        configuration.checkingCopy = { _ in told.withLock { $0.append(.checkingCopy) } }
        return (try Store(configuration), told.withLock { $0 })
    }

    /// Opens and closes a folder.
    private static func told(_ folder: String) throws -> [Told] {
        let (store, told) = try open(folder)
        defer { store.close() }
        #expect(try store.check().problemCount == 0)
        #expect(try store.read { try $0.projects.projects(after: "", limit: 10).count } == 1)
        return told
    }

    /// A folder as kill -9 leaves it: the project, and a number of transactions behind it.
    private static func killed(transactions: Int) throws -> TemporaryFolder {
        var random = SeededGenerator(seed: 5)
        let bench = try StoredBench()
        try bench.project("tides")
        for _ in 0..<transactions { try bench.applyRandom(&random) }
        let (folder, before) = (bench.folder, TemporaryFolder())
        try copy(files, from: folder.data, to: before.data)
        bench.files.close()
        // The files stay the ones that the store had open.
        try copy(files, from: before.data, to: folder.data)
        return folder
    }

    @Test("OPS-16 a journal without its last records is refused", arguments: [1, 2, 64, 1000])
    func shortJournal(missing: Int) throws {
        let folder = try Self.killed(transactions: 180)
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

    @Test("OPS-16 OPS-4 after kill -9 it is said that nothing is lost, once it was compared")
    func complete() throws {
        let folder = try Self.killed(transactions: 20)
        #expect(try Self.told(folder.data) == [.recovered(isComplete: true)])
        // A closed folder needs no recovery.
        #expect(try Self.told(folder.data) == [])
    }

    @Test(
        "OPS-16 OPS-4 a data file that does not tell of its last transaction is recovered, and no more is said"
    )
    func unreadable() throws {
        let folder = try Self.killed(transactions: 20)
        // A crash of the machine: of the pages behind the checkpoint only the first two came to disk.
        let path = URL(filePath: folder.data + "/data.mdb")
        var file = try Data(contentsOf: path)
        let isFirst = file[144] > file[Self.blockBytes + 144]
        let meta = isFirst ? 0 : Self.blockBytes
        let root = file[(meta + 128)..<(meta + 136)].reversed().reduce(0) { $0 << 8 | Int($1) }
        file.resetBytes(in: (root * Self.blockBytes)..<((root + 1) * Self.blockBytes))
        try file.write(to: path)
        #expect(try Self.told(folder.data) == [.recovered(isComplete: false)])
    }

    @Test("OPS-16 a copy of a folder that was not closed is compared in full, until it was closed")
    func copied() throws {
        let folder = try Self.killed(transactions: 20)
        let copy = TemporaryFolder()
        try Self.copy(Self.files, from: folder.data, to: copy.data)
        #expect(
            try Self.told(copy.data) == [.checkingCopy, .recovered(isComplete: false)])
        #expect(try Self.told(copy.data) == [])
        // A copy of a closed folder is as good as the folder.
        let closed = TemporaryFolder()
        try Self.copy(Self.files, from: copy.data, to: closed.data)
        #expect(try Self.told(closed.data) == [])
    }

    @Test(
        "OPS-16 damage in a copy is found in each page that it needs",
        arguments: 0..<rounds(30) as Range<UInt64>)
    func damaged(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let folder = try Self.killed(transactions: 60)
        let whole = try Self.open(folder.data).0
        let rows = try whole.read { try $0.check().counts }
        try whole.checkpoint()
        let copy = TemporaryFolder()
        try Self.copy(Self.files, from: folder.data, to: copy.data)
        whole.close()
        // One page has the content of another.
        var file = try Data(contentsOf: URL(filePath: copy.data + "/data.mdb"))
        let pageCount = file.count / Self.blockBytes
        let (from, to) = (random.number(2...(pageCount - 1)), random.number(2...(pageCount - 1)))
        let page = Data(file[(from * Self.blockBytes)..<((from + 1) * Self.blockBytes)])
        file.replaceSubrange((to * Self.blockBytes)..<((to + 1) * Self.blockBytes), with: page)
        try file.write(to: URL(filePath: copy.data + "/data.mdb"))
        // The page may have been a free one.
        guard let (store, told) = try? Self.open(copy.data) else { return }
        defer { store.close() }
        #expect(told.first == .checkingCopy)
        #expect(try store.read { try $0.check().counts } == rows)
        #expect(try store.check().problemCount == 0)
    }

    @Test("OPS-16 a copy of a folder in use is refused, or is right", arguments: 0..<6)
    func liveCopy(order: Int) throws {
        var names = Self.files
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
            guard let (store, _) = try? Self.open(folder.data) else { continue }
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
