// SPDX-License-Identifier: Apache-2.0
//
// A disk that has no more room (OPS-12): nothing new is kept, and whatever frees room is done, until there
// is some again. Rests on the store's faults.

import CLMDB
import EngineBench
import Glibc
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("A full disk")
struct FullDiskTests {
    /// A disk, a store on it, and an engine that is told of the store's room as by the committer.
    private final class Desk {
        let isFull = Disk()
        let store: Store
        var engine = Engine(limits: .none)
        let now = Instant(millisecondsSince1970: 1_800_000_000_000)
        private let folder = TemporaryFolder()

        final class Disk: Sendable {
            let hasNoRoom = Atomic<Bool>(false)
        }

        init() throws {
            let disk = isFull
            var configuration = StoreConfiguration(folder: folder.data, mapBytes: 1 << 24)
            configuration.faults = StoreFaults(
                beforeRead: { nil }, beforeCommit: { nil },
                hasNoRoom: { disk.hasNoRoom.load(ordering: .relaxed) })
            store = try Store(configuration)
        }

        func apply(_ command: Command) throws -> Outcome {
            engine.isShortOfRoom = store.isShortOfRoom
            let now = now
            return try store.write { (transaction) throws(StorageError) in
                _ = try self.engine.advance(now: now, in: transaction)
                return try self.engine.apply([command], now: now, in: transaction)[0]
            }
        }

        func isRefused(_ command: Command) throws -> Bool {
            guard case .refused(let error) = try apply(command) else { return false }
            #expect(error.word == .unavailable && error.message.contains("disk"))
            return true
        }
    }

    @Test(
        "OPS-12 the disk of a deleted folder is the disk of the nearest folder above it",
        arguments: ["", "/gone", "/gone/deeper"])
    func deletedFolder(path: String) throws {
        let folder = TemporaryFolder()
        let disk = try #require(DiskRoom(of: folder.path + path))
        #expect(disk.byteCount == DiskRoom(of: folder.path)?.byteCount)
        #expect(disk.byteCount > 0)
    }

    @Test("OPS-5 LMDB's table of readers has its disk space: a write to its map needs none later")
    func tableOfReaders() throws {
        let folder = TemporaryFolder()
        let store = try Store(StoreConfiguration(folder: folder.data, mapBytes: 1 << 24))
        var status = stat()
        #expect(stat(folder.data + "/lock.mdb", &status) == 0)
        #expect(status.st_size > 1000 * 64)
        #expect(status.st_blocks * 512 >= status.st_size)
        store.close()
    }

    private func instance(_ desk: Desk, _ number: UInt64) throws -> Instance {
        let outcome = try desk.apply(
            .register(
                NewInstance(
                    project: "tides", app: "com.a", platform: .android,
                    token: Token(words: (number, number, number)),
                    keyDigest: SecretDigest(
                        bytes: [UInt8](repeating: UInt8(number), count: 32)), proof: .trusted)))
        guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
        return instance
    }

    @Test(
        "OPS-12 a store that cannot take room in advance keeps nothing new, and frees what it can")
    func shortOfRoom() throws {
        let desk = try Desk()
        let made = try desk.apply(
            .createProject(id: "tides", senderID: 4711, conditionTopicsMax: 0))
        guard case .project(let project) = made else { throw Unexpected(made) }
        let instances = [try instance(desk, 1), try instance(desk, 2)]
        let send = Command.send(
            project: project.number,
            message: SendCommand(
                target: .token(instances[0].token.text), body: [UInt8](repeating: 1, count: 60_000))
        )
        for _ in 0..<800 { #expect(try !desk.isRefused(send)) }
        desk.isFull.hasNoRoom.store(true, ordering: .relaxed)
        // What is taken already is used up first, but for the reserve.
        var count = 800
        while try !desk.isRefused(send) { count += 1 }
        #expect(desk.store.isShortOfRoom && count > 800 && count < 3000)
        let subscribe = Command.changeTopics(
            project: project.number, ordinal: instances[0].ordinal, change: .subscribe,
            topics: ["storms"])
        #expect(try desk.isRefused(subscribe) && desk.isRefused(.touch))
        for command in [
            Command.connected(
                project: project.number, ordinal: instances[0].ordinal,
                holder: instances[0].holder,
                connection: ConnectionStart(number: 1, position: MessageSequence(UInt64(count)))),
            .acknowledge([
                Acknowledgement(
                    project: project.number, ordinal: instances[0].ordinal,
                    through: LaneMarks(MessageSequence(UInt64(count))))
            ]),
            .unregister(project: project.number, ordinal: instances[1].ordinal),
        ] {
            if case .refused(let error) = try desk.apply(command) { Issue.record("\(error)") }
        }
        #expect(try desk.store.check().counts.messages == 0)
        // What was freed is room, whatever the disk has.
        waitForAnswer()
        _ = try desk.apply(.cancel(project: project.number, number: 1))
        #expect(!desk.store.isShortOfRoom)
        #expect(try !desk.isRefused(send) && !desk.isRefused(subscribe))
        #expect(try desk.store.check().problemCount == 0)
    }

    /// How long the store waits until it asks the disk again.
    private func waitForAnswer() { usleep(150_000) }
}
