// SPDX-License-Identifier: Apache-2.0
//
// What `martlet listen` adds to a notification that collapsing or the throttle has touched (COL-1, COL-4). A device is not told
// which messages were replaced or held back. The notes rest on what the device sees: when a message was accepted, when it
// came, and the numbers between two messages. All instants are those of the broker's clock. Pure.

package import Martlet

/// The notes of one run of `martlet listen`.
package struct ListenNotes {
    /// A message as the notes look at it.
    package struct Arrival {
        /// Place in the project's order.
        package var streamID: UInt64
        /// True for a stored message with a notification, which is always collapsible.
        package var isCollapsible: Bool
        package var accepted: Instant
        package var arrived: Instant
        /// The instant at which the connection opened.
        package var opened: Instant

        package init(
            streamID: UInt64, isCollapsible: Bool, accepted: Instant, arrived: Instant,
            opened: Instant
        ) {
            self.streamID = streamID
            self.isCollapsible = isCollapsible
            self.accepted = accepted
            self.arrived = arrived
            self.opened = opened
        }
    }

    /// A connected device gets a message within milliseconds, and from a busy broker within a second or two.
    package static let lateMillisecondsMin: Int64 = 5000

    /// Highest stream ID so far; of an earlier run, the one through which all messages are acknowledged.
    private var lastStreamID: UInt64
    /// A dozing device waits for other reasons.
    private let isAwake: Bool
    /// The broker's bucket by default, as this run has seen it: the instant at which it is full again, in milliseconds.
    private var full: Int64 = 0

    package init(after streamID: UInt64, isAwake: Bool) {
        lastStreamID = streamID
        self.isAwake = isAwake
    }

    /// What there is to say about a message; nil for most.
    package mutating func note(on message: Arrival) -> String? {
        let skipped =
            message.streamID > lastStreamID ? message.streamID - lastStreamID - 1 : 0
        lastStreamID = max(lastStreamID, message.streamID)
        guard message.isCollapsible else { return nil }
        let isLast = takesLast(at: message.arrived.millisecondsSince1970)
        let delay =
            message.arrived.millisecondsSince1970 - message.accepted.millisecondsSince1970
        let wasAway = message.accepted < message.opened
        let minutes = Limits.collapsibleRefillSeconds / 60
        var parts: [String] = []
        if !wasAway, isAwake, delay >= Self.lateMillisecondsMin {
            parts.append(
                "held back for \(delay / 1000) s: by default a device gets \(Limits.collapsibleBurst) "
                    + "notifications at once, then one every \(minutes) minutes")
        } else if isLast {
            parts.append(
                "the last of \(Limits.collapsibleBurst) notifications at once: by default further ones wait, "
                    + "and one comes every \(minutes) minutes")
        }
        if skipped > 0, wasAway || !parts.isEmpty {
            let messages = skipped == 1 ? "1 message" : "\(skipped) messages"
            parts.append(
                "\(messages) of the project before it did not come here: of the notifications that wait "
                    + "for a device only the newest is kept")
        }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    /// Takes a token of the bucket. True if no further one is left.
    private mutating func takesLast(at now: Int64) -> Bool {
        let token = Int64(Limits.collapsibleRefillSeconds) * 1000
        let bucket = token * Int64(Limits.collapsibleBurst)
        full = min(max(full, now) + token, now + bucket)
        return full - now + token > bucket
    }
}
