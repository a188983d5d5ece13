// SPDX-License-Identifier: Apache-2.0
//
// Transactions as rows of a log: another store that applies the rows has equal contents after each of them, the log
// decides whether a transaction is written, and bytes that are no row change nothing. Rests on RedoBench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletPostgres
import MartletRows
import MartletStore
import RedoBench
import Synchronization
import TestSupport
import Testing

@Suite("Redo")
struct RedoTests {
    private static func bench(
        _ folder: TemporaryFolder, checkpointCommitsMax: Int = 1000
    ) throws -> Bench {
        Bench(
            limits: .none,
            store: try RedoneStore(folder: folder.path, checkpointCommitsMax: checkpointCommitsMax))
    }

    // MARK: Equal contents

    @Test(
        "OPS-7: a second, empty store has equal contents after each row of a random history",
        arguments: 0..<rounds(12) as Range<UInt64>)
    func redone(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let folder = TemporaryFolder()
        let bench = try Self.bench(folder, checkpointCommitsMax: random.number(3...1000))
        try bench.project("tides")
        for _ in 0..<80 {
            try bench.applyRandom(&random)
            if random.chance(3) { try (bench.store as! RedoneStore).reopen() }
        }
        try bench.expectClean()
    }

    @Test("OPS-7: recipients of a burst to one topic are in the log once, and in each node's store")
    func burst() throws {
        let folder = TemporaryFolder()
        let bench = try Self.bench(folder)
        let project = try bench.project("tides")
        let instances = try bench.register(6000, in: "tides")
        // Every third instance: a blob of recipients that no packing makes short.
        var random = SeededGenerator(seed: 5)
        let some = instances.filter { _ in random.chance(40) }
        try bench.change(.subscribe, "storm", some, in: project)
        let store = bench.store as! RedoneStore
        _ = try bench.accepted(.topic("storm"), in: project)
        let firstBytes = try #require(store.bodies.last).count
        for _ in 0..<20 { _ = try bench.accepted(.topic("storm"), in: project) }
        #expect(firstBytes > 600)
        #expect(store.bodies.suffix(20).allSatisfy { $0.count < 400 })
        #expect(try bench.pending(some[0]).count == 21)
        try bench.expectClean()
    }

    @Test("OPS-7: a bit of a large set is a short row of the log")
    func bit() throws {
        let folder = TemporaryFolder()
        let bench = try Self.bench(folder)
        let project = try bench.project("tides")
        let instances = try bench.register(9000, in: "tides")
        var random = SeededGenerator(seed: 6)
        try bench.change(
            .subscribe, "storm", instances.filter { _ in random.chance(50) }, in: project)
        let store = bench.store as! RedoneStore
        let tokens = Set(try bench.members(of: "storm", in: project))
        let newcomer = instances.first { !tokens.contains($0.token) }!
        _ = try bench.deviceChange(.subscribe, ["storm"], newcomer)
        // The block of the set alone has 4080 bytes.
        #expect(try #require(store.bodies.last).count < 300)
    }

