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
    /// OPS-7: in a cluster the store learns of a connection of another node late or never, and the connection may bring
    /// messages that the store discards meanwhile. With the stream ID of such a message, the device would take the notice
    /// for the message, and the acknowledgement of the message would count for the notice.
    /// - Returns: none for the stream ID of the last discarded message. A broker alone brings all messages itself, and
    ///   `Absences` looks for connections that a failed commit kept from its store.
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
