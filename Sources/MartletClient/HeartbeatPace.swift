// SPDX-License-Identifier: Apache-2.0
//
// Learns from a device's networks how long a connection may stay silent (DEV-5). Pure.
//
// Between a device and its broker there are NAT tables and firewalls that forget a silent connection after minutes
// and give no notice. A late PING finds the connection dead, and no message could come in the meantime. An early
// PING wakes a radio without need. So the interval
//
//     grows to one and a half times a silence that the connection survived;
//     halves when a connection is found dead, because each dead connection costs minutes without messages;
//     then stays below the deadly silence until 32 shorter silences were survived. So the interval of a phone in
//       a new network can grow again, and a phone in an unchanged network is cut off only once in hours.
//
// From 4 minutes the interval grows to 28 minutes after five survived silences, 53 minutes in total.

package struct HeartbeatPace: Sendable, Hashable {
    /// Survived silences after which the pace tries a longer silence again.
    package static let trialAfter = 32

    private let shortest: Duration
    private let longest: Duration
    /// Silence of a connection before a PING.
    package private(set) var interval: Duration
    /// Silence after which a connection was found dead.
    private var deadly: Duration?
    /// Silences survived since `deadly` was set that would let the interval grow to `deadly` or longer.
    private var survivals = 0

    package init(_ options: HeartbeatOptions) {
        precondition(
            options.shortest > .zero && options.answerTimeout > .zero
                && options.longest >= options.shortest
                && (options.shortest...options.longest).contains(options.first),
            "A heartbeat needs 0 < shortest ≤ first ≤ longest, and time for an answer.")
        shortest = options.shortest
        longest = options.longest
        interval = options.first
    }

    /// Makes a pace with a constant interval.
    package init(always interval: Duration) {
        shortest = interval
        longest = interval
        self.interval = interval
    }

    /// Records an answered PING. `silence` is the time for which both sides had been silent before the PING.
    package mutating func survived(_ silence: Duration) {
        let longer = min(longest, silence * 3 / 2)
        guard longer > interval else { return }
        if let deadly, longer >= deadly {
            survivals += 1
            guard survivals >= Self.trialAfter else { return }
            self.deadly = nil
        }
        survivals = 0
        interval = longer
    }

    /// Records that a connection was found dead after `silence`.
    package mutating func died(after silence: Duration) {
        deadly = silence
        survivals = 0
        interval = max(shortest, min(interval, silence / 2))
    }
}
