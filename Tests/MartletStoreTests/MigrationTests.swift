// SPDX-License-Identifier: Apache-2.0
//
// Migrations of stores that older programs wrote (OPS-3). Rests on FormerStores.

import EngineBench
import FormerStores
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("Migration")
struct MigrationTests {
    private static let formats: [UInt32] = [6, 7, 8, 9, 10, 11, 12]

    private func exists(_ name: String, in folder: TemporaryFolder) -> Bool {
        access(folder.data + "/" + name, F_OK) == 0
    }

    private func open(
        _ folder: TemporaryFolder,
        migrating: @escaping @Sendable (MigrationEvent) -> Void = { _ in }
    ) throws -> Store {
        var configuration = StoreConfiguration(folder: folder.data)
        configuration.migrating = migrating
        return try Store(configuration)
    }

    @Test(
        "OPS-3: a store of an older format answers as before, and its old files are kept unchanged",
        arguments: formats)
    func migrated(format: UInt32) throws {
        let former = try FormerStore(format: format)
        let folder = TemporaryFolder()
        try former.write(to: folder.data)
        let events = Mutex<[MigrationEvent]>([])
        let store = try open(folder) { event in events.withLock { $0.append(event) } }
        let differences = try former.differences(in: store)
        #expect(differences == [], "\(differences)")
        store.close()
        let old = folder.data + "/store-format-\(format)"
        let rows = try RawStore(folder: old).rows()
        #expect(Set(rows.keys) == Set(former.tables.keys))
        for (table, kept) in rows {
            let expected = Dictionary(
                uniqueKeysWithValues: former.tables[table, default: []].map { ($0.key, $0.value) })
            #expect(kept == expected, "\(table)")
        }
        #expect(!exists("migrating", in: folder) && !exists("migrated", in: folder))
        let told = events.withLock { $0 }
        let percents = told.compactMap { event in
            if case .advanced(format, storeFormatVersion, let percent) = event {
                percent
            } else {
                nil
            }
        }
        #expect(percents.first == 0 && percents.last == 100, "\(percents)")
        #expect(zip(percents, percents.dropFirst()).allSatisfy { $0 < $1 }, "\(percents)")
        guard case .began(format, storeFormatVersion, _)? = told.first,
            case .ended(storeFormatVersion, old)? = told.last
        else {
            Issue.record("\(told)")
            return
        }
        // A second opening finds nothing to migrate.
        events.withLock { $0 = [] }
        let again = try open(folder) { event in events.withLock { $0.append(event) } }
        let left = try former.differences(in: again)
        #expect(left == [], "\(left)")
        #expect(events.withLock { $0 } == [])
        again.close()
    }

    @Test("Devices of a migrated store take their messages, register, and get new messages")
    func served() throws {
        let former = try FormerStore(format: 6)
        let folder = TemporaryFolder()
        try former.write(to: folder.data)
        let bench = Bench(limits: .none, store: try open(folder))
        bench.now = former.now
        let (project, instance) = try bench.store.read { (transaction) throws in
            (
                try #require(try transaction.projects.project(ProjectNumber(0))),
                try #require(try transaction.instances.instance(Ordinal(7), in: ProjectNumber(0)))
            )
        }
        let waiting = try bench.mailbox(instance).waiting
        try #require(waiting.count > 1)
        try bench.acknowledge(instance, waiting.last!.sequence)
        #expect(try bench.mailbox(instance).waiting.isEmpty)
        _ = try bench.accepted(.token(instance.token.text), in: project.number)
        #expect(try bench.mailbox(instance).waiting.count == 1)
        // The older program's bench gave the same tokens.
        for _ in 0..<100 { _ = bench.newInstance(in: project.id) }
        _ = try bench.register(2, in: project.id)
        let policies = try bench.store.read { (transaction) throws in
            try transaction.registrations.policies(of: project.number)
        }
        #expect(policies == ProjectPolicies(registration: .open, topics: .all))
        try bench.expectClean()
        // Everything ends in time, as its rows in `due` say.
        bench.now = bench.now.advanced(bySeconds: 60 * 86_400)
        try bench.sweep()
        try bench.expectClean()
    }

    /// What a process leaves that ends at some point of a migration, made by the moves up to there.
    @Test("A migration that ended at any of its moves goes on from there", arguments: 0...8)
    func ended(moves: Int) throws {
        let former = try FormerStore(format: 6)
        let (folder, other) = (TemporaryFolder(), TemporaryFolder())
        try former.write(to: folder.data)
        try former.write(to: other.data)
        try open(other).close()
        let data = folder.data
        func path(_ name: String) -> String { data + "/" + name }
        for name in ["journal.0", "journal.1"] { try Data().write(to: URL(filePath: path(name))) }
        let files = FileManager.default
        let steps: [() throws -> Void] = [
            {
                try files.createDirectory(
                    atPath: path("migrating"), withIntermediateDirectories: true)
            },
            {
                try files.copyItem(
                    atPath: other.data + "/data.mdb", toPath: path("migrating/data.mdb"))
            },
            {
                try files.createDirectory(
                    atPath: path("migrating/store-format-6"), withIntermediateDirectories: true)
            },
            { try files.moveItem(atPath: path("migrating"), toPath: path("migrated")) },
            {
                try files.moveItem(
                    atPath: path("data.mdb"), toPath: path("migrated/store-format-6/data.mdb"))
            },
            {
                for name in ["journal.0", "journal.1"] {
                    try files.moveItem(
                        atPath: path(name), toPath: path("migrated/store-format-6/" + name))
                }
            },
            { try files.moveItem(atPath: path("migrated/data.mdb"), toPath: path("data.mdb")) },
            {
                try files.moveItem(
                    atPath: path("migrated/store-format-6"), toPath: path("store-format-6"))
            },
        ]
        for step in steps[..<moves] { try step() }
        // Other programs than a broker change nothing, and say so.
        var configuration = StoreConfiguration(folder: folder.data)
        configuration.purpose = .trial
        #expect(throws: StoreOpenError.self) { _ = try Store(configuration) }
        let store = try open(folder)
        let differences = try former.differences(in: store)
        #expect(differences == [], "\(differences)")
        store.close()
        #expect(!exists("migrating", in: folder) && !exists("migrated", in: folder))
        #expect(exists("store-format-6/data.mdb", in: folder))
    }

