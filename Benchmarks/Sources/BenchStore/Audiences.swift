// SPDX-License-Identifier: Apache-2.0
//
// The audience of conditions, straight from LMDB's map, warm, beside the memory bandwidth of this
// core. Rests on Universe.

import Glibc
import MartletBase
import MartletBits
import MartletCondition
import MartletEngine
import MartletStore

enum Audiences {
    static let topics: [(name: String, shape: Shape)] = [
        ("half", .random(0.5)), ("third", .random(0.33)), ("tenth", .random(0.1)),
        ("fortieth", .random(0.025)), ("percent", .random(0.01)),
        ("sparse1", .random(0.0001)), ("sparse2", .random(0.0001)), ("sparse3", .random(0.00005)),
        ("cluster1", .clustered(0.4)), ("cluster2", .clustered(0.2)), ("cluster3", .clustered(0.05)),
        ("fifth", .random(0.2)),
    ]

    /// The shape of a condition over its topics; the same list stands in roaring.py.
    static let conditions: [(kind: String, text: String)] = [
        ("2 dense", "'half' in topics && 'third' in topics"),
        ("3 mixed", "'half' in topics && ('tenth' in topics || 'fortieth' in topics)"),
        ("3 mixed, negated", "!('tenth' in topics) && 'half' in topics || 'percent' in topics"),
        (
            "5 mixed",
            "('half' in topics || 'tenth' in topics) && !('third' in topics && 'fortieth' in topics) || 'percent' in topics"
        ),
        ("3 sparse", "'sparse1' in topics && ('sparse2' in topics || 'sparse3' in topics)"),
        ("3 sparse, any", "'sparse1' in topics || 'sparse2' in topics || 'sparse3' in topics"),
        ("3 clustered", "'cluster1' in topics && ('cluster2' in topics || 'cluster3' in topics)"),
        ("sparse of dense", "'sparse1' in topics && ('half' in topics || 'third' in topics)"),
        (
            "12 topics",
            "('half' in topics && 'third' in topics) || ('tenth' in topics && 'fortieth' in topics) || ('percent' in topics && 'fifth' in topics) || ('sparse1' in topics && 'sparse2' in topics) || ('cluster1' in topics && 'cluster2' in topics) || ('cluster3' in topics && 'sparse3' in topics)"
        ),
    ]

    static func measure(folder: String, instances: Int, dumps: Bool) throws {
        let universe = try Universe(folder: folder, instances: instances)
        for (number, topic) in topics.enumerated() {
            let members = universe.members(topic.shape, seed: UInt64(number + 2))
            try universe.addTopic(topic.name, number: UInt32(number + 1), members)
            if dumps { dump(members, to: "\(folder)/topic-\(topic.name).u32") }
        }
        report([
            "kind": "memory bandwidth", "gigabytesPerSecond": bandwidth(),
            "level": "\(SIMDLevel.current)",
        ])
        for (kind, text) in conditions {
            try universe.store.read { (transaction) throws in
                let condition = try Condition(parsing: text, topicsMax: 64)
                var counts: [UInt64] = []
                var builds: [UInt64] = []
                var matches: UInt64 = 0
                for _ in 0..<31 {
                    let began = nanoseconds()
                    let slots = try slots(condition, universe, transaction)
                    var counter = ConditionEvaluator(condition, source: slots)
                    matches = counter.count()
                    let middle = nanoseconds()
                    var writer = ConditionEvaluator(
                        condition, source: try Self.slots(condition, universe, transaction))
                    var builder = RecipientSetBuilder()
                    while let block = writer.next() {
                        builder.append(block: block.block, view: block.view, count: block.count)
                    }
                    let set = builder.finish()
                    builds.append(nanoseconds() - middle)
                    counts.append(middle - began)
                    precondition(set.count == matches)
                }
                report([
                    "kind": kind, "instances": instances, "matches": matches,
                    "countMilliseconds": Double(counts.sorted()[15]) / 1e6,
                    "buildMilliseconds": Double(builds.sorted()[15]) / 1e6,
                    "nanosecondsPerBlock": Double(counts.sorted()[15])
                        / (Double(instances) / Double(BlockGeometry.bitsPerBlock)),
                ])
            }
        }
    }

    /// As `Engine` resolves them, the look-up of the topics included.
    static func slots(
        _ condition: Condition, _ universe: Universe, _ transaction: borrowing Transaction
    ) throws -> StoredBlocks {
        var sets: [InstanceSet] = []
        for name in condition.topics {
            sets.append(
                .topic(try transaction.topic(named: name, in: universe.project)?.number ?? .nobody))
        }
        sets.append(.everyone)
        return try transaction.blocks(of: sets, in: universe.project)
    }

    static func dump(_ members: [UInt32], to path: String) {
        guard let file = fopen(path, "w") else { return }
        // Positions without the holes between blocks, as another library would number them.
        let positions = members.map { raw in
            UInt32(
                Int(Ordinal(raw).blockIndex) * BlockGeometry.bitsPerBlock + Ordinal(raw).bitIndex)
        }
        positions.withUnsafeBytes { _ = fwrite($0.baseAddress, 1, $0.count, file) }
        fclose(file)
    }

    /// Reading 256 MB of one core, best of five.
    static func bandwidth() -> Double {
        let words = (256 << 20) / 8
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: words)
        memory.initialize(repeating: 1, count: words)
        defer { memory.deallocate() }
        var best = UInt64.max
        var sum: UInt64 = 0
        for _ in 0..<5 {
            let began = nanoseconds()
            var sums = SIMD8<UInt64>()
            memory.withMemoryRebound(to: SIMD8<UInt64>.self, capacity: words / 8) { vectors in
                for index in 0..<words / 8 { sums &+= vectors[index] }
            }
            sum &+= sums.wrappedSum()
            best = min(best, nanoseconds() - began)
        }
        precondition(sum > 0)
        return Double(words * 8) / Double(best)
    }
}
