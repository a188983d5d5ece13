// SPDX-License-Identifier: Apache-2.0
//
// A data folder of a test, the broker on it, and the clock that the broker reads. Rests on Martlet.

import Foundation
import Logging
import Martlet
import Synchronization

/// A data folder that goes with the test.
final class TestFolder: Sendable {
    let url = FileManager.default.temporaryDirectory
        .appending(path: "martlet-http-\(UUID().uuidString)")

    deinit { try? FileManager.default.removeItem(at: url) }

    func open(
        clock: TestClock? = nil, _ change: (inout BrokerConfiguration) -> Void = { _ in }
    ) async throws -> Broker {
        var configuration = BrokerConfiguration(folder: url.path, address: .init(port: 0))
        configuration.loopCount = 1
        configuration.connectionsPerLoopMax = 1024
        configuration.logger.logLevel = .critical
        configuration.limits = .none
        if let clock { configuration.clock = { clock.instant } }
        change(&configuration)
        return try await Broker.open(configuration)
    }

    /// A broker without HTTP in a folder of its own, which lasts as long as the body.
    static func withBroker(_ body: (Broker) async throws -> Void) async throws {
        let folder = TestFolder()
        defer { withExtendedLifetime(folder) {} }
        let broker = try await folder.open()
        try await body(broker)
        try await broker.close()
    }
}

/// A clock that goes when it is told to.
final class TestClock: Sendable {
    private let now = Atomic<Int64>(1_800_000_000_000)
    func advance(seconds: Int64) { now.add(seconds * 1000, ordering: .sequentiallyConsistent) }
    var instant: Instant {
        Instant(millisecondsSince1970: now.load(ordering: .sequentiallyConsistent))
    }
    var seconds: Double { Double(instant.millisecondsSince1970) / 1000 }
}