    @Test(
        "OPS-7: a row that was written, deleted or put back within a transaction is logged as it is left"
    )
    func last() throws {
        let folder = TemporaryFolder()
        let store = try RedoneStore(folder: folder.path)
        let (kept, gone) = (Key(bytes: [0, 0, 0, 1, 1]), Key(bytes: [0, 0, 0, 1, 2]))
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.free, kept, [1])
        }
        let count = store.bodies.count
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.free, gone, [2])
            try transaction.raw.put(.free, kept, [3])
            try transaction.raw.delete(.free, gone)
            try transaction.raw.delete(.free, kept)
            try transaction.raw.put(.free, kept, [1])
        }
        #expect(store.bodies.count == count, "a transaction without an effect makes no row")
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.delete(.free, kept)
            try transaction.raw.put(.free, gone, [4])
            try transaction.raw.put(.free, gone, [5])
        }
        #expect(store.bodies.count == count + 1)
    }

    @Test("OPS-7: a copy has its source, whatever the transaction does with the source")
    func sources() throws {
        let folder = TemporaryFolder()
        let store = try RedoneStore(folder: folder.path)
        var random = SeededGenerator(seed: 9)
        let large = (0..<1500).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let keys = (1...6 as ClosedRange<UInt8>).map {
            Key(bytes: [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, $0])
        }
        func write(_ body: (Rows) throws(StorageError) -> Void) throws {
            try store.write { (transaction) throws(StorageError) in try body(transaction.raw) }
        }
        try write { (rows) throws(StorageError) in
            try rows.put(.recipients, keys[0], large)
            try rows.put(.recipients, keys[1], large)
        }
        #expect(try #require(store.bodies.last).count < 2 * large.count)
        // Its only source is deleted, before and after.
        try write { (rows) throws(StorageError) in
            try rows.delete(.recipients, keys[0])
            try rows.put(.recipients, keys[2], large)
            try rows.delete(.recipients, keys[1])
        }
        // Its newest source gets another value, and the value itself moves on.
        try write { (rows) throws(StorageError) in
            try rows.put(.recipients, keys[3], large)
            try rows.put(.recipients, keys[2], [7])
            try rows.put(.recipients, keys[4], large)
        }
        #expect(try #require(store.bodies.last).count < 2 * large.count)
        try write { (rows) throws(StorageError) in
            try rows.put(.recipients, keys[5], large)
        }
        #expect(try #require(store.bodies.last).count < 200)
    }

    // MARK: The log decides

    private struct Refused: Error {}

    /// A fault that comes once, when it is armed.
    private final class Fault: Sendable {
        private let isArmed = Atomic(false)

        func arm() { isArmed.store(true, ordering: .relaxed) }

        func take() -> StorageError? {
            guard isArmed.exchange(false, ordering: .relaxed) else { return nil }
            return StorageError(operation: "put", code: 0, text: "full", isFull: true)
        }
    }

    /// The value of a row of `free`.
    private static func value(of key: Key, in store: Store) throws -> [UInt8]? {
        try store.read { (transaction) throws in
            try transaction.raw.get(.free, key).map { Array($0) }
        }
    }

    /// A thread has one transaction at a time.
    private static func onOtherThread<Value: Sendable>(
        _ body: @escaping @Sendable () -> Value
    ) -> Value? {
        let value = Mutex<Value?>(nil)
        let done = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let found = body()
            value.withLock { $0 = found }
            done.signal()
        }
        done.wait()
        return value.withLock { $0 }
    }

    @Test("OPS-7: a transaction that the log refuses changes nothing, and the next one is written")
    func refused() throws {
        let bench = try StoredBench()
        try bench.project("tides")
        let store = bench.files
        let key = Key(bytes: [0, 0, 0, 1, 1])
        #expect(throws: LoggedWriteError<Refused>.self) {
            try store.write { (transaction) throws(StorageError) in
                try transaction.raw.put(.free, key, [1])
            } log: { (_, _) throws(Refused) in
                throw Refused()
            }
        }
        #expect(try Self.value(of: key, in: store) == nil)
        let position = LogPosition(beginningOf: Array(1...16)).following([1], epoch: 3)
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.free, key, [2])
        } log: { (operations, _) throws(Refused) in
            #expect(!operations.isEmpty)
            return position
        }
        #expect(try store.logPosition() == position)
        try bench.reopen()
        #expect(try bench.files.logPosition() == position)
        #expect(try Self.value(of: key, in: bench.files) == [2])
    }

    @Test("OPS-7: readers see nothing of a transaction before the log has it")
    func unseen() throws {
        let bench = try StoredBench()
        let store = bench.files
        let key = Key(bytes: [0, 0, 0, 1, 1])
        @Sendable func isThere() throws -> Bool {
            try Self.value(of: key, in: store) != nil
        }
        var before: Bool?
        try store.write { (transaction) throws(StorageError) in
            try transaction.raw.put(.free, key, [1])
        } log: { (_, _) throws(Refused) in
            before = Self.onOtherThread { try? isThere() } ?? nil
            return LogPosition(beginningOf: Array(1...16)).following([1], epoch: 1)
        }
        #expect(before == false)
        #expect(try isThere())
    }

    @Test(
        "OPS-7: a map that is full after the log has the row grows, and the engine does not run again"
    )
    func fullMapAfterLog() throws {
        let fault = Fault()
        var faults = StoreFaults(beforeRead: { nil }, beforeCommit: { nil })
        faults.afterLog = { fault.take() }
        let bench = try StoredBench(faults: faults)
        let store = bench.files
        try store.begin(at: LogPosition(beginningOf: Array(1...16)))
        let position = try #require(try store.logPosition()).following([1], epoch: 1)
        let mapBytes = store.size.map
        fault.arm()
        var (runs, rows) = (0, 0)
        try store.write { (transaction) throws(StorageError) in
            runs += 1
            try transaction.raw.put(.free, Key(bytes: [0, 0, 0, 1, UInt8(runs)]), [1])
        } log: { (_, _) throws(Refused) in
            rows += 1
            return position
        }
        #expect(runs == 1 && rows == 1)
        #expect(store.size.map == 2 * mapBytes)
        #expect(try store.logPosition() == position)
        try bench.reopen()
        #expect(try bench.files.logPosition() == position)
        #expect(try bench.rowCounts([.free]) == [1])
    }

    @Test("OPS-7: rows are applied in turn, all of a call or none")
    func turn() throws {
        let bench = try StoredBench()
        let store = bench.files
        // A put of `free` 00 00 00 01 01 = 09.
        let writer: [UInt8] = [1, UInt8(Table.free.rawValue), 5, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 9]
        let beginning = LogPosition(beginningOf: Array(1...16))
        let first = beginning.following([1], epoch: 2)
        let second = first.following([2], epoch: 2)
        let redo = PlacedRedo(operations: writer, position: first)
        #expect(throws: StorageError.self) { try store.apply([redo]) }
        try store.begin(at: beginning)
        var stranger = first
        stranger.incarnation = Array(2...17)
        var old = second
        old.epoch = 1
        for wrong in [
            [PlacedRedo(operations: writer, position: second)],
            [redo, redo],
            [PlacedRedo(operations: writer, position: stranger)],
            [redo, PlacedRedo(operations: writer, position: old)],
            [redo, PlacedRedo(operations: [9, 9], position: second)],
        ] {
            #expect(throws: StorageError.self) { try store.apply(wrong) }
            #expect(try store.logPosition() == beginning)
            #expect(try bench.rowCounts([.free]) == [0])
        }
        try store.apply([redo, PlacedRedo(operations: [], position: second)])
        #expect(try store.logPosition() == second)
        #expect(try bench.rowCounts([.free]) == [1])
    }

    @Test("OPS-7: a row that changes a set is noted for readers with the set in memory")
    func setChange() throws {
        let folder = TemporaryFolder()
        let store = try RedoneStore(folder: folder.path)
        let bench = Bench(limits: .none, store: store)
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        func lastChange() throws -> UInt64 {
            try store.read { (transaction) throws in transaction.lastSetChange(in: project) }
        }
        let before = try lastChange()
        _ = try bench.accepted(.token(instance.token.text), in: project)
        #expect(try lastChange() == before)
        try bench.change(.subscribe, "storm", [instance], in: project)
        #expect(try lastChange() > before)
    }

    // MARK: Bytes

    /// A packing that makes nothing shorter.
    private struct NoPacking: RedoPacking {
        let number: UInt8 = 7
        func pack(_ bytes: [UInt8]) -> [UInt8] { bytes }
        func unpack(_ bytes: UnsafeRawBufferPointer, byteCount: Int) -> [UInt8]? { nil }
    }

    @Test("The bytes of a body and of a position are those of the Storage article")
    func bytes() throws {
        let redo = Redo(
            time: Instant(millisecondsSince1970: 0x0102),
            operations: [2, UInt8(Table.free.rawValue), 5, 0, 0, 0, 0, 1, 1], events: [7],
            outcomes: [8, 8])
        let body = redo.body(packing: NoPacking())
        let operations: [UInt8] = [2, UInt8(Table.free.rawValue), 5, 0, 0, 0, 0, 1, 1]
        let content: [UInt8] =
            little(0x0102 as Int64) + little(9 as UInt32) + operations + little(1 as UInt32) + [7]
            + [8, 8]
        #expect(
            body == [1, 0] + little(UInt16(storeFormatVersion)) + little(UInt32(content.count))
                + content)
        var position = LogPosition(beginningOf: Array(1...16)).following(body, epoch: 4)
        position.chain = Array(21...36)
        #expect(
            position.bytes == Array(1...16) + little(4 as UInt32) + little(1 as UInt64)
                + Array(21...36))
        #expect(try position.bytes.withUnsafeBytes { try LogPosition($0) } == position)
    }

    @Test(
        "A body with a wrong byte, or without its last bytes, is an error or another body, and never a crash"
    )
    func hostileBodies() throws {
        let folder = TemporaryFolder()
        let bench = try Self.bench(folder)
        let project = try bench.project("tides")
        let instances = try bench.register(3, in: "tides")
        try bench.change(.subscribe, "storm", instances, in: project)
        let bodies = (bench.store as! RedoneStore).bodies
        let target = try StoredBench()
        let beginning = LogPosition(beginningOf: Array(1...16))
        try target.files.begin(at: beginning)
        var random = SeededGenerator(seed: 3)
        var errorCount = 0
        for body in bodies {
            for _ in 0..<rounds(300) {
                var wrong = body
                if random.chance(20) {
                    wrong.removeLast(random.number(1...wrong.count))
                } else {
                    wrong[random.number(0...(wrong.count - 1))] ^= UInt8(1 << random.number(0...7))
                }
                do {
                    let redo = try Redo(body: wrong, packing: LZ4Packing())
                    let next = try target.files.logPosition()!.following(wrong, epoch: 1)
                    try target.files.apply([
                        PlacedRedo(operations: redo.operations, position: next)
                    ])
                } catch {
                    #expect(error is RedoError || error is StorageError)
                    errorCount += 1
                }
            }
        }
        #expect(errorCount > rounds(100))
    }

    @Test("A body of another format, of other tables or of another packing names what it is")
    func strangers() {
        let redo = Redo(
            time: Instant(millisecondsSince1970: 1),
            operations: [UInt8](repeating: 0, count: 1000))
        let body = redo.body(packing: LZ4Packing())
        #expect(body.count < 100)
        func error(_ index: Int, _ byte: UInt8) -> RedoError? {
            var wrong = body
            wrong[index] = byte
            do throws(RedoError) {
                _ = try Redo(body: wrong, packing: LZ4Packing())
                return nil
            } catch {
                return error
            }
        }
        #expect(error(0, 2) == .format(2))
        #expect(error(1, 9) == .packing(9))
        #expect(error(2, 200) == .tables(200))
        #expect(error(7, 255) == .damaged)
    }
}
