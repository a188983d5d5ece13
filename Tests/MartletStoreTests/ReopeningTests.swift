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

    /// Sends until one more checkpoint has failed, and then past the failure.
    /// - Returns: how many messages were sent.
    private static func sendOverFailure(
        _ bench: StoredBench, to instance: Instance, of disk: Disk
    ) throws -> Int {
        let wanted = disk.failureCount.load(ordering: .relaxed) + 1
        disk.failuresLeft.store(1, ordering: .relaxed)
        var count = 0
        while disk.failureCount.load(ordering: .relaxed) < wanted, count < 1000 {
            try send(bench, to: instance)
            count += 1
            // The checkpoint has a thread of its own.
            usleep(5000)
        }
        #expect(disk.failureCount.load(ordering: .relaxed) == wanted)
        for _ in 0..<3 { try send(bench, to: instance) }
        return count + 3
    }

    /// The store opens its folder at most once a second.
    private static func rest() { usleep(1_100_000) }

    @Test("OPS-12 after one failed checkpoint no transaction is refused, and none is lost")
    func once() throws {
        let disk = Disk()
        let bench = try StoredBench(checkpointCommitsMax: 5, faults: disk.faults)
        let instance = try bench.register(in: "tides")
        var sentCount = 0
        var lastNumber: UInt64 = 0
        for round in 1...3 {
            sentCount += try Self.sendOverFailure(bench, to: instance, of: disk)
            #expect(try bench.pending(instance).count == sentCount)
            // A recovery sets LMDB's numbers back. A cache that compares numbers must see a set's change.
            let number = try bench.files.read { (transaction) throws in transaction.snapshot }
            #expect(number > lastNumber)
            lastNumber = number
            let another = try bench.register(1, in: "tides")[0]
            try bench.change(.subscribe, "all", [another], in: instance.project)
            #expect(try bench.members(of: "all", in: instance.project).count == round)
            Self.rest()
        }
        try bench.expectClean()
        try bench.reopen()
        #expect(try bench.pending(instance).count == sentCount)
        try bench.expectClean()
    }

    @Test("OPS-12 while checkpoints fail, reads go on; then transactions go on, and none is lost")
    func lasting() throws {
        let disk = Disk()
        let bench = try StoredBench(checkpointCommitsMax: 5, faults: disk.faults)
        let instance = try bench.register(in: "tides")
        disk.failuresLeft.store(.max, ordering: .relaxed)
        var acceptedCount = 0
        for _ in 0..<60 {
            do {
                try Self.send(bench, to: instance)
                acceptedCount += 1
            } catch let error as StorageError { #expect(error.code == EIO, "\(error)") }
            #expect(try bench.pending(instance).count == acceptedCount)
            usleep(5000)
        }
        #expect(disk.failureCount.load(ordering: .relaxed) > 0)
        disk.failuresLeft.store(0, ordering: .relaxed)
        // A running checkpoint may still fail, and the next attempt is due a second later.
        var inARow = 0
        for _ in 0..<200 where inARow < 10 {
            do {
                try Self.send(bench, to: instance)
                acceptedCount += 1
                inARow += 1
            } catch is StorageError {
                inARow = 0
                usleep(100_000)
            }
        }
        #expect(inARow == 10)
        #expect(try bench.pending(instance).count == acceptedCount)
        try bench.expectClean()
        try bench.reopen()
        #expect(try bench.pending(instance).count == acceptedCount)
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
                while !disk.isEnding.load(ordering: .relaxed), !Task.isCancelled {
                    let now = try store.read { (transaction) throws in
                        try transaction.projects.project(project)!.lastSequence.rawValue
                    }
                    #expect(now >= last)
                    last = now
                    await Task.yield()
                }
            }
            for _ in 0..<3 {
                _ = try Self.sendOverFailure(bench, to: instance, of: disk)
                Self.rest()
            }
            disk.isEnding.store(true, ordering: .relaxed)
            try await tasks.waitForAll()
        }
        try bench.expectClean()
    }
}
