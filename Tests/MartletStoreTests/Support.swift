// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the store share: folders that vanish, and an engine on a real store. Rests on EngineBench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

/// A folder of its own for one test.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        path = NSTemporaryDirectory() + "martlet-store-" + UUID().uuidString
        try? FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var data: String { path + "/data" }
}

/// A bench whose rows are in a data folder.
final class StoredBench: Bench {
    let folder: TemporaryFolder
    private var configuration: StoreConfiguration

    var files: Store { store as! Store }

    init(
        mapBytes: Int = 1 << 24, limits: MailboxLimits = .none, checkpointCommitsMax: Int = 1000,
        faults: StoreFaults? = nil
    ) throws {
        folder = TemporaryFolder()
        configuration = StoreConfiguration(folder: folder.data, mapBytes: mapBytes)
        configuration.checkpointCommitsMax = checkpointCommitsMax
        configuration.faults = faults
        super.init(limits: limits, store: try Store(configuration))
    }

    override func reopen() throws { try reopen { _ in } }

    /// Closes the store, hands its folder to `body`, and opens it again with a new engine.
    func reopen(mapBytes: Int = 1 << 24, _ body: (String) throws -> Void = { _ in }) throws {
        files.close()
        try body(folder.data)
        configuration.mapBytes = mapBytes
        store = try Store(configuration)
        try super.reopen()
    }
}

extension Store: RowStore {}

extension Bench {
    func expectClean(_ location: SourceLocation = #_sourceLocation) throws {
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
    }
}
