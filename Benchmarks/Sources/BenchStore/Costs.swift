// SPDX-License-Identifier: Apache-2.0
//
// Single operations beside which the delivery path is to be seen: an allocation, and a block of a
// condition whose sets lie in the cache. Rests on Universe.

import Glibc
import MartletBits
import MartletCondition
import MartletEngine
import MartletRows
import MartletStore

enum Costs {
    static func measure(folder: String) throws {
        for size in [64, 1024] { allocations(size) }
        try blocks(folder)
    }

    /// malloc and free as linked, each freed 256 allocations later, as buffers in queues are.
    static func allocations(_ size: Int) {
        let count = 2_000_000
        let kept = UnsafeMutableBufferPointer<UnsafeMutableRawPointer?>.allocate(capacity: 256)
        kept.initialize(repeating: nil)
        defer { kept.deallocate() }
        let began = nanoseconds()
        for number in 0..<count {
            free(kept[number & 255])
            let memory = malloc(size)
            memory?.storeBytes(of: UInt8(truncatingIfNeeded: number), as: UInt8.self)
            kept[number & 255] = memory
        }
        let spent = nanoseconds() - began
        for memory in kept { free(memory) }
        report([
            "kind": "malloc and free of \(size) bytes", "count": count,
            "nanoseconds": Double(spent) / Double(count),
        ])
    }

    /// Conditions over a million instances: 31 blocks a set, which stay in the cache.
    static func blocks(_ folder: String) throws {
        let instances = 1_000_000
        let universe = try Universe(folder: folder, instances: instances)
        for (number, share) in [0.5, 0.33, 0.1, 0.025, 0.01].enumerated() {
            try universe.addTopic(
                "t\(number)", number: UInt32(number + 1),
                universe.members(.random(share), seed: UInt64(number + 2)))
        }
        let blockCount = (instances + BlockGeometry.bitsPerBlock - 1) / BlockGeometry.bitsPerBlock
        for text in [
            "'t0' in topics && 't1' in topics",
            "'t0' in topics && ('t2' in topics || 't3' in topics)",
            "('t0' in topics || 't2' in topics) && !('t1' in topics && 't3' in topics) || 't4' in topics",
        ] {
            try universe.store.read { transaction throws in
                let condition = try Condition(parsing: text, topicsMax: 64)
                var sets: [InstanceSet] = []
                for name in condition.topics {
                    sets.append(
                        .topic(
                            try transaction.topics.topic(named: name, in: universe.project)?.number
                                ?? .nobody))
                }
                sets.append(.everyone)
                let rounds = 2000
                var matches: UInt64 = 0
                let began = nanoseconds()
                for _ in 0..<rounds {
                    var evaluator = ConditionEvaluator(
                        condition,
                        source: try transaction.sets.blocks(of: sets, in: universe.project))
                    matches &+= evaluator.count()
                }
                let spent = nanoseconds() - began
                precondition(matches > 0)
                report([
                    "kind": "block evaluated, \(condition.topics.count) topics, in the cache",
                    "count": rounds * blockCount,
                    "nanoseconds": Double(spent) / Double(rounds * blockCount),
                ])
            }
        }
    }
}
