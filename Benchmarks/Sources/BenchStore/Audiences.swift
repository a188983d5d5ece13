// SPDX-License-Identifier: Apache-2.0
//
// The audience of conditions, straight from LMDB's map, warm, beside the bytes of the sets they read
// and the bandwidth of this core, from memory and from its caches. Rests on Universe.

import Glibc
import MartletBase
import MartletBits
import MartletCondition
import MartletEngine
import MartletRows
import MartletStore

enum Audiences {
    static let topics: [(name: String, shape: Shape)] = [
        ("half", .random(0.5)), ("third", .random(0.33)), ("tenth", .random(0.1)),
        ("fortieth", .random(0.025)), ("percent", .random(0.01)),
        ("sparse1", .random(0.0001)), ("sparse2", .random(0.0001)), ("sparse3", .random(0.00005)),
        ("cluster1", .clustered(0.4)), ("cluster2", .clustered(0.2)),
        ("cluster3", .clustered(0.05)),
        ("fifth", .random(0.2)), ("quarter", .random(0.25)), ("twentieth", .random(0.05)),
        ("twofifths", .random(0.4)), ("threefifths", .random(0.6)),
        ("sparse4", .random(0.0001)), ("sparse5", .random(0.00005)),
        ("cluster4", .clustered(0.3)), ("cluster5", .clustered(0.1)),
    ]

    /// The same list stands in roaring.py.
    static let conditions: [(kind: String, text: String)] = [
        ("1 dense", "'half' in topics"),
        ("2 dense", "'half' in topics && 'third' in topics"),
        ("3 dense", "'half' in topics && ('third' in topics || 'fifth' in topics)"),
        (
            "4 dense",
            "('half' in topics && 'third' in topics) || ('fifth' in topics && 'twofifths' in topics)"
        ),
        (
            "5 dense",
            "(('half' in topics && 'third' in topics) || ('fifth' in topics && 'twofifths' in topics)) && !('threefifths' in topics)"
        ),
        ("1 mixed", "'tenth' in topics"),
        ("2 mixed", "'half' in topics && 'fortieth' in topics"),
        ("3 mixed", "'half' in topics && ('tenth' in topics || 'fortieth' in topics)"),
        ("3 mixed, negated", "!('tenth' in topics) && 'half' in topics || 'percent' in topics"),
        (
            "4 mixed",
            "'half' in topics && ('tenth' in topics || 'fortieth' in topics) && !('percent' in topics)"
        ),
        (
            "5 mixed",
            "('half' in topics || 'tenth' in topics) && !('third' in topics && 'fortieth' in topics) || 'percent' in topics"
        ),
        ("1 sparse", "'sparse1' in topics"),
        ("2 sparse", "'sparse1' in topics && 'sparse2' in topics"),
        ("3 sparse", "'sparse1' in topics && ('sparse2' in topics || 'sparse3' in topics)"),
        ("3 sparse, any", "'sparse1' in topics || 'sparse2' in topics || 'sparse3' in topics"),
        (
            "4 sparse",
            "('sparse1' in topics || 'sparse2' in topics) && ('sparse3' in topics || 'sparse4' in topics)"
        ),
        (
            "5 sparse",
            "'sparse1' in topics || 'sparse2' in topics || 'sparse3' in topics || 'sparse4' in topics || 'sparse5' in topics"
        ),
        ("sparse of dense", "'sparse1' in topics && ('half' in topics || 'third' in topics)"),
        ("1 clustered", "'cluster1' in topics"),
        ("2 clustered", "'cluster1' in topics && 'cluster2' in topics"),
        ("3 clustered", "'cluster1' in topics && ('cluster2' in topics || 'cluster3' in topics)"),
        (
            "4 clustered",
            "('cluster1' in topics || 'cluster2' in topics) && ('cluster3' in topics || 'cluster4' in topics)"
        ),
        (
            "5 clustered",
            "('cluster1' in topics || 'cluster2' in topics) && ('cluster3' in topics || 'cluster4' in topics) && !('cluster5' in topics)"
        ),
        ("12 topics", twelve),
        (
            "20 topics",
            twelve
                + " || ('twofifths' in topics && 'quarter' in topics) || ('threefifths' in topics && 'twentieth' in topics) || ('sparse4' in topics && 'sparse5' in topics) || ('cluster4' in topics && 'cluster5' in topics)"
        ),
    ]

