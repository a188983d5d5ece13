// SPDX-License-Identifier: Apache-2.0
//
// Sets that pass through every form they are stored in, and across the boundary of a block, on a real
// store. Rests on Bench.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletCondition
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

@Suite("Every form of a set")
struct SetFormTests {
    /// Reads the rows of a topic's set past the store.
    private func forms(_ bench: StoredBench, topic: UInt32, blocks: Int) throws -> [String] {
        var forms: [String] = []
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let prefix = big(0 as UInt32) + big(topic)
            for block in Array(0..<UInt32(blocks)) + [.max] {
                guard let value = try raw.get("sets", prefix + big(block)) else { continue }
                forms.append(
                    block == .max
                        ? "small"
                        : value.count == 4080
                            ? "bitmap" : value.count % 2 == 0 ? "list" : "runs")
            }
        }
        return forms
    }

    @Test(
        "TOP-1 CON-1: a topic grows through a list of ordinals, lists of blocks and bitmaps and shrinks again, and is always who subscribed"
    )
    func growth() throws {
        let bench = try StoredBench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        // Across the boundary of a block: 32,640 are the first block's.
        let instances = try bench.register(38_400, in: "tides")
        #expect(instances.allSatisfy { $0.ordinal.isUsable })
        #expect(instances[32_639].ordinal.rawValue == 32_639)
        #expect(instances[32_640].ordinal.rawValue == 32_768)
        try bench.change(
            .subscribe, "even", instances.indices.filter { $0 % 2 == 0 }.map { instances[$0] },
            in: project)
        var members = Set<Int>()
        func expect(_ expected: [String], _ location: SourceLocation = #_sourceLocation) throws {
            #expect(try forms(bench, topic: 1, blocks: 2) == expected, sourceLocation: location)
            let tokens = try bench.members(of: "dogs", in: project)
            #expect(
                tokens == members.sorted().map { instances[$0].token }, sourceLocation: location)
            let audience = try bench.store.read { (transaction) throws in
                try Audience(
                    of: "'dogs' in topics && !('even' in topics)", in: project, SharedPrograms(),
                    transaction)
            }
            #expect(
                audience.total == UInt64(members.filter { $0 % 2 == 1 }.count),
                sourceLocation: location)
            let all = try bench.store.read { (transaction) throws in
                try Audience(of: "!('dogs' in topics)", in: project, SharedPrograms(), transaction)
            }
            #expect(all.total == UInt64(38_400 - members.count), sourceLocation: location)
            try bench.expectClean(location)
        }
        // Every second of them, as neighbours would be kept as runs.
        func scattered(_ range: some Sequence<Int>) -> [Int] {
            range.map { $0 < 10_000 ? 2 * $0 + 1 : $0 < 33_000 ? $0 : 2 * $0 - 32_999 }
        }
        func join(_ range: some Sequence<Int>) throws {
            let indices = scattered(range)
            members.formUnion(indices)
            try bench.change(.subscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        func leave(_ range: some Sequence<Int>) throws {
            let indices = scattered(range)
            members.subtract(indices)
            try bench.change(.unsubscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        func leaveAll() throws {
            try bench.change(
                .unsubscribe, "dogs", members.sorted().map { instances[$0] }, in: project)
            members = []
            #expect(try forms(bench, topic: 1, blocks: 2) == [])
        }
        try join(0..<440)
        try join(32_639..<32_647)
        try expect(["small"])
        try join(5_000..<6_596)
        #expect(members.count == 2044)
        try expect(["small"])
        // One more than a list of ordinals holds.
        try join([6_596])
        try expect(["bitmap", "list"])
        try leave(1..<440)
        try leave(5_000..<5_583)
        #expect(members.count == 1023)
        try expect(["bitmap", "list"])
        // Half of what it holds.
        try leave([5_583])
        try expect(["small"])
        try join([5_583])
        try expect(["small"])
        try leaveAll()
        // The lists of blocks.
        try join(33_000..<35_640)
        try expect(["bitmap"])
        try join(0..<498)
        try expect(["list", "bitmap"])
        try join([498, 499])
        try expect(["list", "bitmap"])
        // The first block's 501st.
        try join([500])
        try expect(["bitmap", "bitmap"])
        try leave(251..<501)
        try expect(["bitmap", "bitmap"])
        try leave([250])
        try expect(["list", "bitmap"])
        try leave(33_000..<34_867)
        #expect(members.count == 1023)
        try expect(["list", "bitmap"])
        try leave([7])
        try expect(["small"])
        try leaveAll()
        try join([3])
        try expect(["small"])
    }

    @Test(
        "TOP-1 CON-1: a topic of subscribers that lie together is one row of runs, falls apart where they are many, and comes together again"
    )
    func runs() throws {
        let bench = try StoredBench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        let instances = try bench.register(36_000, in: "tides")
        var members = Set<Int>()
        func expect(_ expected: [String], _ location: SourceLocation = #_sourceLocation) throws {
            #expect(try forms(bench, topic: 0, blocks: 2) == expected, sourceLocation: location)
            let tokens = try bench.members(of: "dogs", in: project)
            #expect(
                tokens == members.sorted().map { instances[$0].token }, sourceLocation: location)
            for (condition, count) in [
                ("'dogs' in topics", members.count),
                ("!('dogs' in topics)", 36_000 - members.count),
            ] {
                let total = try bench.store.read { (transaction) throws in
                    try Audience(of: condition, in: project, SharedPrograms(), transaction).total
                }
                #expect(total == UInt64(count), sourceLocation: location)
            }
            try bench.expectClean(location)
        }
        func join(_ indices: some Sequence<Int>) throws {
            members.formUnion(indices)
            try bench.change(.subscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        func leave(_ indices: some Sequence<Int>) throws {
            members.subtract(indices)
            try bench.change(.unsubscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        try join(100..<2144)
        try expect(["small"])
        try join([2144])
        try expect(["runs"])
        // Across the boundary of a block, and at its borders.
        try join(32_000..<34_000)
        try join([0])
        try expect(["runs"])
        // The 33rd run of the first block.
        try leave(stride(from: 110, to: 110 + 29 * 10, by: 10))
        try expect(["runs"])
        try leave([500])
        try expect(["bitmap", "bitmap"])
        // The second block has few, the first still too many.
        try join(34_100..<34_110)
        try expect(["bitmap", "bitmap"])
        try leave(100..<2145)
        try leave(32_000..<32_640)
        try expect(["runs"])
        try leave(33_000..<34_000)
        try expect(["small"])
        try leave(members.sorted())
        #expect(try forms(bench, topic: 0, blocks: 2) == [])
    }

    @Test(
        "CON-1 CON-4: sets over several spans match as a model says, whatever is added and removed")
    func spans() throws {
        let bench = try StoredBench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        var random = SeededGenerator(seed: 20_261_122)
        let sets: [InstanceSet] = [
            .topic(TopicNumber(7)), .topic(TopicNumber(8)), .topic(TopicNumber(9)), .everyone,
        ]
        var models = [Set<UInt32>](repeating: [], count: 4)
        // Two whole spans and a part of a third.
        func ordinal() -> UInt32 {
            UInt32(random.next() % 36) << 15 | UInt32(random.next() % 32_640)
        }
        let conditions: [(String, @Sendable (UInt32, [Set<UInt32>]) -> Bool)] = [
            ("'A' in topics", { $1[0].contains($0) }),
            ("'A' in topics && 'B' in topics", { $1[0].contains($0) && $1[1].contains($0) }),
            ("!('A' in topics)", { !$1[0].contains($0) }),
            (
                "'A' in topics && ('B' in topics || !('C' in topics))",
                { $1[0].contains($0) && ($1[1].contains($0) || !$1[2].contains($0)) }
            ),
        ]
        for round in 0..<rounds(160) {
            let slot = Int(random.next() % 3)
            var some: Set<UInt32> = []
            switch random.next() % 5 {
            case 0: some = [ordinal()]
            case 1: for _ in 0..<200 { some.insert(ordinal()) }
            case 2 where round > 20: some = Set(models[slot].sorted().prefix(4000))
            default:
                let first = ordinal()
                some = Set(
                    (first..<first + UInt32(random.next() % 60_000)).filter { Ordinal($0).isUsable }
                )
            }
            let isAdding = random.next() % 3 != 0
            let sorted = some.sorted()
            let changed = try bench.store.write { (transaction) throws(StorageError) in
                isAdding
                    ? try transaction.sets.add(sorted, to: sets[slot], in: project)
                    : try transaction.sets.remove(sorted, from: sets[slot], in: project)
            }
            let before = models[slot].count
            if isAdding { models[slot].formUnion(some) } else { models[slot].subtract(some) }
            #expect(changed == abs(models[slot].count - before))
            if isAdding {
                // Nobody subscribes who is not there.
                _ = try bench.store.write { (transaction) throws(StorageError) in
                    try transaction.sets.add(sorted, to: .everyone, in: project)
                }
                models[3].formUnion(some)
            }
            guard round % 8 == 7 else { continue }
            for (text, value) in conditions {
                let condition = try Condition(parsing: text)
                let expected = models[3].filter { value($0, models) }
                let slots =
                    condition.topics.map { sets[Int($0.text.utf8.first!) - 65] } + [.everyone]
                try bench.store.read { (transaction) throws in
                    var counter = ConditionEvaluator(
                        condition, source: try transaction.sets.blocks(of: slots, in: project))
                    #expect(counter.count() == UInt64(expected.count))
                    var writer = ConditionEvaluator(
                        condition, source: try transaction.sets.blocks(of: slots, in: project))
                    var found: [UInt32] = []
                    while let block = writer.next() {
                        block.view.forEachBit { found.append(block.block << 15 | UInt32($0)) }
                    }
                    #expect(found == expected.sorted())
                    // One block after the other, from anywhere.
                    var source = try transaction.sets.blocks(of: [sets[slot]], in: project)
                    let from = ordinal() >> 15
                    let next = source.nextBlock(slot: 0, from: from)
                    let first = models[slot].filter { $0 >> 15 >= from }.min()
                    #expect(next?.block == first.map { $0 >> 15 })
                    #expect(
                        next?.view.count
                            == first.map { first in models[slot].count { $0 >> 15 == first >> 15 } }
                    )
                    try source.finish()
                }
            }
        }
    }

    @Test("CON-1 TOP-1: topics that pass back and forth between the forms match as a model says")
    func wandering() throws {
        let bench = try StoredBench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        let instances = try bench.register(34_000, in: "tides")
        var random = SeededGenerator(seed: 20_260_101)
        var sets = [Set<Int>](repeating: [], count: 3)
        let names = ["a", "b", "c"]
        func total(_ condition: String) throws -> Int {
            try bench.store.read { (transaction) throws in
                Int(
                    try Audience(of: condition, in: project, SharedPrograms(), transaction).total)
            }
        }
        for _ in 0..<rounds(60) {
            let topic = Int(random.next() % 3)
            // Around the bounds: 1022 and 2044 members.
            let target = [0, 3, 1021, 1022, 1023, 2043, 2044, 2045, 3000][Int(random.next() % 9)]
            var some: Set<Int> = []
            while sets[topic].count + some.count < target {
                let one = Int(random.next() % 34_000)
                if !sets[topic].contains(one) { some.insert(one) }
            }
            if !some.isEmpty {
                try bench.change(
                    .subscribe, names[topic], some.sorted().map { instances[$0] }, in: project)
                sets[topic].formUnion(some)
            } else if sets[topic].count > target {
                let leaving = sets[topic].sorted().dropFirst(target)
                try bench.change(
                    .unsubscribe, names[topic], leaving.map { instances[$0] }, in: project)
                sets[topic].subtract(leaving)
            }
            let (a, b, c) = (sets[0], sets[1], sets[2])
            #expect(
                try total("'a' in topics && ('b' in topics || 'c' in topics)")
                    == a.intersection(b.union(c)).count)
            #expect(
                try total("'a' in topics || 'b' in topics || 'c' in topics")
                    == a.union(b).union(c).count)
            #expect(
                try total("'a' in topics && !('b' in topics)") == a.subtracting(b).count)
            #expect(
                try total("!('a' in topics) || 'c' in topics")
                    == 34_000 - a.subtracting(c).count)
        }
        for (topic, name) in names.enumerated() where !sets[topic].isEmpty {
            #expect(
                try bench.members(of: name, in: project)
                    == sets[topic].sorted().map { instances[$0].token })
        }
        try bench.expectClean()
    }

    @Test(
        "MSG-6 CON-10: a message to tens of thousands is kept once, and is everyone's until acknowledged"
    )
    func large() throws {
        let bench = try StoredBench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        let instances = try bench.register(33_000, in: "tides")
        try bench.change(.subscribe, "a", instances[..<20_000], in: project)
        try bench.change(.subscribe, "b", instances[10_000...], in: project)
        let condition = "'a' in topics || 'b' in topics"
        let (all, fanout) = try bench.accepted(.condition(condition), in: project, body: [1])
        #expect(all.recipientCount == 33_000)
        #expect(fanout?.recipients.count == 33_000)
        let (some, _) = try bench.accepted(
            .condition("'a' in topics && 'b' in topics"), in: project, body: [2])
        #expect(some.recipientCount == 10_000)
        for (index, bodies) in [
            (0, [[1]]), (9999, [[1]]), (10_000, [[1], [2]]), (19_999, [[1], [2]]),
            (20_000, [[1]]), (32_640, [[1]]), (32_999, [[1]]),
        ] as [(Int, [[UInt8]])] {
            #expect(try bench.pending(instances[index]).map(\.body) == bodies)
        }
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: instances[10_000].ordinal,
                    through: .even(1))
            ]))
        #expect(try bench.pending(instances[10_000]).map(\.body) == [[2]])
        try bench.expectClean()
    }
}
