// SPDX-License-Identifier: Apache-2.0
//
// A data file that was cut off is refused before LMDB maps it (OPS-3), and none that a
// store has written is. Rests on Bench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

@Suite("Data files that were cut off")
struct DamagedFileTests {
    private func refusal(_ data: Data) throws -> StoreOpenError? {
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(
            atPath: folder.data, withIntermediateDirectories: true)
        try data.write(to: URL(fileURLWithPath: folder.data + "/data.mdb"))
        do {
            let store = try Store(StoreConfiguration(folder: folder.data))
            let report = try store.check()
            #expect(report.isClean, "\(report.problems)")
            return nil
        } catch let error as StoreOpenError {
            return error
        }
    }

    @Test(
        "OPS-3 of a store that grows and shrinks, each file opens as it is, and none that lacks a page it needs"
    )
    func cut() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        var random = SeededGenerator(seed: 17)
        var instances: [Instance] = []
        var (refused, cutCount) = (0, 0)
        // Of each ten the last is cut.
        for round in 0..<60 {
            instances += try bench.register(random.number(1...60), in: "tides")
            // Those who leave free pages of every table.
            for _ in 0..<random.number(0...50) where !instances.isEmpty {
                let gone = instances.remove(at: random.number(0...(instances.count - 1)))
                _ = try bench.apply(.unregister(project: project, ordinal: gone.ordinal))
            }
            var data = Data()
            try bench.reopen { folder in
                data = try Data(contentsOf: URL(fileURLWithPath: folder + "/data.mdb"))
            }
            #expect(try refusal(data) == nil, "round \(round)")
            guard round % 10 == 9 else { continue }
            for _ in 0..<10 {
                let pages = random.number(2...(data.count / 4096 - 1))
                cutCount += 1
                // Opened it is only if everything in it can be read, which the check does.
                guard let error = try refusal(data.prefix(pages * 4096)) else { continue }
                guard case .damaged = error else {
                    Issue.record("\(error)")
                    continue
                }
                refused += 1
            }
        }
        #expect(refused > cutCount / 2, "Most files that lack pages lack one that is needed.")
    }
}
