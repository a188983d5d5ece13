// SPDX-License-Identifier: Apache-2.0
//
// What the articles show of the libraries, compiled. ReadmeTests compares the two.

import Martlet
import MartletClient

func martletArticle() async throws {
    let broker = try await Broker.open(BrokerConfiguration(folder: "data"))
    _ = try await broker.createProject("tides")
    let device = try await broker.register(
        app: "com.example.tides", platform: .android, in: "tides")
    _ = try await broker.subscribe([device.token], to: "weather", in: "tides")
    let watch = try broker.watch("tides")
    Task {
        for await event in watch {
            if case .sums(let sums) = event { print(sums.counts.acknowledged, sums.droppedCount) }
        }
    }
    let message = Message(notification: .init(title: "Storm"))
    let receipt = try await broker.send(
        OutgoingMessage(to: .topic("weather"), message), in: "tides")
    print(receipt.recipientCount)
    try await broker.close()
}

func devicesArticle() async throws {
    var options = DeviceOptions()
    options.registration = .key("the project's registration key")
    let device = try await MartletDevice.open(
        host: "127.0.0.1", projectID: "harbour", appName: "com.example.tides", platform: .apple,
        store: DeviceStateFile(path: "device.json"), options: options)
    Task {
        for await token in await device.registrationTokens() { print("tell the server:", token) }
    }
    try await device.subscribe(toTopic: "tides")
    for try await message in device.messages {
        print(message.notification?.title ?? "", message["at"] ?? "")
        await device.displayed(message)
    }
}

func reportsArticle(broker: Broker, message: Message) async throws {
    let receipt = try await broker.send(
        OutgoingMessage(to: .topic("tides"), message), in: "harbour")
    let report = try broker.report(of: receipt.messageID ?? "", in: "harbour")
    let (acknowledged, targeted) = (report.counts.acknowledged, report.counts.targeted)
    print(acknowledged, "of", targeted, "have it,", report.counts.pending, "wait for it")

    var again = OutgoingMessage(to: .topic("tides"), message)
    again.notReceived = receipt.messageID
    _ = try await broker.send(again, in: "harbour")
}

func upstreamArticle(
    device: MartletDevice, sender: MartletSender,
    store: (_ reading: String?, _ token: String, _ once: UInt64) async throws -> Void
) async throws {
    try await device.sendUpstream(Message(data: ["cm": "412"]), messageID: "reading-7")

    for try await message in sender.upstreamMessages {
        try await store(message["cm"], message.token, message.number)
    }
}
