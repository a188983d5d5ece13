// SPDX-License-Identifier: Apache-2.0
//
// An instance connects, and its absence ends. Rests on Absences.

package import MartletBase
package import MartletRows

/// Applies the loops' news of connecting instances.
package struct Presence: Ledger {
    package let context: LedgerContext
    private var absences: Absences { Absences(context) }
    private var connections: ConnectionLedger { ConnectionLedger(context) }
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// An instance is connected: it isn't away (STO-1), and leaves the inactive set (STO-2). Saying so again doesn't move the
    /// start of the connection, and a connection that replaces another takes over its start.
    /// - Parameter run: the run of the node that has the connection; nil for the broker's own.
    package func connected(
        _ ordinal: Ordinal, in project: ProjectNumber, _ connection: ConnectionStart,
        run: UInt32? = nil, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        let key = Key.ordinal(ordinal, in: project)
        guard try raw.get(.instances, key) != nil else { return }
        try connections.endLost(of: ordinal, in: project, now: now)
        let known = try mailboxes.connection(key)?.start
        if known == nil {
            try absences.endAbsence(
                of: ordinal, in: project, through: connection.position, now: now, limits: limits)
        }
        var state = try mailboxes.state(of: ordinal, in: project)
        if let held = connection.held, known?.number == connection.number,
            let instance = try instances.instance(ordinal, in: project),
            let owner = try log.owner(instance, in: project)
        {
            try absences.discard(by: held, owner, instance, &state, now: now, limits: limits)
        }
        if known.map({ $0.number < connection.number }) ?? true {
            let start = ConnectionStart(
                number: connection.number, position: (known ?? connection).position)
            let number = if let run { run } else { try mailboxes.run().number }
            try mailboxes.put(ConnectionRow(start: start, run: number), key)
        }
        let before = state
        state.seen = max(before.seen, now)
        try mailboxes.put(state, after: before, of: ordinal, in: project)
        try mailboxes.setSeen(state.seen, before: before.seen, ordinal, in: project)
    }
}