    @Test("A second migration from one format leaves the old files of the first")
    func twice() throws {
        let former = try FormerStore(format: 6)
        let folder = TemporaryFolder()
        for name in ["store-format-6", "store-format-6.2"] {
            for file in ["data.mdb", "journal.0", "journal.1"] { unlink(folder.data + "/" + file) }
            try former.write(to: folder.data)
            try open(folder).close()
            #expect(exists(name + "/data.mdb", in: folder))
        }
    }

    @Test("Formats that no program migrates are refused, with what to do", arguments: [0, 5, 14])
    func refused(format: UInt32) throws {
        let folder = TemporaryFolder()
        try FormerStore(format: 6).write(to: folder.data, format: format)
        do {
            try open(folder).close()
            Issue.record("the folder was opened")
        } catch let error as StoreOpenError {
            #expect(
                error.description.contains(
                    format > storeFormatVersion
                        ? "Use the newer Martlet"
                        : "migrates formats 6 to 12. Choose another folder"))
        }
        #expect(!exists("store-format-\(format)", in: folder))
    }

    @Test("A reader leaves an older store alone, and says what migrates it")
    func trial() throws {
        let folder = TemporaryFolder()
        try FormerStore(format: 6).write(to: folder.data)
        var configuration = StoreConfiguration(folder: folder.data)
        configuration.purpose = .trial
        do {
            _ = try Store(configuration)
            Issue.record("the folder was opened")
        } catch let error as StoreOpenError {
            #expect(error.description.contains("Start the broker once"))
        }
        #expect(!exists("store-format-6", in: folder))
    }

    @Test("Without room for a copy the migration is refused before it begins")
    func noRoom() throws {
        let folder = TemporaryFolder()
        try FormerStore(format: 6).write(to: folder.data)
        var configuration = StoreConfiguration(folder: folder.data)
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
        #expect(try RawStore(folder: folder.data).count("reportDays") > 0)
    }

    @Test("A store with rows of another length than its format's is refused and stays as it was")
    func damaged() throws {
        let folder = TemporaryFolder()
        try FormerStore(format: 6).write(to: folder.data)
        try RawStore(folder: folder.data).change("projects", big(0 as UInt32), [1, 2, 3])
        #expect(throws: (any Error).self) { try open(folder).close() }
        #expect(!exists("migrating", in: folder) && !exists("migrated", in: folder))
        #expect(
            try RawStore(folder: folder.data).get("projects", big(0 as UInt32)) == [1, 2, 3])
    }

    @Test("The journal of an older program is repeated in the copy, and the old one stays")
    func journal() throws {
        let former = try FormerStore(format: 10)
        let (folder, crashed) = (TemporaryFolder(), TemporaryFolder())
        try former.write(to: folder.data)
        let store = try open(folder)
        // The present store becomes one of format 10, as that program's checkpoint left it.
        try store.write { (transaction) throws(StorageError) in
            for row in former.tables["projects"]! {
                try transaction.raw.put(.projects, Key(bytes: row.key), row.value)
            }
            for project in 0..<3 as Range<UInt32> {
                try transaction.raw.delete(.policies, Key(ProjectNumber(project)))
            }
            try transaction.raw.put(.meta, Key(bytes: Array("format".utf8)), little(10 as UInt32))
        }
        try store.checkpoint()
        // A change that only the journal has.
        let key = former.tables["keys"]![0]
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.keys, Key(bytes: Array("late".utf8)), key.value)
        }
        try FileManager.default.createDirectory(
            atPath: crashed.data, withIntermediateDirectories: true)
        for name in ["data.mdb", "journal.0", "journal.1"] {
            try FileManager.default.copyItem(
                atPath: folder.data + "/" + name, toPath: crashed.data + "/" + name)
        }
        store.close()
        let journal = try Data(contentsOf: URL(filePath: crashed.data + "/journal.0"))
        let migrated = try open(crashed)
        let differences = try former.differences(in: migrated)
        #expect(differences == [], "\(differences)")
        migrated.close()
        #expect(try RawStore(folder: crashed.data).get("keys", Array("late".utf8)) == key.value)
        let kept = crashed.data + "/store-format-10/journal.0"
        #expect(try Data(contentsOf: URL(filePath: kept)) == journal)
    }
}
