// SPDX-License-Identifier: Apache-2.0
//
// The store as a store: it grows by itself under readers, belongs to one process, refuses what it
// does not know, says what is damaged, and keeps a transaction whole or not at all.
// Rests on Support and on CheckTests' RawStore.

import EngineBench
import Foundation
import Glibc
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("Store")
struct StoreTests {
    @Test(
        "OPS-5: the map doubles by itself from one mebibyte while other threads never stop reading")
    func growth() throws {
        let bench = try StoredBench(mapBytes: 1 << 20)
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let store = bench.files
        let shared = Shared()
        let reader: @Sendable () -> Void = {
            while !shared.isOver.load(ordering: .relaxed) {
                // A snapshot has every message up to its project's last.
                let isWhole = try? store.read { (transaction) throws in
                    let last = try transaction.projects.project(project)!.lastSequence
                    var expected: UInt64 = 1
                    _ = try transaction.log.forEachLogged(
                        for: StoredBench.owner(instance), after: .none, rowsMax: .max
                    ) { entry in
                        if entry.sequence.rawValue == expected { expected += 1 }
                    }
                    return expected == last.rawValue + 1
                }
                if isWhole != true { shared.wrong.add(1, ordering: .relaxed) }
                shared.reads.add(1, ordering: .relaxed)
            }
            shared.done.leave()
        }
        for _ in 0..<4 {
            shared.done.enter()
            Thread(block: reader).start()
        }
        let body = [UInt8](repeating: 7, count: 16_000)
        let send = Command.send(
            project: project,
            message: SendCommand(target: .token(instance.token.text), body: body))
        let outcome = Result {
            for _ in 0..<40 { _ = try bench.apply([Command](repeating: send, count: 25)) }
            while shared.reads.load(ordering: .relaxed) < 10 { usleep(1000) }
        }
        shared.isOver.store(true, ordering: .relaxed)
        shared.done.wait()
        try outcome.get()
        #expect(shared.wrong.load(ordering: .relaxed) == 0)
        #expect(store.size.map >= 16 << 20)
        #expect(store.size.used > 15 << 20)
        #expect(try bench.pending(instance).count == 1000)
        try bench.expectClean()
    }

    private final class Shared: Sendable {
        let isOver = Atomic(false)
        let reads = Atomic(0)
        let wrong = Atomic(0)
        let done = DispatchGroup()
    }

