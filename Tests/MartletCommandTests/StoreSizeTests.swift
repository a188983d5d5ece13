// SPDX-License-Identifier: Apache-2.0
//
// The disk that `martlet size` predicts beside the disk that a broker uses (OPS-10), so that a change of the rows does
// not leave the figures behind. With MARTLET_MEASURE=1 the bytes of each figure are printed. Rests on SmallStore.

import Foundation
import MartletCommand
import TestSupport
import Testing

@Suite("Sizes of real stores", .timeLimit(.minutes(5)))
struct StoreSizeTests {
    /// Days over which the messages of a store are spread, so that the day by which a set outlives its message counts
    /// little.
    private static let days = 20

    /// The cheapest first: without optimisation that one alone is filled.
    private static let stores = [
        SmallStore(instances: 2000, messages: 2000, bytesPerMessage: 4000),
        SmallStore(
            instances: 20_000, topicsPerInstance: 5, messages: 2000, bytesPerMessage: 512),
        SmallStore(
            instances: 2000, topicsPerInstance: 1, topics: 20, messages: 10_000,
            bytesPerMessage: 100),
        SmallStore(instances: 2000, messages: 2000, recipients: 30, bytesPerMessage: 200),
        SmallStore(instances: 10_000, messages: 2000, recipients: 100, bytesPerMessage: 512),
        SmallStore(instances: 10_000, messages: 2000, recipients: 3000, bytesPerMessage: 512),
    ]

    /// Bytes of rows, as predicted for a store in which nobody is connected.
    private static func predicted(_ store: SmallStore) -> Int {
        var load = ExpectedLoad(instances: store.instances, connections: 0, messagesPerDay: 0)
        load.topicsPerInstance = store.topicsPerInstance
        load.messagesPerDay = store.messages / days
        load.recipients = store.recipients
        load.awayShare = 1
        load.daysKept = days
        load.bytesPerMessage = store.bytesPerMessage
        let disk = Sizing(load).disk
        return Int(disk.instances + disk.messages)
    }

    @Test(
        "OPS-10 the predicted disk is between 0.7 and 1.4 of a real store",
        arguments: stores.prefix(rounds(stores.count)))
    func drift(store: SmallStore) async throws {
        let real = try await store.contentBytes()
        let predicted = Self.predicted(store)
        let ratio = Double(predicted) / Double(real)
        #expect(ratio > 0.7 && ratio < 1.4, "\(predicted) beside \(real)")
    }

    @Test(
        "The bytes behind the figures of `martlet size`",
        .enabled(if: ProcessInfo.processInfo.environment["MARTLET_MEASURE"] != nil))
    func measured() async throws {
        func tell(_ name: String, _ store: SmallStore, _ count: Int, over base: Int = 0)
            async throws
        {
            let bytes = try await store.contentBytes()
            print("\(name): \(Double((bytes - base) * 10 / count) / 10) bytes each")
        }
        var store = SmallStore(instances: 100_000)
        var base = try await store.contentBytes()
        try await tell("instance", store, store.instances)
        for (each, topics) in [(1, 100), (5, 100), (5, 1000), (5, 20_000), (20, 1000)] {
            store.topicsPerInstance = each
            store.topics = topics
            try await tell(
                "\(each) of \(topics) topics, an instance", store, store.instances, over: base)
        }
        store = SmallStore(instances: 20_000)
        base = try await store.contentBytes()
        for bytes in [1, 128, 512, 1000, 2000, 4000] {
            store.messages = 10_000
            store.bytesPerMessage = bytes
            try await tell("message of \(bytes) to an instance", store, store.messages, over: base)
        }
        for recipients in [20, 64, 65, 400, 1000] {
            store.messages = 2000
            store.bytesPerMessage = 512
            store.recipients = recipients
            try await tell("message of 512 to \(recipients)", store, store.messages, over: base)
        }
    }
}
