// SPDX-License-Identifier: Apache-2.0
//
// What is counted of messages (REP-1). Every instance that a message was for has exactly one outcome,
// decided by what the store was told first: that it took the message, that another replaced it, that
// its time was over. Those without one are pending, so at any moment the outcomes and what is pending
// add up to what was targeted. Rests on nothing.

/// What can be counted of a message and one of the instances it was for.
public enum ReportEvent: UInt8, CaseIterable, Sendable {
    /// The message was for it.
    case targeted = 0
    /// It was written to a connection of it; a message that is written again counts again.
    case sent = 1
    /// RCP-2, once for each instance.
    case displayed = 2
    case opened = 3
    /// Outcome: the device took it, and said so.
    case acknowledged = 4
    /// Outcome: a later message took its place before (COL-1, COL-3).
    case collapsed = 5
    /// Outcome: its time to live ended before.
    case expired = 6
    /// Outcome: the device had had too many messages (QUO-1).
    case rateLimited = 7
    /// Outcome: discarded with everything that was stored, which was too many (STO-1).
    case discardedTooMany = 8
    /// Outcome: discarded, for the instance had not been connected for too long (STO-2).
    case discardedInactive = 9
    /// Outcome: the instance left before (REG-3).
    case unregistered = 10
    /// Outcome: the sender cancelled it before (MSG-10).
    case cancelled = 11
    /// Outcome: it was now or never (TTL-2). No device acknowledges that; `sent` says how often it was
    /// given to one.
    case nowOrNever = 12

    /// Whether it ends the waiting for an instance.
    @inlinable public var isOutcome: Bool { rawValue >= Self.acknowledged.rawValue }
}

/// How often each event was counted.
public struct ReportCounts: Sendable, Hashable {
    /// One lane an event; the last ones are not used.
    @usableFromInline var lanes: SIMD16<UInt64> = .zero

    @inlinable public init() {}

    @inlinable public subscript(event: ReportEvent) -> UInt64 {
        get { lanes[Int(event.rawValue)] }
        set { lanes[Int(event.rawValue)] = newValue }
    }

    @inlinable public static func += (left: inout ReportCounts, right: ReportCounts) {
        left.lanes &+= right.lanes
    }

    @inlinable public var isZero: Bool { lanes == .zero }

    /// All outcomes together.
    public var outcomeCount: UInt64 {
        ReportEvent.allCases.reduce(0) { $1.isOutcome ? $0 &+ self[$1] : $0 }
    }

    /// Instances that wait for the message, or have it and have not said so.
    public var pending: UInt64 {
        let outcomes = outcomeCount
        return self[.targeted] > outcomes ? self[.targeted] - outcomes : 0
    }
}
