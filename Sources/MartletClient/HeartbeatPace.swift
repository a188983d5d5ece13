// SPDX-License-Identifier: Apache-2.0
//
// DEV-5: how long a connection may be silent, as learned from the networks that a device is in.
// Pure.
//
// Between a device and its broker there are NAT tables and firewalls that forget a silent
// connection after minutes, and do not say so. A ping that comes too late finds the connection
// dead, and all that time nothing could come; one that comes too early wakes a radio for nothing.
// So the interval
//
//   grows to one and a half times of a silence that the connection survived,
//   halves when a connection is found dead, for each such find is minutes without messages,
//   and then stays below the silence that was deadly, until 32 shorter ones were survived: a phone
//   that has come into another network may grow again, one that has not is cut off once in hours.
//
// From 4 minutes it takes five survived silences, 53 minutes together, to 28 minutes.

package struct HeartbeatPace: Sendable, Hashable {
    /// Survived silences after which a longer one is tried again.
    package static let trialAfter = 32

    private let shortest: Duration
    private let longest: Duration
    /// How long a connection may be silent until it is pinged.
    package private(set) var interval: Duration
    /// A silence that a connection has died of.
    private var deadly: Duration?
    /// Silences survived since then that would make it longer than that.
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

    /// The same interval always.
    package init(always interval: Duration) {
        shortest = interval
        longest = interval
        self.interval = interval
    }

    /// A ping was answered, and neither side had said anything for so long before it.
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

    /// A connection was found dead after a silence of this length.
    package mutating func died(after silence: Duration) {
        deadly = silence
        survivals = 0
        interval = max(shortest, min(interval, silence / 2))
    }
}
