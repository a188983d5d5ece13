// SPDX-License-Identifier: Apache-2.0
//
// Removes an instance that leaves: deletes its messages, marks, receipts and message IDs, and counts the outcomes of what
// was waiting for it. Rests on Outcomes.

package import MartletBase
package import MartletRows

/// Removes an instance and its rows.
package struct Departing: Ledger {
    package let context: LedgerContext
    private var agents: AgentLedger { AgentLedger(context) }
    private var bridges: BridgeLedger { BridgeLedger(context) }
    private var log: MailboxLog { MailboxLog(context) }
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var outcomes: Outcomes { Outcomes(context) }
    private var receipts: ReceiptLedger { ReceiptLedger(context) }
    private var registrations: RegistrationLedger { RegistrationLedger(context) }
    private var sets: SetLedger { SetLedger(context) }
    private var upstream: UpstreamLedger { UpstreamLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Deletes an instance's tokens, record, mailbox, receipts and message IDs. The caller removes it from its sets,
    /// except the inactive one.
    package func remove(
        _ instance: Instance, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        let key = Key.ordinal(instance.ordinal, in: instance.project)
        try countLeft(by: instance, now: now, limits: limits)
        try raw.delete(.tokens, Key(instance.token))
        for token in instance.formerTokens {
            try raw.delete(.formerTokens, Key(token))
        }
        try raw.deleteFound(.instances, key)
        try removeMailbox(of: instance.ordinal, in: instance.project)
        try receipts.removeTold(by: instance.ordinal, in: instance.project)
        try agents.remove(of: instance.ordinal, in: instance.project)
        try bridges.remove(of: instance.ordinal, in: instance.project)
        try registrations.removeGrants(of: instance.ordinal, in: instance.project)
        try upstream.removeIDs(of: instance.ordinal, in: instance.project)
    }

    /// Deletes all of a mailbox's rows, because another instance may soon have the ordinal.
    func removeMailbox(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        let key = Key.ordinal(ordinal, in: project)
        let seen = try mailboxes.state(of: ordinal, in: project).seen
        try mailboxes.removeSettlement(of: ordinal, in: project)
        try raw.delete(.due, .due(.seen, seen, project, UInt64(ordinal.rawValue)))
        _ = try sets.remove([ordinal.rawValue], from: .inactive, in: project)
        try messages.removeInbox(
            of: ordinal, in: project, through: MessageSequence(.max), isTaken: false)
        try raw.delete(.mailboxes, key)
        try raw.delete(.connections, key)
        try deleteAll(.acknowledged, under: key)
    }

    /// Counts what became of the messages in the log of an instance that leaves.
    func countLeft(
        by instance: Instance, now: Instant, limits: BrokerLimits
    ) throws(StorageError) {
        guard tally != nil, let owner = try log.owner(instance, in: instance.project) else {
            return
        }
        let state = try mailboxes.state(of: instance.ordinal, in: instance.project)
        let taker = Taker(instance)
        let (rows, replay) = try outcomes.read(owner, state, limits: limits)
        for row in rows where !row.entry.isAcknowledged && row.entry.content != .discarded {
            guard replay.isStored(row.entry, at: now) else {
                try outcomes.countDropped(row, replay, for: taker, now: now)
                continue
            }
            outcomes.count(.unregistered, of: row.entry, for: taker)
        }
    }
}
