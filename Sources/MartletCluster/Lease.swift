// SPDX-License-Identifier: Apache-2.0
//
// The lease of the active node. A lease only says when another node may try to take over: the tail of the
// log decides whether a row is accepted. Rests on NodeName. Pure.

/// The lease in the log.
package struct Lease: Hashable, Sendable {
    /// The epoch of the last takeover; 0: no node was active yet.
    package var epoch: UInt32
    /// nil: no node was active yet.
    package var holder: NodeName?
    /// HOST:PORT of the holder for other nodes.
    package var address: String
    /// Time until the lease's end by the clock of the log; negative after the end.
    package var remaining: Duration

    package init(epoch: UInt32, holder: NodeName?, address: String, remaining: Duration) {
        self.epoch = epoch
        self.holder = holder
        self.address = address
        self.remaining = remaining
    }

    package var isOver: Bool { remaining < .zero }
}

/// The claim of a node on the active role.
package struct LeaseClaim: Hashable, Sendable {
    package var node: NodeName
    package var address: String
    package var life: Duration
    /// Whether the claim holds although the lease of another node is not over. The tail of the log keeps a takeover at
    /// any time safe; the claimant knows that the holder's process is gone.
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

/// The time for which a holder counts on a lease, by the holder's own clock. A time is the time since any moment, by a
/// clock without steps back.
package struct LeaseHold: Hashable, Sendable {
    package let epoch: UInt32
    package let end: Duration

    /// - Parameter start: the moment before the claim or the renewal was sent. The log's clock began later.
    package init(epoch: UInt32, from start: Duration, life: Duration) {
        self.epoch = epoch
        end = start + life * ClusterLimits.leaseTrustedPerMille / 1000
    }

    package func isValid(at now: Duration) -> Bool { now < end }
}
