// SPDX-License-Identifier: Apache-2.0
//
// Accepted durable sends to many instances that are offline: time until acceptance, which includes
// the fsync, and bytes written. Rests on Universe and the embedding API.

import Glibc
import Martlet
import MartletBase
import MartletBits
import MartletEngine
import MartletStore

enum DurableFanout {
    static func measure(folder: String, instances: Int) async throws {
        let universe = try Universe(folder: folder, instances: instances)
        let tenth = universe.members(.random(0.1), seed: 2)
        try universe.addTopic("tenth", number: 1, tenth)
        try universe.addTopic("all", number: 2, universe.members(.random(1), seed: 3))
        universe.store.close()
        let broker = try await Broker.open(BrokerConfiguration(folder: folder))
        for topic in ["tenth", "all"] {
            var times: [Double] = []
            var written: [Double] = []
            var used: [Double] = []
            var recipients: UInt64 = 0
            for number in 0..<15 {
                let message = Message(data: ["n": "\(number)"])
                let (bytes, cpu, began) = (bytesWritten(), processNanoseconds(), nanoseconds())
                let receipt = try await broker.send(
                    OutgoingMessage(to: .topic(topic), message), in: Universe.projectID)
                times.append(Double(nanoseconds() - began) / 1e6)
                used.append(Double(processNanoseconds() - cpu))
                written.append(Double(bytesWritten() - bytes))
                recipients = receipt.recipientCount
            }
            report([
                "kind": "durable fanout", "instances": instances, "recipients": recipients,
                "milliseconds": times.sorted()[7], "worstMilliseconds": times.max()!,
                "bytesPerRecipient": written.sorted()[7] / Double(recipients),
                "nanosecondsPerRecipient": times.sorted()[7] * 1e6 / Double(recipients),
                "cpuNanosecondsPerRecipient": used.sorted()[7] / Double(recipients),
            ])
        }
        try await broker.close()
    }
}