    @Test("A folder that is open is refused to the same process, and free again when it is closed")
    func secondOpen() throws {
        let bench = try StoredBench()
        #expect(throws: StoreOpenError.self) {
            try Store(StoreConfiguration(folder: bench.folder.data))
        }
        try bench.project("tides")
        try bench.reopen { folder in
            _ = try Store(StoreConfiguration(folder: folder))
        }
    }

    @Test(
        "OPS-4 nothing is written through a symbolic link in the place of a file, dangling or not",
        arguments: ["martlet.lock", "data.mdb", "lock.mdb", "journal.0", "journal.1"],
        [true, false])
    func link(name: String, isDangling: Bool) throws {
        let bench = try StoredBench()
        try bench.reopen { folder in
            let place = folder + "/" + name
            let kept = place + ".kept"
            try FileManager.default.moveItem(atPath: place, toPath: kept)
            let target = isDangling ? folder + "/elsewhere" : kept
            try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: target)
            let before = isDangling ? nil : try Data(contentsOf: URL(filePath: kept))
            for purpose in [StoreConfiguration.Purpose.serving, .trial] {
                var configuration = StoreConfiguration(folder: folder)
                configuration.purpose = purpose
                let error = #expect(throws: StoreOpenError.self) { try Store(configuration) }
                #expect(error?.description.contains("'\(place)'") == true)
                #expect(error?.description.contains("symbolic link") == true)
            }
            #expect(!FileManager.default.fileExists(atPath: folder + "/elsewhere"))
            if let before { #expect(try Data(contentsOf: URL(filePath: kept)) == before) }
            try FileManager.default.removeItem(atPath: place)
            try FileManager.default.moveItem(atPath: kept, toPath: place)
        }
    }

    @Test("OPS-4 the folder as a whole may be a symbolic link")
    func linkedFolder() throws {
        let bench = try StoredBench()
        try bench.reopen { folder in
            try FileManager.default.createSymbolicLink(
                atPath: folder + ".link", withDestinationPath: folder)
            try Store(StoreConfiguration(folder: folder + ".link")).close()
        }
    }

    @Test("A folder that another process holds is refused, until that process has ended")
    func otherProcess() throws {
        let bench = try StoredBench()
        try bench.reopen { folder in
            let holder = Process()
            holder.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            holder.arguments = [
                "flock", folder + "/martlet.lock", "sh", "-c", "echo held; sleep 60",
            ]
            let output = Pipe()
            holder.standardOutput = output
            try holder.run()
            let line = output.fileHandleForReading.readData(ofLength: 5)
            #expect(String(decoding: line, as: UTF8.self) == "held\n")
            do {
                _ = try Store(StoreConfiguration(folder: folder))
                Issue.record("the folder was opened twice")
            } catch StoreOpenError.inUse(let place) {
                #expect(place == folder)
            }
            // The whole group: the lock is its last member's.
            for child in try Self.children(of: holder.processIdentifier) { kill(child, SIGKILL) }
            kill(holder.processIdentifier, SIGKILL)
            holder.waitUntilExit()
            var isOpened = false
            for _ in 0..<200 where !isOpened {
                isOpened = (try? Store(StoreConfiguration(folder: folder))) != nil
                if !isOpened { usleep(10_000) }
            }
            #expect(isOpened)
        }
    }

    private static func children(of process: pid_t) throws -> [pid_t] {
        let text = try String(
            contentsOfFile: "/proc/\(process)/task/\(process)/children", encoding: .utf8)
        let direct = text.split(separator: " ").compactMap { pid_t($0) }
        return try direct + direct.flatMap { try children(of: $0) }
    }

    @Test("A folder of a newer format is refused, and says which", arguments: [14, 77] as [UInt32])
    func newerFormat(version: UInt32) throws {
        let bench = try StoredBench()
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            try raw.change("meta", Array("format".utf8), little(version))
            do {
                _ = try Store(StoreConfiguration(folder: folder))
                Issue.record("the folder was opened")
            } catch StoreOpenError.newerFormat(let found, let known) {
                #expect(found == version && known == 13)
            }
            try raw.change("meta", Array("format".utf8), little(13 as UInt32))
        }
    }

    @Test(
        "A folder of an older format without a later table is refused, and says which",
        arguments: [StoreConfiguration.Purpose.serving, .trial])
    func olderFormat(purpose: StoreConfiguration.Purpose) throws {
        let folder = TemporaryFolder()
        try Store(StoreConfiguration(folder: folder.data)).close()
        let raw = RawStore(folder: folder.data)
        try raw.change("meta", Array("format".utf8), little(4 as UInt32))
        try raw.drop(Table.allCases.last!.name)
        var configuration = StoreConfiguration(folder: folder.data)
        configuration.purpose = purpose
        do {
            _ = try Store(configuration)
            Issue.record("the folder was opened")
        } catch StoreOpenError.olderFormat(let found, let oldest) {
            #expect(found == 4 && oldest == 13)
        }
        // A table of this format does not begin anew.
        try raw.change("meta", Array("format".utf8), little(13 as UInt32))
        do {
            _ = try Store(configuration)
            Issue.record("the folder was opened")
        } catch StoreOpenError.damaged(_, let text) {
            #expect(text.contains("'\(Table.allCases.last!.name)'"))
        }
    }

    @Test("A folder that cannot be made is refused with its name")
    func noFolder() throws {
        do {
            _ = try Store(StoreConfiguration(folder: "/proc/nowhere/data"))
            Issue.record("the folder was opened")
        } catch StoreOpenError.folder(let folder, _) {
            #expect(folder == "/proc/nowhere/data")
        }
    }

    @Test(
        "A damaged record reads as an error that names its table",
        arguments: [
            "projects", "instances", "topics", "messages", "recipients", "mailboxes", "keys",
        ])
    func damage(table: String) throws {
        let bench = try StoredBench()
        let instances = try CheckTests.fill(bench)
        let project = instances[0].project
        let p0 = big(0 as UInt32)
        let keys: [String: [UInt8]] = [
            "projects": p0, "instances": p0 + big(9 as UInt32), "topics": p0 + big(1 as UInt32),
            "messages": p0 + big(4 as UInt64), "recipients": p0 + big(4 as UInt64),
            "mailboxes": p0 + big(0 as UInt32), "keys": Array("key".utf8),
        ]
        // Every length a record can be cut off at, and one that is nonsense of full length.
        let whole = try Self.value(bench, table, keys[table]!)
        var lengths = Array(0..<min(whole.count, 40))
        if table == "recipients" { lengths += [48, 52, whole.count - 1, whole.count - 8] }
        if table == "topics" { lengths = Array(0...8) }
        for length in lengths {
            try bench.reopen { folder in
                try RawStore(folder: folder).change(
                    table, keys[table]!, Array(whole.prefix(length)))
            }
            #expect(throws: StorageError.self, "\(table) of \(length) bytes") {
                try bench.store.read { (transaction) throws in
                    switch table {
                    case "projects": _ = try transaction.projects.project(project)
                    case "instances":
                        _ = try transaction.instances.instance(Ordinal(9), in: project)
                    case "topics": _ = try transaction.topics.topic(TopicNumber(1), in: project)
                    case "mailboxes":
                        _ = try transaction.mailboxes.state(of: Ordinal(0), in: project)
                    case "keys": _ = try transaction.projects.serverKey(id: "key")
                    default:
                        _ = try transaction.log.forEachLogged(
                            for: StoredBench.owner(instances[690]), after: .none, rowsMax: .max
                        ) { _ in }
                        _ = try transaction.messages.withMessage(
                            MessageSequence(4), on: .android, in: project
                        ) { _ in }
                    }
                }
            }
        }
    }

    @Test(
        "A recipients blob whose directory leads astray reads as an error, not past its end",
        arguments: [
            (4, little(UInt32.max)), (4, little(200 as UInt32)), (0, [0, 0, 0, 0]),
            (16, little(UInt64.max)), (40, little(UInt32.max - 7)), (40, little(9 as UInt32)),
            (40, little(49 as UInt32)), (44, little(9 as UInt32)),
        ] as [(Int, [UInt8])])
    func damagedBlob(offset: Int, bytes: [UInt8]) throws {
        let bench = try StoredBench()
        let instances = try CheckTests.fill(bench)
        let key = big(0 as UInt32) + big(4 as UInt64)
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            var value = try #require(try raw.get("recipients", key))
            value.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
            try raw.change("recipients", key, value)
        }
        #expect(throws: StorageError.self) {
            try bench.store.read { (transaction) throws in
                _ = try transaction.log.forEachLogged(
                    for: StoredBench.owner(instances[9]), after: .none, rowsMax: .max
                ) { _ in }
            }
        }
        #expect(try bench.store.check().problems.map(\.kind) == [.recipients])
    }

    private static func value(_ bench: StoredBench, _ table: String, _ key: [UInt8]) throws
        -> [UInt8]
    {
        var value: [UInt8]?
        try bench.reopen { value = try RawStore(folder: $0).get(table, key) }
        return try #require(value)
    }

    @Test(
        "OPS-4: a transaction whose body throws leaves nothing, and the next one goes on from before"
    )
    func atomic() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let before = try bench.store.check().counts
        struct Trouble {}
        var engine = Engine()
        let now = bench.now
        #expect(throws: StorageError.self) {
            try bench.store.write { (transaction) throws(StorageError) -> Void in
                _ = try engine.apply(
                    .register(bench.newInstance(in: "tides")), now: now, in: transaction)
                _ = try engine.apply(
                    .changeTopics(
                        project: project, ordinal: instance.ordinal, change: .subscribe,
                        topics: ["dogs"]), now: now, in: transaction)
                _ = try engine.apply(
                    .send(
                        project: project,
                        message: SendCommand(target: .token(instance.token.text), body: [1])),
                    now: now, in: transaction)
                throw StorageError(operation: "test", code: 5, text: "on purpose", isFull: false)
            }
        }
        #expect(try bench.store.check().counts == before)
        try bench.expectClean()
        #expect(try bench.accepted(.token(instance.token.text), in: project).0.messageNumber == 1)
        #expect(try bench.register(1, in: "tides")[0].ordinal.rawValue == 1)
    }

    @Test("A transaction that finds the map full is applied once, whole, after it has grown")
    func fullAmidTransaction() throws {
        let bench = try StoredBench(mapBytes: 1 << 20)
        let project = try bench.project("tides")
        let instances = try bench.register(10_000, in: "tides")
        try bench.change(.subscribe, "dogs", instances, in: project)
        let body = [UInt8](repeating: 1, count: 16_000)
        let sends = instances.prefix(300).map {
            Command.send(
                project: project, message: SendCommand(target: .token($0.token.text), body: body))
        }
        let numbers = try bench.apply(sends).map { outcome in
            guard case .accepted(let acceptance, _) = outcome else { throw Unexpected(outcome) }
            return acceptance.messageNumber
        }
        #expect(numbers == Array(1...300))
        #expect(bench.files.size.map > 1 << 20)
        let counts = try bench.store.check().counts
        #expect(counts.instances == 10_000 && counts.messages == 300)
        try bench.expectClean()
    }

    @Test(
        "Group commit: commands of one transaction are all there after reopening, refusals among them change nothing"
    )
    func groupCommit() throws {
        let bench = try StoredBench()
        try bench.project("tides")
        var commands: [Command] = []
        for index in 0..<500 {
            commands.append(.register(bench.newInstance(in: index % 5 == 0 ? "nowhere" : "tides")))
        }
        let refused = try bench.apply(commands).filter { refusal($0) == .notFound }.count
        #expect(refused == 100)
        try bench.reopen()
        #expect(try bench.store.check().counts.instances == 400)
        try bench.expectClean()
    }

    @Test("CON-11 CON-5 what was read in a transaction that failed is not sent to afterwards")
    func forgetsAbandoned() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "news", instances[..<1], in: project)
        let send = Command.send(
            project: project, message: SendCommand(target: .topic("news"), body: []))
        func recipients() throws -> UInt64 {
            guard case .accepted(let acceptance, _) = try bench.apply([send])[0] else {
                return .max
            }
            return acceptance.recipientCount
        }
        #expect(try recipients() == 1)
        let join = Command.changeTopic(
            project: project, topic: "news", change: .subscribe,
            tokens: instances[1...].map(\.token.text))
        try bench.applyInVain([join, send])
        #expect(try recipients() == 1)
        _ = try bench.apply([join])
        #expect(try recipients() == 3)
        #expect(try recipients() == 3)
    }
}
