// SPDX-License-Identifier: Apache-2.0
//
// Chooses the stream IDs of discard notices (STO-1). Rests on ProjectLedger and MailboxLedger.

import MartletBase
import MartletRows

/// Chooses the stream ID of a notice.
struct Notices: Ledger {
    let context: LedgerContext
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }

    init(_ context: LedgerContext) { self.context = context }

    /// The stream ID for a notice of new discards.
    ///
    /// A node's store learns of another node's connection late, or never (OPS-7). Meanwhile that connection may deliver
    /// messages that the store discards. If the notice had the stream ID of one of them, the device would take the notice for
    /// the message, and acknowledging the message would acknowledge the notice.
    /// - Returns: none if the notice can have the last discarded message's. A lone broker's store lacks a connection
    ///   only after a failed commit, and `Absences` finds those.
    func streamIDOfDiscards(in project: ProjectNumber) throws(StorageError) -> MessageSequence {
        guard try mailboxes.livingRuns() != nil else { return .none }
        return try ownStreamID(in: project)
    }

    /// A stream ID that no message has.
    func ownStreamID(in number: ProjectNumber) throws(StorageError) -> MessageSequence {
        guard var project = try projects.project(number) else { return .none }
        project.lastSequence = MessageSequence(project.lastSequence.rawValue + 1)
        try projects.put(project, isNew: false)
        return project.lastSequence
    }
}
