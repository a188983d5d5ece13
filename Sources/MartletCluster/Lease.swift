// SPDX-License-Identifier: Apache-2.0
//
// The active node's lease. It only says when another node may try to take over; whether a row is accepted is decided by the
// tail of the log. Rests on NodeName. Pure.

/// The lease in the log.
package struct Lease: Hashable, Sendable {
    /// The last takeover's epoch; 0 if no node has been active yet.
    package var epoch: UInt32
    /// nil if no node has been active yet.
    package var holder: NodeName?
    /// HOST:PORT where other nodes reach the holder.
    package var address: String
    /// How long it still runs, by the log's clock; negative once it is over.
    package var remaining: Duration

    package init(epoch: UInt32, holder: NodeName?, address: String, remaining: Duration) {
        self.epoch = epoch
        self.holder = holder
        self.address = address
        self.remaining = remaining
    }

    package var isOver: Bool { remaining < .zero }
}

/// A node's claim to the active role.
package struct LeaseClaim: Hashable, Sendable {
    package var node: NodeName
    package var address: String
    package var life: Duration
    /// Whether to take over although another node's lease still runs, because we know that its process is gone. That is safe:
    /// the tail of the log protects a takeover at any time.
    package var isEarly: Bool

    package init(
        node: NodeName, address: String, life: Duration = ClusterLimits.leaseLife,
        isEarly: Bool = false
    ) {
        self.node = node
        self.address = address
        self.life = life
        self.isEarly = isEarly
    }
}

/// How long a holder counts on its lease, by its own clock. Times count from some moment, on a clock that never steps back.
package struct LeaseHold: Hashable, Sendable {
    package let epoch: UInt32
    package let end: Duration

    /// - Parameter start: just before the claim or renewal was sent. The log's clock started later.
    package init(epoch: UInt32, from start: Duration, life: Duration) {
        self.epoch = epoch
        end = start + life * ClusterLimits.leaseTrustedPerMille / 1000
    }

    package func isValid(at now: Duration) -> Bool { now < end }
}