    private static let twelve =
        "('half' in topics && 'third' in topics) || ('tenth' in topics && 'fortieth' in topics) || ('percent' in topics && 'fifth' in topics) || ('sparse1' in topics && 'sparse2' in topics) || ('cluster1' in topics && 'cluster2' in topics) || ('cluster3' in topics && 'sparse3' in topics)"

    /// Times that each condition is evaluated; the middle one is reported.
    private static let rounds = 61

    static func measure(folder: String, instances: Int, dumps: Bool) throws {
        let universe = try Universe(folder: folder, instances: instances)
        for (number, topic) in topics.enumerated() {
            let members = universe.members(topic.shape, seed: UInt64(number + 2))
            try universe.addTopic(topic.name, number: UInt32(number + 1), members)
            if dumps { dump(members, to: "\(folder)/topic-\(topic.name).u32") }
        }
        report([
            "kind": "bandwidth", "fromMemory": bandwidth(bytes: 256 << 20),
            "fromCache": bandwidth(bytes: 3 << 20), "level": "\(SIMDLevel.current)",
        ])
        for (kind, text) in conditions {
            try universe.store.read { (transaction) throws in
                let condition = try Condition(parsing: text, topicsMax: 64)
                var counts: [UInt64] = []
                var builds: [UInt64] = []
                var matches: UInt64 = 0
                // Counts alone and then sets alone, as roaring.py measures: a set that is built drives
                // what the next count reads out of the nearest caches.
                for _ in 0..<rounds {
                    let began = nanoseconds()
                    let slots = try slots(condition, universe, transaction)
                    var counter = ConditionEvaluator(condition, source: slots)
                    matches = counter.count()
                    counts.append(nanoseconds() - began)
                }
                for _ in 0..<rounds {
                    let began = nanoseconds()
                    var writer = ConditionEvaluator(
                        condition, source: try Self.slots(condition, universe, transaction))
                    var builder = RecipientSetBuilder()
                    while let block = writer.next() {
                        builder.append(block: block.block, view: block.view, count: block.count)
                    }
                    let set = builder.finish()
                    builds.append(nanoseconds() - began)
                    precondition(set.count == matches)
                }
                report([
                    "kind": kind, "instances": instances, "matches": matches,
                    "setBytes": bytes(of: try slots(condition, universe, transaction), condition),
                    "countMilliseconds": Double(counts.sorted()[rounds / 2]) / 1e6,
                    "buildMilliseconds": Double(builds.sorted()[rounds / 2]) / 1e6,
                    "nanosecondsPerBlock": Double(counts.sorted()[rounds / 2])
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
                .topic(
                    try transaction.topics.topic(named: name, in: universe.project)?.number
                        ?? .nobody))
        }
        sets.append(.everyone)
        return try transaction.sets.blocks(of: sets, in: universe.project)
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

    /// Bytes of the sets that a condition reads, all of them. A conjunction with a small set skips
    /// blocks of the others and reads less.
    static func bytes(of source: consuming StoredBlocks, _ condition: Condition) -> Int {
        var bytes = 0
        for slot in 0..<condition.slotCount {
            var from: UInt32 = 0
            while let found = source.nextBlock(slot: slot, from: from) {
                switch found.view {
                case .empty, .full: break
                case .list(let list): bytes += 2 * list.count
                case .wideList(let list): bytes += list.count
                case .runs(let toggles): bytes += 2 * toggles.count
                case .bitmap: bytes += BlockGeometry.bytesPerBlock
                }
                from = found.block + 1
            }
        }
        return bytes
    }

    /// Gigabytes a second of one core that counts the bits of so many bytes, block by block: the
    /// least that any condition over bitmaps does. Best of several.
    static func bandwidth(bytes: Int) -> Double {
        let blocks = bytes / 4096
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: blocks * 512)
        words.initialize(repeating: 1, count: blocks * 512)
        defer { words.deallocate() }
        var best = UInt64.max
        var sum = 0
        for _ in 0..<max(5, (128 << 20) / bytes) {
            let began = nanoseconds()
            for block in 0..<blocks {
                sum &+= BlockView.count(of: UnsafePointer(words + block * 512))
            }
            best = min(best, nanoseconds() - began)
        }
        precondition(sum > 0)
        return Double(blocks * BlockGeometry.bytesPerBlock) / Double(best)
    }
}
