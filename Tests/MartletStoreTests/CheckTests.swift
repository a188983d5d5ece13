// SPDX-License-Identifier: Apache-2.0
//
// Damages one index at a time and sees that a check finds this problem and no other. Rests on
// RawStore and Damage.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

@Suite("Check")
struct CheckTests {
    /// See `Damage.tried`.
    static func fill(_ bench: StoredBench) throws -> [Instance] {
        let project = try bench.project("tides")
        try bench.project("other")
        _ = try bench.apply(
            .changeRegistry(
                project: "other", .limits([ProjectLimitChange(.groupMembers, to: 5)])))
        let instances = try bench.register(700, in: "tides")
        _ = try bench.apply(
            .createKey(
                project: "tides",
                key: NewKey(
                    id: "key", name: "a key",
                    digest: SecretDigest(bytes: [UInt8](repeating: 1, count: 32)))))
        try bench.change(.subscribe, "all", instances, in: project)
        try bench.change(.subscribe, "few", instances[..<10], in: project)
        try bench.change(.subscribe, "gone", instances[..<10], in: project)
        try bench.change(.subscribe, "some", instances[..<460], in: project)
        try bench.change(.unsubscribe, "gone", instances[..<10], in: project)
        for instance in instances[5...6] {
            _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
        }
        _ = try bench.apply(
            .createGroup(
                project: project, name: "g", key: GroupKey(bytes: Damage.group),
                tokens: instances[..<3].map(\.token.text)))
        _ = try bench.apply(
            .rotate(
                project: project, ordinal: instances[20].ordinal, holder: instances[20].holder,
                token: Token(bytes: [UInt8](repeating: 20, count: Limits.tokenRandomBytes))))
        _ = try bench.accepted(.topic("few"), in: project)
        _ = try bench.accepted(.topic("all"), in: project)
        _ = try bench.accepted(.token(instances[0].token.text), in: project)
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: project, ordinal: instances[0].ordinal, through: .even(3),
                    single: [5])
            ]))
        return instances
    }

    /// Filled once, closed, and copied by every damage.
    static let filled = Result { () throws -> (folder: TemporaryFolder, instances: [Instance]) in
        let bench = try StoredBench()
        let instances = try fill(bench)
        try bench.reopen { folder in
            // A store that once held more: 'all' as a bitmap, 'some' as a list of a block.
            let raw = RawStore(folder: folder)
            for topic in [0, 3] as [UInt32] {
                let set = big(0 as UInt32) + big(topic)
                let list = try raw.get("sets", set + big(UInt32.max)) ?? []
                let members = stride(from: 0, to: list.count, by: 4).map {
                    UInt16(list[$0]) | UInt16(list[$0 + 1]) << 8
                }
                var row = members.flatMap { little($0) }
                if members.count > 500 {
                    row = [UInt8](repeating: 0, count: 4080)
                    for member in members { row[Int(member / 8)] |= 1 << UInt8(member % 8) }
                }
                try raw.change("sets", set + big(0 as UInt32), row)
                try raw.change("sets", set + big(UInt32.max), nil)
            }
        }
        return (bench.folder, instances)
    }

    @Test("A store that nobody damaged is clean, and everything in it was looked at")
    func clean() throws {
        let bench = try StoredBench()
        _ = try Self.fill(bench)
        var seen = 0
        let report = try bench.files.check { _ in seen += 1 }
        #expect(report.isClean, "\(report.problems)")
        #expect(seen > 2)
        #expect(report.counts.projects == 2)
        #expect(report.counts.keys == 1)
        #expect(report.counts.apps == 1)
        #expect(report.counts.instances == 698)
        #expect(report.counts.topics == 3)
        #expect(report.counts.subscriptions == 698 + 8 + 458)
        #expect(report.counts.groups == 1)
        #expect(report.counts.messages == 3)
        #expect(report.counts.recipients == 698 + 7 + 1)
    }

    /// A bench on a copy of the filled store.
    /// - Parameter damage: changes rows of the closed copy.
    private func damagedBench(_ damage: (RawStore, [Instance]) throws -> Void) throws -> StoredBench
    {
        let (filled, instances) = try Self.filled.get()
        let bench = try StoredBench()
        try bench.reopen { folder in
            try FileManager.default.removeItem(atPath: folder + "/data.mdb")
            try FileManager.default.copyItem(
                atPath: filled.data + "/data.mdb", toPath: folder + "/data.mdb")
            // The journal belongs to the file before.
            for name in ["journal.0", "journal.1"] { unlink(folder + "/" + name) }
            try damage(RawStore(folder: folder), instances)
        }
        return bench
    }

    @Test("A damaged index is found, and nothing else is said", arguments: Damage.tried)
    func damaged(damage: Damage) throws {
        let bench = try damagedBench { raw, instances in
            let key =
                switch damage.table {
                case "tokens": instances[9].token.bytes
                case "formerTokens": instances[20].token.bytes
                default: damage.key
                }
            let value = try raw.get(damage.table, key) ?? []
            try raw.change(damage.table, key, damage.change.result(value))
        }
        let report = try bench.store.check()
        let kinds = report.problems.map(\.kind)
        #expect(Set(kinds) == Set(damage.expected), "\(report.problems)")
        #expect(report.problemCount == UInt64(kinds.count))
    }

    @Test(
        "Two tokens that lead to each other's instances are found, and no other project is accused")
    func exchanged() throws {
        let bench = try damagedBench { raw, instances in
            let keys = [instances[9].token.bytes, instances[10].token.bytes]
            let places = try keys.map { try raw.get("tokens", $0) }
            try raw.change("tokens", keys[0], places[1])
            try raw.change("tokens", keys[1], places[0])
        }
        // The bench of the filled store gave the same tokens.
        for _ in 0..<1000 { _ = bench.newInstance(in: "other") }
        #expect(try bench.register(3, in: "other").count == 3)
        let report = try bench.store.check()
        #expect(report.problems.map(\.kind) == Array(repeating: .tokenIndex, count: 4))
        #expect(Set(report.problems.map(\.project)) == [ProjectNumber(0)])
    }

    @Test("More problems than are listed are counted")
    func bounded() throws {
        let bench = try StoredBench()
        _ = try Self.fill(bench)
        let more = try bench.register(1200, in: "tides")
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let everyone = big(0 as UInt32) + big(0x8000_0000 as UInt32) + big(0 as UInt32)
            // Nobody, and then everybody who is not.
            var value = [UInt8](repeating: 0, count: 4080)
            for bit in 2000..<3200 { value[bit / 8] |= 1 << UInt8(bit % 8) }
            try raw.change("sets", everyone, value)
        }
        let report = try bench.store.check()
        #expect(more.count == 1200)
        #expect(report.problemCount == 1201)
        #expect(report.problems.count == CheckReport.problemsListedMax)
        #expect(report.problems.allSatisfy { $0.kind == .standingSet })
    }
}
