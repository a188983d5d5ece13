// SPDX-License-Identifier: Apache-2.0
//
// Sets that pass through every form they are stored in, and across the boundary of a block, on a real
// store. Rests on Bench.

import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletStore
import Testing

@Suite("Every form of a set")
struct SetFormTests {
    /// Reads the rows of a topic's set past the store.
    private func forms(_ bench: Bench, topic: UInt32, blocks: Int) throws -> [String] {
        var forms: [String] = []
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let prefix = big(0 as UInt32) + big(topic)
            for block in Array(0..<UInt32(blocks)) + [.max] {
                guard let value = try raw.get("sets", prefix + big(block)) else { continue }
                forms.append(
                    block == .max ? "small" : value.count == 4080 ? "bitmap" : "list")
            }
        }
        return forms
    }

    @Test(
        "TOP-1 CON-1: a topic grows through a list of ordinals, lists of blocks and bitmaps and shrinks again, and is always who subscribed"
    )
    func growth() throws {
        let bench = try Bench(mapBytes: 1 << 26)
        let project = try bench.project("tides")
        // Across the boundary of a block: 32,640 are the first block's.
        let instances = try bench.register(35_700, in: "tides")
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
            #expect(all.total == UInt64(35_700 - members.count), sourceLocation: location)
            try bench.expectClean(location)
        }
        func join(_ range: some Sequence<Int>) throws {
            let indices = Array(range)
            members.formUnion(indices)
            try bench.change(.subscribe, "dogs", indices.map { instances[$0] }, in: project)
        }
        func leave(_ range: some Sequence<Int>) throws {
            let indices = Array(range)
            members.subtract(indices)
            try bench.change(.unsubscribe, "dogs", indices.map { instances[$0] }, in: project)
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
        try leave(members)
        #expect(try forms(bench, topic: 1, blocks: 2) == [])
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
        try leave(members)
        #expect(try forms(bench, topic: 1, blocks: 2) == [])
        try join([3])
        try expect(["small"])
    }

    @Test("CON-1 TOP-1: topics that pass back and forth between the forms match as a model says")
    func wandering() throws {
        let bench = try Bench(mapBytes: 1 << 26)
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
        for _ in 0..<60 {
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
        let bench = try Bench(mapBytes: 1 << 26)
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
