// SPDX-License-Identifier: Apache-2.0
//
// Migrations of stores that an older program wrote (OPS-3), with one step. Rests on FormerStore.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import TestSupport
import Testing

@Suite("Migration")
struct MigrationTests {
    private static let kept = "store-format-\(FormerStore.format)"

    private func exists(_ name: String, in folder: TemporaryFolder) -> Bool {
        access(folder.data + "/" + name, F_OK) == 0
    }

    private static func open(
        _ folder: String, purpose: StoreConfiguration.Purpose = .serving,
        migrating: @escaping @Sendable (MigrationEvent) -> Void = { _ in }
    ) throws -> Store {
        var configuration = StoreConfiguration(folder: folder)
        configuration.migrationSteps = [FormerStore.step]
        configuration.migrating = migrating
        configuration.purpose = purpose
        return try Store(configuration)
    }

    /// Opens a folder that is migrated or in the middle of it, and expects all rows.
    private func expectMigrated(
        _ former: FormerStore, in folder: TemporaryFolder,
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        let store = try Self.open(folder.data)
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
        store.close()
        let rows = try RawStore(folder: folder.data).rows()
        #expect(rows == former.present, sourceLocation: location)
        #expect(!exists("migrating", in: folder) && !exists("migrated", in: folder))
        #expect(exists(Self.kept + "/data.mdb", in: folder), sourceLocation: location)
    }

