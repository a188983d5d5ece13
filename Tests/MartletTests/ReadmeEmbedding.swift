// SPDX-License-Identifier: Apache-2.0
//
// What the README shows of a broker in an application, compiled. ReadmeTests compares the two.

import Martlet

func readmeEmbedding() async throws {
    let configuration = BrokerConfiguration(folder: "data", address: .init(port: 5228))
    let broker = try await Broker.open(configuration)
    _ = try await broker.createProject("harbour")
    let device = try await broker.register(
        app: "com.example.tides", platform: .android, in: "harbour")
    _ = try await broker.subscribe([device.token], to: "tides", in: "harbour")
    let message = Message(notification: .init(title: "High tide"), data: ["at": "14:05"])
    let receipt = try await broker.send(
        OutgoingMessage(to: .condition("'tides' in topics"), message), in: "harbour")
    print(receipt.messageID ?? "", receipt.recipientCount)
    try await broker.close()
}
