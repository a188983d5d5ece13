// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the store share: folders that vanish, and an engine on a real store. Rests on EngineBench.

import EngineBench
import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import RedoBench
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

    /// The length of the data file.
    var fileBytes: Int {
        get throws {
            try URL(filePath: folder.data + "/data.mdb").resourceValues(forKeys: [.fileSizeKey])
                .fileSize ?? 0
        }
    }

    init(
        mapBytes: Int = 1 << 24, limits: BrokerLimits = .none, checkpointCommitsMax: Int = 1000,
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

extension Bench {
    /// Commands of all sorts in the first project, which is `tides`; some of them have large rows.
    func applyRandom(_ random: inout SeededGenerator) throws {
        let project = ProjectNumber(0)
        switch random.number(0...9) {
        case 0...1:
            let instances = try register(random.number(1...40), in: "tides")
            try change(.subscribe, "storm\(random.number(0...3))", instances, in: project)
        case 2:
            let tokens = try members(of: "storm1", in: project)
            guard let token = tokens.randomElement(using: &random) else { return }
            _ = try apply(.unregisterToken(project: project, token: token.text))
        case 3:
            try sweep()
            now = now.advanced(bySeconds: Int64(random.number(0...10)))
        default:
            let body = [UInt8](repeating: 7, count: random.number(0...3000))
            _ = try accepted(
                .topic("storm\(random.number(0...3))"), in: project, body: body,
                timeToLive: UInt32(random.number(5...100)))
        }
    }

    func expectClean(_ location: SourceLocation = #_sourceLocation) throws {
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
    }
}