    @Test("OPS-3: each row of an older format is changed, and the old files are kept unchanged")
    func migrated() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        try #require(former.rows["topics"]!.count > MigratedCopy.rowsMax)
        #expect(former.rows["topics"] != former.present["topics"])
        let events = Mutex<[MigrationEvent]>([])
        try Self.open(folder.data) { event in events.withLock { $0.append(event) } }.close()
        try expectMigrated(former, in: folder)
        let old = folder.data + "/" + Self.kept
        #expect(try RawStore(folder: old).rows() == former.rows)
        let told = events.withLock { $0 }
        let percents = told.compactMap { event in
            if case .advanced(FormerStore.format, storeFormatVersion, let percent) = event {
                percent
            } else {
                nil
            }
        }
        #expect(percents.first == 0 && percents.last == 100, "\(percents)")
        #expect(zip(percents, percents.dropFirst()).allSatisfy { $0 < $1 }, "\(percents)")
        guard case .began(FormerStore.format, storeFormatVersion, _)? = told.first,
            case .ended(storeFormatVersion, old)? = told.last
        else {
            Issue.record("\(told)")
            return
        }
        // A second opening finds nothing to migrate.
        try Self.open(folder.data) { Issue.record("\($0)") }.close()
    }

    @Test("Devices of a migrated store take their messages, register, and get new messages")
    func served() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        let bench = Bench(limits: .none, store: try Self.open(folder.data))
        bench.now = former.now
        let instance = former.instance
        let waiting = try bench.mailbox(instance).waiting
        #expect(waiting == former.waiting && waiting.count == 4)
        try bench.acknowledge(instance, waiting.last!.sequence)
        #expect(try bench.mailbox(instance).waiting.isEmpty)
        _ = try bench.accepted(.topic("topic7"), in: instance.project)
        #expect(try bench.mailbox(instance).waiting.count == 1)
        try bench.expectClean()
    }

    /// A moment of a migration at which a process is killed.
    enum Moment: Int, CaseIterable, Codable, Sendable {
        case begins, isCopied, isChanging, isChanged, hasEnded

        init?(_ event: MigrationEvent) {
            switch event {
            case .began: self = .begins
            case .copied(let byteCount, let all) where byteCount == all: self = .isCopied
            case .changing: self = .isChanging
            case .advanced(_, _, 100): self = .isChanged
            case .ended: self = .hasEnded
            case .copied, .advanced: return nil
            }
        }
    }

    @Test(
        "OPS-3: a process killed in a migration loses nothing, and the next one ends the migration",
        arguments: Moment.allCases.suffix(max(2, rounds(Moment.allCases.count))))
    func killed(at moment: Moment) async throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        let data = folder.data
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [data = data as String, moment = moment as Moment] in
            _ = try MigrationTests.open(data) { event in
                if Moment(event) == moment { kill(getpid(), SIGKILL) }
            }
        }
        #expect(exists(Self.kept, in: folder) == (moment == .hasEnded))
        try expectMigrated(former, in: folder)
    }

    /// What a process leaves that ends at some point of a migration, made by the moves up to there.
    @Test(
        "A migration that ended at any of its moves goes on from there",
        arguments: Array(stride(from: 0, through: 9, by: 10 / max(3, rounds(10)))))
    func ended(moves: Int) throws {
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        let former = try FormerStore(in: folder.data)
        let files = FileManager.default
        try files.copyItem(atPath: folder.data, toPath: other.data)
        try Self.open(other.data).close()
        let (data, kept) = (folder.data, Self.kept)
        func path(_ name: String) -> String { data + "/" + name }
        for name in ["journal.0", "journal.1"] { try Data().write(to: URL(filePath: path(name))) }
        let steps: [() throws -> Void] = [
            {
                try files.createDirectory(
                    atPath: path("migrating"), withIntermediateDirectories: true)
            },
            { try Data(count: 8192).write(to: URL(filePath: path("migrating/data.mdb"))) },
            {
                try files.removeItem(atPath: path("migrating/data.mdb"))
                try files.copyItem(
                    atPath: other.data + "/data.mdb", toPath: path("migrating/data.mdb"))
            },
            {
                try files.createDirectory(
                    atPath: path("migrating/" + kept), withIntermediateDirectories: true)
            },
            { try files.moveItem(atPath: path("migrating"), toPath: path("migrated")) },
            {
                try files.moveItem(
                    atPath: path("data.mdb"), toPath: path("migrated/\(kept)/data.mdb"))
            },
            {
                for name in ["journal.0", "journal.1"] {
                    try files.moveItem(atPath: path(name), toPath: path("migrated/\(kept)/" + name))
                }
            },
            { try files.moveItem(atPath: path("migrated/data.mdb"), toPath: path("data.mdb")) },
            { try files.moveItem(atPath: path("migrated/" + kept), toPath: path(kept)) },
        ]
        for step in steps[..<moves] { try step() }
        // Other programs than a broker change nothing, and say so.
        #expect(throws: StoreOpenError.self) { try Self.open(data, purpose: .trial).close() }
        try expectMigrated(former, in: folder)
    }

    @Test("A second migration from one format leaves the old files of the first")
    func twice() throws {
        let folder = TemporaryFolder()
        _ = try FormerStore(in: folder.data)
        try Self.open(folder.data).close()
        try FormerStore.makeFormer(in: folder.data)
        try Self.open(folder.data).close()
        for name in [Self.kept, Self.kept + ".2"] {
            #expect(exists(name + "/data.mdb", in: folder))
        }
    }

    @Test(
        "Formats that no step begins with are refused, with what to do",
        arguments: [0, FormerStore.format - 1, storeFormatVersion + 1])
    func refused(format: UInt32) throws {
        let folder = TemporaryFolder()
        _ = try FormerStore(in: folder.data)
        try RawStore(folder: folder.data).change("meta", Array("format".utf8), little(format))
        do {
            try Self.open(folder.data).close()
            Issue.record("the folder was opened")
        } catch let error as StoreOpenError {
            #expect(
                error.description.contains(
                    format > storeFormatVersion
                        ? "Use the newer Martlet"
                        : "knows formats from \(FormerStore.format) on. Choose another folder"))
        }
        #expect(!exists("store-format-\(format)", in: folder))
    }

    @Test("No format from before the first release is migrated")
    func released() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        do {
            try Store(StoreConfiguration(folder: folder.data)).close()
            Issue.record("the folder was opened")
        } catch StoreOpenError.olderFormat(FormerStore.format, let oldest) {
            #expect(oldest == storeFormatVersion && oldest == 13)
        }
        #expect(try RawStore(folder: folder.data).rows() == former.rows)
    }

    @Test("A reader leaves an older store alone, and says what migrates it")
    func trial() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        do {
            _ = try Self.open(folder.data, purpose: .trial)
            Issue.record("the folder was opened")
        } catch let error as StoreOpenError {
            #expect(error.description.contains("Start the broker once"))
        }
        #expect(!exists(Self.kept, in: folder))
        #expect(try RawStore(folder: folder.data).rows() == former.rows)
    }

    @Test("Without room for a copy the migration is refused before it begins")
    func noRoom() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        var configuration = StoreConfiguration(folder: folder.data)
        configuration.migrationSteps = [FormerStore.step]
        configuration.migrating = { _ in Issue.record("it began") }
        configuration.faults = StoreFaults(
            beforeRead: { nil }, beforeCommit: { nil }, hasNoRoom: { true })
        do {
            _ = try Store(configuration)
            Issue.record("it was migrated")
        } catch StoreOpenError.noRoomToMigrate(_, let needed, let free) {
            #expect(needed > free)
        }
        #expect(!exists("migrating", in: folder))
        #expect(try RawStore(folder: folder.data).rows() == former.rows)
    }

    @Test("A store with rows of another length than its format's is refused and stays as it was")
    func damaged() throws {
        let folder = TemporaryFolder()
        let former = try FormerStore(in: folder.data)
        let key = try #require(former.rows["topics"]!.keys.max { $0.lexicographicallyPrecedes($1) })
        try RawStore(folder: folder.data).change("topics", key, [1, 2, 3])
        #expect(throws: (any Error).self) { try Self.open(folder.data).close() }
        #expect(!exists("migrating", in: folder) && !exists("migrated", in: folder))
        var rows = former.rows
        rows["topics"]![key] = [1, 2, 3]
        #expect(try RawStore(folder: folder.data).rows() == rows)
    }

    @Test("The journal of an older program is repeated in the copy, and the old one stays")
    func journal() throws {
        let (folder, crashed) = (TemporaryFolder(), TemporaryFolder())
        let former = try FormerStore(in: folder.data)
        let store = try Self.open(folder.data)
        // The present store becomes one of the former format, as that program's checkpoint left it.
        try FormerStore.makeFormer(store)
        try store.checkpoint()
        // A change that only the journal has.
        let value = former.rows["apps"]!.values.first!
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.keys, Key(bytes: Array("late".utf8)), value)
        }
        try FileManager.default.createDirectory(
            atPath: crashed.data, withIntermediateDirectories: true)
        for name in ["data.mdb", "journal.0", "journal.1"] {
            try FileManager.default.copyItem(
                atPath: folder.data + "/" + name, toPath: crashed.data + "/" + name)
        }
        store.close()
        let journal = try Data(contentsOf: URL(filePath: crashed.data + "/journal.0"))
        try Self.open(crashed.data).close()
        let kept = crashed.data + "/\(Self.kept)/journal.0"
        #expect(try Data(contentsOf: URL(filePath: kept)) == journal)
        let rows = try RawStore(folder: crashed.data).rows()
        #expect(rows["topics"] == former.present["topics"])
        #expect(rows["keys"]?[Array("late".utf8)] == value)
    }
}
