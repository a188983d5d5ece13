// SPDX-License-Identifier: Apache-2.0
//
// Damages what is kept of messages of devices, a row at a time, and sees that a check finds it
// (UPS-1). Rests on CheckTests' damages.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

@Suite("A check of messages of devices")
struct UpstreamCheckTests {
    private static let p0 = big(0 as UInt32)

    /// The store has one message of each of two instances, numbers 1 and 2.
    static let damages: [Damage] = [
        Damage("a message gone", "upstream", p0 + big(1 as UInt64), [.upstream, .due], .delete),
        Damage(
            "a message cut off", "upstream", p0 + big(1 as UInt64), [.damagedRecord], .prefix(4)),
        Damage(
            "a message without its ID", "upstream", p0 + big(1 as UInt64), [.damagedRecord],
            .prefix(40)),
        Damage(
            "a message that expires later", "upstream", p0 + big(2 as UInt64), [.due],
            .patch(0, little(1 as Int64))),
        Damage("a count", "upstream", p0, [.upstream], .patch(8, little(3 as UInt64))),
        Damage("a last number", "upstream", p0, [.upstream], .patch(0, little(1 as UInt64))),
        Damage(
            "IDs of nobody", "upstreamIDs", p0 + big(9 as UInt32), [.upstream, .due],
            .put([UInt8](repeating: 1, count: 40))),
        Damage("IDs gone", "upstreamIDs", p0 + big(0 as UInt32), [.due], .delete),
        Damage(
            "IDs cut off", "upstreamIDs", p0 + big(0 as UInt32), [.damagedRecord], .dropLast(1)),
    ]

    @Test(
        "UPS-1 OPS-4: what is damaged of it is found, and nothing else is said", arguments: damages)
    func damaged(damage: Damage) throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        for instance in try bench.register(2, in: "tides") {
            let outcome = try bench.apply(
                .upstream(
                    UpstreamCommand(
                        project: project, ordinal: instance.ordinal, holder: instance.holder,
                        target: .project, messageID: "a", timeToLiveSeconds: nil, body: [1])))
            guard case .upstreamAccepted = outcome else { throw Unexpected(outcome) }
        }
        #expect(try bench.store.check().isClean)
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let value = try raw.get(damage.table, damage.key) ?? []
            try raw.change(damage.table, damage.key, damage.change.result(value))
        }
        let report = try bench.store.check()
        #expect(Set(report.problems.map(\.kind)) == Set(damage.expected), "\(report.problems)")
    }
}
