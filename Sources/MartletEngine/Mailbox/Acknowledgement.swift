// SPDX-License-Identifier: Apache-2.0
//
// What a loop reports about one of its devices: acknowledged messages, and the end of the connection. Rests on the
// records.

package import MartletBase
package import MartletRows

/// TTL-4: acknowledgements of one instance, and at the end of its connection the state of the connection to be kept.
package struct Acknowledgement: Sendable {
    /// State of a connection at its end.
    package struct Departure: Sendable, Hashable {
        /// Number of the connection that ended. A later connection of the instance has a higher number.
        package var connectionNumber: UInt64
        /// The project's last message that the connection could have brought. Later messages are accepted during the
        /// absence of the instance (STO-1).
        package var position: MessageSequence
        /// COL-4: the instant at which the throttle of collapsible messages is full again.
        package var throttleFull: Instant
        /// STO-2: the last instant at which the instance had a connection.
        package var seen: Instant

        package init(
            connectionNumber: UInt64, position: MessageSequence, throttleFull: Instant,
            seen: Instant
        ) {
            self.connectionNumber = connectionNumber
            self.position = position
            self.throttleFull = throttleFull
            self.seen = seen
        }
    }

    /// A reading of the mailbox passed over messages that the mailbox no longer held. The messages up to `through`
    /// that were gone at `at` do not count as delivered, although the marks of the instance move past them.
    package struct Skipped: Sendable, Hashable {
        /// Sequence up to which messages may have been passed over.
        package var through: MessageSequence
        /// Instant of the reading. Messages that were gone by then do not count as delivered.
        package var at: Instant

        package init(through: MessageSequence, at: Instant) {
            self.through = through
            self.at = at
        }
    }

    /// Project of the instance.
    package var project: ProjectNumber
    /// Ordinal of the instance.
    package var ordinal: Ordinal
    /// The acknowledgement is ignored if the ordinal has another holder; nil: the holder is not checked.
    package var holder: Holder?
    /// By lane, the sequence up to which the instance has acknowledged all messages.
    package var through: LaneMarks
    /// Stream IDs of messages acknowledged one by one above the mark of their lane, and of acknowledged notices
    /// (STO-1). Notices are listed because marks acknowledge only messages.
    package var single: [UInt64]
    /// Set if the connection has ended.
    package var departure: Departure?
    /// Set if a reading has passed over messages since the last report.
    package var skipped: Skipped?
    /// Set for the list in HELLO: the project's last message at that time. The store decides on the discards of the
    /// absence (STO-1) before the list is applied.
    package var arrival: MessageSequence?
    /// GW-11: a foreign push service took the messages; the device has not told of them.
    package var isHandedOver = false

    /// REP-1: the outcome of the acknowledged messages.
    var event: ReportEvent { isHandedOver ? .handedOver : .acknowledged }

    /// Makes an acknowledgement. By default, no message is acknowledged one by one, and the holder is not checked.
    package init(
        project: ProjectNumber, ordinal: Ordinal, holder: Holder? = nil, through: LaneMarks,
        single: [UInt64] = [], departure: Departure? = nil, skipped: Skipped? = nil,
        arrival: MessageSequence? = nil
    ) {
        self.project = project
        self.ordinal = ordinal
        self.holder = holder
        self.through = through
        self.single = single
        self.departure = departure
        self.skipped = skipped
        self.arrival = arrival
    }
}
