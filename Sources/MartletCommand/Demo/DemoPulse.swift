// SPDX-License-Identifier: Apache-2.0
//
// The demo after its checks: some devices stay connected and messages go out, so that the console shows a broker at work.
// Rests on DemoFleet and the embedding API.

import Martlet

struct DemoPulse {
    /// Devices that stay connected.
    static let devicesMax = 300
    /// Time between two messages.
    static let interval = Duration.seconds(2)

    let broker: Broker
    let fleet: DemoFleet

    private static let messages: [(title: String, target: MessageTarget)] = [
        ("Wind from the west", .topic("weather")),
        ("The current turns", .topic("tide-currents")),
        ("Walks in the rain", .condition("'dogs' in topics && 'weather' in topics")),
        ("For pets", .condition("'dogs' in topics || 'cats' in topics")),
        (
            "Not for silent devices",
            .condition("'industry-tech' in topics && !('silent' in topics)")
        ),
    ]

    /// Goes on until the task is cancelled.
    func run() async {
        let indices = Array(fleet.plan.devices.indices.prefix(Self.devicesMax))
        do {
            try await fleet.connect(indices, Progress("connecting"))
            var number = 0
            while !Task.isCancelled {
                let next = Self.messages[number % Self.messages.count]
                number += 1
                // Notifications would replace, and use up the turns of, those that a newcomer sends to these devices.
                var message = OutgoingMessage(
                    to: next.target,
                    Message(data: ["title": next.title, "body": "Message \(number)"]))
                message.timeToLiveSeconds = 60
                _ = try await broker.send(message, in: DemoRun.project)
                try await Task.sleep(for: Self.interval)
            }
        } catch {
            // The messages are a show; the broker serves without them. A cancelled sleep ends here too.
        }
        await fleet.disconnect(indices)
    }
}
