// SPDX-License-Identifier: Apache-2.0
//
// Accepted durable sends to many instances that are offline: time until acceptance, which includes
// the fsync, and bytes written. Once with nothing limited; once with every rule there is: the documented
// limits, a collapse key, some inactive instances, and the limiter of devices (QUO-1) at rest, at work,
// and at work with one in a hundred over its limit. Then the limiter alone: messages that are not
// stored. Rests on Universe and the embedding API.

import Glibc
import Martlet
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletStore

enum DurableFanout {
    /// How the limiter of devices is met.
    enum Limiter: String, CaseIterable {
        case off, atRest = "at rest", atWork = "at work", refusing
    }

    static let topics = ["tenth", "all"]
    private static let rounds = 15

    static func measure(folder: String, instances: Int) async throws {
        let universe = try Universe(folder: folder, instances: instances)
        let sets: [(name: String, share: Double)] = [
            ("tenth", 0.1), ("all", 1), ("other", 0.1), ("hundredth", 0.01),
            ("few", 100 / Double(instances)),
        ]
        for (number, set) in sets.enumerated() {
            try universe.addTopic(
                set.name, number: UInt32(number + 1),
                universe.members(.random(set.share), seed: UInt64(number + 2)))
        }
        try universe.add(universe.members(.random(0.001), seed: 9), to: .inactive)
        universe.store.close()
        for limiter in Limiter.allCases {
            // The limiter's memory ends with the broker.
            var configuration = BrokerConfiguration(folder: folder)
            if limiter == .off { configuration.limits = .none }
            let broker = try await Broker.open(configuration)
            try await prepare(broker, limiter)
            for topic in topics {
                try await measure(
                    broker, [topic], limiter, isStored: true, instances: instances)
            }
            for topics in [["tenth"], ["tenth", "other"]] {
                try await measure(
                    broker, topics, limiter, isStored: false, instances: instances)
            }
            try await broker.close()
        }
    }

    /// Sends what brings the limiter there: more than a device may have, to few or to one in a hundred.
    static func prepare(_ broker: Broker, _ limiter: Limiter) async throws {
        let topic: String
        switch limiter {
        case .off, .atRest: return
        case .atWork: topic = "few"
        case .refusing: topic = "hundredth"
        }
        for _ in 0...Limits.deviceMessagesPerMinute {
            _ = try await broker.send(
                OutgoingMessage(to: .topic(topic), Message(data: ["n": ""]), timeToLiveSeconds: 0),
                in: Universe.projectID)
        }
    }

    static func measure(
        _ broker: Broker, _ topics: [String], _ limiter: Limiter, isStored: Bool, instances: Int
    ) async throws {
        var times: [Double] = []
        var written: [Double] = []
        var used: [Double] = []
        var receipt: SendReceipt?
        for number in 0..<rounds {
            let message = OutgoingMessage(
                to: .topic(topics[number % topics.count]), Message(data: ["n": "\(number)"]),
                timeToLiveSeconds: isStored ? nil : 0,
                collapseKey: limiter == .off || !isStored ? nil : "score")
            let (bytes, cpu, began) = (bytesWritten(), processNanoseconds(), nanoseconds())
            receipt = try await broker.send(message, in: Universe.projectID)
            times.append(Double(nanoseconds() - began) / 1e6)
            used.append(Double(processNanoseconds() - cpu))
            written.append(Double(bytesWritten() - bytes))
        }
        guard let receipt else { return }
        let recipients = Double(receipt.recipientCount)
        report([
            "kind": isStored ? "durable fanout" : "limiter alone", "limiter": limiter.rawValue,
            "topics": topics.count, "instances": instances, "recipients": receipt.recipientCount,
            "inactive": receipt.inactiveCount, "rateLimited": receipt.rateLimitedCount,
            "milliseconds": times.sorted()[rounds / 2], "worstMilliseconds": times.max()!,
            "meanMilliseconds": times.reduce(0, +) / Double(rounds),
            "bytesPerRecipient": written.sorted()[rounds / 2] / recipients,
            "nanosecondsPerRecipient": times.sorted()[rounds / 2] * 1e6 / recipients,
            "cpuNanosecondsPerRecipient": used.sorted()[rounds / 2] / recipients,
        ])
    }
}
