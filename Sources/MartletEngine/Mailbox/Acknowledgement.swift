// SPDX-License-Identifier: Apache-2.0
//
// What a loop reports about one of its devices: acknowledged messages, and the end of the connection. Rests on the
// records.

package import MartletBase
package import MartletRows

/// One instance's acknowledgements (TTL-4), and at the end of its connection what is to be kept of it.
package struct Acknowledgement: Sendable {
    /// A connection at its end.
    package struct Departure: Sendable, Hashable {
        /// Number of the connection that ended. A later connection of the instance has a higher number.
        package var connectionNumber: UInt64
        /// The project's last message that the connection could have brought. What is accepted later falls into the
        /// instance's absence (STO-1).
        package var position: MessageSequence
        /// When the throttle of collapsible messages is full again (COL-4).
        package var throttleFull: Instant
        /// When the instance last had a connection (STO-2).
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

    /// A reading passed over messages that the mailbox no longer held. Those up to `through` that were gone at `at`
    /// don't count as delivered, although the marks move past them.
    package struct Skipped: Sendable, Hashable {
        /// How far messages may have been passed over.
        package var through: MessageSequence
        /// When it was read. What was gone by then doesn't count as delivered.
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
    /// If the ordinal has another holder, the acknowledgement is ignored; nil: any holder will do.
    package var holder: Holder?
    /// By lane, how far the instance has acknowledged everything.
    package var through: LaneMarks
    /// Stream IDs acknowledged one by one: messages above their lane's mark, and notices (STO-1), because marks
    /// acknowledge only messages.
    package var single: [UInt64]
    /// Set if the connection has ended.
    package var departure: Departure?
    /// Set if a reading has passed over messages since the last report.
    package var skipped: Skipped?
    /// Set for the list in HELLO: the project's last message at that time. The store decides on the absence's discards
    /// (STO-1) before it applies the list.
    package var arrival: MessageSequence?
    /// A foreign push service took the messages; the device has not said anything about them (GW-11).
    package var isHandedOver = false

    /// The outcome of the acknowledged messages (REP-1).
    var event: ReportEvent { isHandedOver ? .handedOver : .acknowledged }

    /// Makes an acknowledgement. By default nothing is acknowledged one by one, and any holder will do.
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
