// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint that the disk fails (OPS-12): the store opens its folder again by itself, on the state that was
// committed, and until then only reads. Rests on StoredBench and the store's faults.

import EngineBench
import Glibc
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Synchronization
import Testing

@Suite("A store that opens its folder again")
struct ReopeningTests {
    /// A disk whose next checkpoints fail.
    private final class Disk: Sendable {
        let failuresLeft = Atomic<Int>(0)
        let failureCount = Atomic<Int>(0)
        /// Tells a reader to end.
        let isEnding = Atomic<Bool>(false)

        var faults: StoreFaults {
            StoreFaults(
                beforeRead: { nil }, beforeCommit: { nil },
                beforeBase: {
                    guard self.failuresLeft.load(ordering: .relaxed) > 0 else { return nil }
                    self.failuresLeft.subtract(1, ordering: .relaxed)
                    self.failureCount.add(1, ordering: .relaxed)
                    return StorageError(
                        operation: "checkpoint", code: EIO, text: "no", isFull: false)
                })
        }
    }

    private static func send(_ bench: StoredBench, to instance: Instance) throws {
        _ = try bench.accepted(.token(instance.token.text), in: instance.project)
    }

    @Test("OPS-12 after one failed checkpoint no transaction is refused, and none is lost")
    func once() throws {
        let disk = Disk()
        let bench = try StoredBench(checkpointCommitsMax: 5, faults: disk.faults)
        let instance = try bench.register(in: "tides")
        var lastNumber: UInt64 = 0
        for round in 1...4 {
            disk.failuresLeft.store(1, ordering: .relaxed)
            for _ in 0..<30 { try Self.send(bench, to: instance) }
            #expect(disk.failureCount.load(ordering: .relaxed) == round)
            #expect(try bench.pending(instance).count == 30 * round)
            // A recovery sets LMDB's numbers back. A cache that compares numbers must see a set's change.
            let number = try bench.files.read { (transaction) throws in transaction.snapshot }
            #expect(number > lastNumber)
            lastNumber = number
            let another = try bench.register(in: "tides")
            try bench.change(.subscribe, "all", [another], in: instance.project)
            #expect(try bench.members(of: "all", in: instance.project).count == round)
        }
        try bench.expectClean()
        try bench.reopen()
        #expect(try bench.pending(instance).count == 120)
        try bench.expectClean()
    }

    @Test("OPS-12 while checkpoints fail, reads go on; then transactions go on, and none is lost")
    func lasting() throws {
        let disk = Disk()
        let bench = try StoredBench(checkpointCommitsMax: 5, faults: disk.faults)
        let instance = try bench.register(in: "tides")
        disk.failuresLeft.store(2, ordering: .relaxed)
        var acceptedCount = 0
        var refusals: [StorageError] = []
        while refusals.isEmpty {
            do {
                try Self.send(bench, to: instance)
                acceptedCount += 1
            } catch let error as StorageError { refusals.append(error) }
        }
        #expect(refusals[0].code == EIO, "\(refusals)")
        #expect(try bench.pending(instance).count == acceptedCount)
        // The next attempt is due a second later, and the disk is sound then.
        for _ in 0..<100 {
            do {
                try Self.send(bench, to: instance)
                acceptedCount += 1
                break
            } catch is StorageError { usleep(100_000) }
        }
        for _ in 0..<30 { try Self.send(bench, to: instance) }
        #expect(try bench.pending(instance).count == acceptedCount + 30)
        try bench.expectClean()
        try bench.reopen()
        #expect(try bench.pending(instance).count == acceptedCount + 30)
    }

    @Test("OPS-12 readers on other threads see whole states while the folder is opened again")
    func readers() async throws {
        let disk = Disk()
        let bench = try StoredBench(checkpointCommitsMax: 5, faults: disk.faults)
        let instance = try bench.register(in: "tides")
        let store = bench.files
        let project = instance.project
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                var last: UInt64 = 0
                while !disk.isEnding.load(ordering: .relaxed) {
                    let now = try store.read { (transaction) throws in
                        try transaction.projects.project(project)!.lastSequence.rawValue
                    }
                    #expect(now >= last)
                    last = now
                    await Task.yield()
                }
            }
            for _ in 0..<10 {
                disk.failuresLeft.store(1, ordering: .relaxed)
                for _ in 0..<20 { try Self.send(bench, to: instance) }
            }
            disk.isEnding.store(true, ordering: .relaxed)
            try await tasks.waitForAll()
        }
        #expect(disk.failureCount.load(ordering: .relaxed) == 10)
        try bench.expectClean()
    }
}
