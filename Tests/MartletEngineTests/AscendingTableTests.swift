// SPDX-License-Identifier: Apache-2.0
//
// Values by key for mostly ascending keys, against a dictionary. Rests on AscendingTable.

import EngineBench
import MartletBase
import Testing

@Suite("A table of mostly ascending keys holds what a dictionary holds")
struct AscendingTableTests {
    /// Keys of the changes; the table is taken at each 0.
    struct Order: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var keys: @Sendable (inout SeededGenerator) -> [Int]
    }

    static let orders = [
        Order(testDescription: "ascending") { _ in Array(1...300) },
        Order(testDescription: "in a row") { _ in (1...100).flatMap { [$0, $0, $0] } },
        Order(testDescription: "descending") { _ in Array((1...300).reversed()) },
        Order(testDescription: "equal series") { _ in (0..<5).flatMap { _ in 1...60 } },
        Order(testDescription: "shuffled") { numbers in (1...300).shuffled(using: &numbers) },
        Order(testDescription: "ascending after a take") { _ in
            [3, 5, 4, 0] + Array(1...9) + [0, 2, 2]
        },
        Order(testDescription: "two that take turns") { _ in (1...100).flatMap { [$0, 200 + $0] } },
        Order(testDescription: "at random") { numbers in
            (0..<1000).map { _ in Int.random(in: 0...40, using: &numbers) }
        },
        Order(testDescription: "nearly ascending") { numbers in
            (1...1000).map { $0 / 3 + 1 + Int.random(in: 0...4, using: &numbers) }
        },
    ]

    @Test("Each order of keys", arguments: orders)
    func order(order: Order) {
        for seed in UInt64(1)...20 {
            var numbers = SeededGenerator(seed: seed)
            var table = AscendingTable<Int, [Int]>()
            var model: [Int: [Int]] = [:]
            for (change, key) in order.keys(&numbers).enumerated() {
                guard key > 0 else {
                    expectEqual(&table, &model)
                    continue
                }
                table.update(key, default: [-key]) { $0.append(change) }
                model[key, default: [-key]].append(change)
                let other = Int.random(in: 0...310, using: &numbers)
                #expect(table[other] == model[other])
                #expect(table[key] == model[key])
                #expect(!table.isEmpty)
            }
            expectEqual(&table, &model)
        }
    }

    private func expectEqual(
        _ table: inout AscendingTable<Int, [Int]>, _ model: inout [Int: [Int]]
    ) {
        let taken = table.take()
        #expect(taken.map(\.key) == model.keys.sorted())
        #expect(taken.map(\.value) == model.sorted { $0.key < $1.key }.map(\.value))
        #expect(table.isEmpty)
        model = [:]
    }
}
