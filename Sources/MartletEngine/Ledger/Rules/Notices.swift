// SPDX-License-Identifier: Apache-2.0
//
// The stream IDs of the notices of discards (STO-1). Rests on ProjectLedger and MailboxLedger.

import MartletBase
import MartletRows

/// Chooses the stream ID of a notice.
struct Notices: Ledger {
    let context: LedgerContext
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }

    init(_ context: LedgerContext) { self.context = context }

    /// The stream ID of the notice of new discards.
    ///
    /// OPS-7: the store of a cluster learns of another node's connection late or never. The connection may bring messages
    /// that the store discards meanwhile. If the notice had the stream ID of such a message, the device would take the
    /// notice for the message, and the acknowledgement of the message would count for the notice.
    /// - Returns: none for the stream ID of the last discarded message. The store of a broker alone lacks a connection only
    ///   after a failed commit, and `Absences` finds such connections.
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
