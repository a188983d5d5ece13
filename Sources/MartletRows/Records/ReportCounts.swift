// SPDX-License-Identifier: Apache-2.0
//
// The counts of a report (REP-1). Each instance that a message was for has exactly one outcome: the first that the
// store was told, such as an acknowledgement, a replacement or an expiry. An instance without an outcome is pending.
// So at any moment the outcomes and the pending instances add up to the targeted instances. Rests on DeliveryCounts.

package import MartletBase

/// An event of a message for an instance, or for a connection of the instance.
public enum ReportEvent: UInt8, CaseIterable, Sendable {
    /// The instance was among the recipients, or was rate-limited.
    case targeted = 0
    /// The message was written to a connection of the instance. Each repetition counts.
    case sent = 1
    /// RCP-2: the device reported the message as displayed; counted once for each instance.
    case displayed = 2
    /// RCP-2: the device reported the message as opened; counted once for each instance.
    case opened = 3
    /// Outcome: the device acknowledged the message.
    case acknowledged = 4
    /// Outcome: before an acknowledgement, a later message took the place (COL-1, COL-3).
    case collapsed = 5
    /// Outcome: the time to live ended before an acknowledgement.
    case expired = 6
    /// Outcome: the message was above the device's quota (QUO-1).
    case rateLimited = 7
    /// Outcome: the mailbox had too many messages, and all of them were discarded (STO-1).
    case discardedTooMany = 8
    /// Outcome: discarded because the instance had not connected for too long (STO-2).
    case discardedInactive = 9
    /// Outcome: the instance left before an acknowledgement (REG-3).
    case unregistered = 10
    /// Outcome: the sender cancelled the message before an acknowledgement (MSG-10).
    case cancelled = 11
    /// Outcome: the message had a time to live of 0 (TTL-2). No device acknowledges such a message; `sent` counts its
    /// deliveries.
    case nowOrNever = 12
    /// Outcome: a foreign push service took the message for the instance (GW-11). Whether the device got the message
    /// is the service's knowledge.
    case handedOver = 13
    /// Outcome: a foreign push service refused the message for good (GW-11).
    case refused = 14

    /// Whether the event ends the pending state of an instance.
    @inlinable public var isOutcome: Bool { rawValue >= Self.acknowledged.rawValue }
}

/// A count for each event.
public struct ReportCounts: Sendable, Hashable {
    /// One lane per event. The last lane is unused.
    @usableFromInline var lanes: SIMD16<UInt64> = .zero

    /// Makes counts of zero.
    @inlinable public init() {}

    /// Count of an event.
    @inlinable public subscript(event: ReportEvent) -> UInt64 {
        get { lanes[Int(event.rawValue)] }
        set { lanes[Int(event.rawValue)] = newValue }
    }

    static var laneCount: Int { Int(ReportEvent.refused.rawValue) + 1 }

    /// Count of the event with a raw value.
    subscript(lane lane: Int) -> UInt64 { lanes[lane] }

    /// Adds event by event. The sums wrap around at 2^64.
    @inlinable public static func += (left: inout ReportCounts, right: ReportCounts) {
        left.lanes &+= right.lanes
    }

    /// Whether all counts are 0.
    @inlinable public var isZero: Bool { lanes == .zero }

    /// The sum of all outcomes.
    public var outcomeCount: UInt64 {
        ReportEvent.allCases.reduce(0) { $1.isOutcome ? $0 &+ self[$1] : $0 }
    }

    /// Whether no more instances have an outcome than were targeted.
    package var isConsistent: Bool { outcomeCount <= self[.targeted] }
    /// The number of instances without an outcome: they wait for the message, or have it and have not acknowledged
    /// it.
    public var pending: UInt64 {
        let outcomes = outcomeCount
        return self[.targeted] > outcomes ? self[.targeted] - outcomes : 0
    }
}

extension DeliveryCounts {
    package init(_ counts: ReportCounts) {
        self.init()
        targeted = counts[.targeted]
        sent = counts[.sent]
        displayed = counts[.displayed]
        opened = counts[.opened]
        acknowledged = counts[.acknowledged]
        collapsed = counts[.collapsed]
        expired = counts[.expired]
        rateLimited = counts[.rateLimited]
        discardedTooMany = counts[.discardedTooMany]
        discardedInactive = counts[.discardedInactive]
        unregistered = counts[.unregistered]
        cancelled = counts[.cancelled]
        nowOrNever = counts[.nowOrNever]
        handedOver = counts[.handedOver]
        refused = counts[.refused]
    }
}
