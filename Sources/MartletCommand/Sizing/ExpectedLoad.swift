// SPDX-License-Identifier: Apache-2.0
//
// A load that an operator expects of a broker. Pure.

/// Instances, connections and messages of an ordinary day.
package struct ExpectedLoad: Sendable {
    /// Registered instances of all projects.
    package var instances: Int
    /// Connections at the busiest time.
    package var connections: Int
    /// Messages accepted in a day, without `fanoutsPerDay`.
    package var messagesPerDay: Int
    /// Recipients of each of these messages.
    package var recipients = 1
    /// Further messages in a day, to `fanoutRecipients` each.
    package var fanoutsPerDay = 0
    /// nil: all instances.
    package var fanoutRecipients: Int?
    package var topicsPerInstance = 5
    /// Part of the instances that stay away for all of `daysKept`, 0 to 1. All others connect at least once a day.
    package var awayShare = 0.1
    /// Part of the messages that are stored (time to live above 0), 0 to 1.
    package var storedShare = 1.0
    /// Payload of a message.
    package var bytesPerMessage = 512
    /// Time to live of a message, in days.
    package var daysKept = 28
    /// How often the place of a connection is taken anew in a day.
    package var connectsPerDay = 8
    /// Rate at the busiest time, as a multiple of the day's average.
    package var peakFactor = 10.0
    package var isSecure = true
    /// Whether senders use the gateway.
    package var isOverHTTP = false

    package init(instances: Int, connections: Int, messagesPerDay: Int) {
        self.instances = instances
        self.connections = connections
        self.messagesPerDay = messagesPerDay
    }

    /// Messages of one kind: so many a day, to so many instances each.
    struct Kind {
        var perDay: Double
        var recipients: Double
    }

    /// The two kinds of messages. No message has more recipients than there are instances.
    var kinds: [Kind] {
        let all = Double(instances)
        return [
            Kind(perDay: Double(messagesPerDay), recipients: min(Double(recipients), all)),
            Kind(
                perDay: Double(fanoutsPerDay),
                recipients: min(fanoutRecipients.map { Double($0) } ?? all, all)),
        ]
    }

    /// Part of the instances that a message does not reach at once, 0 to 1.
    var unconnectedShare: Double {
        max(1 - Double(connections) / Double(max(instances, 1)), awayShare)
    }
}
