// SPDX-License-Identifier: Apache-2.0
//
// A message's recipients, and how many of them have it (MSG-10, RCP-2). Rests on InstanceLedger, MessageLedger and
// ReceiptLedger.

package import MartletBase
import MartletBits
package import MartletRows

/// Answers questions about one message's recipients.
package struct RecipientLedger: Ledger {
    package let context: LedgerContext
    private var instances: InstanceLedger { InstanceLedger(context) }
    private var messages: MessageLedger { MessageLedger(context) }
    private var receipts: ReceiptLedger { ReceiptLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Whether an instance is a recipient of a message; nil if the remaining rows don't tell.
    package func isRecipient(
        _ ordinal: Ordinal, of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> Bool? {
        if let isWanted = try receipts.isWanted(from: ordinal, of: sequence, in: project) {
            return isWanted
        }
        if let row = try raw.get(.inbox, .inbox(ordinal, sequence, in: project)) {
            return !InboxRow.row(sequence, row).isDiscarded
        }
        let key = Key.log(LogRow(sequence), in: project)
        // Don't ask an expired or dropped message: its rows remain only for the sake of other messages, until a
        // collection, and the answer must not depend on that.
        guard let found = try raw.get(.messages, key),
            case let flags = try MessageRecord(found).flags, flags.contains(.hasBlob),
            !flags.contains(.isExpired), !flags.contains(.isDropped),
            let blob = try raw.get(.recipients, key)
        else { return nil }
        guard let isMember = RecipientSetView.contains(ordinal, in: blob) else {
            throw RecordReader(blob, of: .recipients).damaged()
        }
        return isMember
    }

    /// How many recipients have acknowledged a message, singly or by a mark of its lane. Reads every recipient's
    /// mailbox.
    package func deliveredCount(
        of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        let key = Key.log(LogRow(sequence), in: project)
        guard let found = try raw.get(.messages, key) else { return 0 }
        let record = try MessageRecord(found)
        let hasSingles = try hasAny(.acknowledged, in: project)
        let mailboxes = try Cursor(raw, .mailboxes)
        var position = MailboxPosition()
        var count = UInt64(record.takerCount)
        func visit(_ ordinal: Ordinal) throws(StorageError) {
            let row = try position.move(to: ordinal, in: project, mailboxes)
            if try has(sequence, record, ordinal, row, in: project, hasSingles) { count += 1 }
        }
        guard record.flags.contains(.hasBlob) else {
            for owner in try record.owners() { try visit(owner) }
            return count
        }
        try messages.withRecipients(of: LogRow(sequence), in: project) {
            (view) throws(StorageError) in
            for index in 0..<view.blockCount {
                for ordinal in view.ordinals(ofBlockAt: index) { try visit(ordinal) }
            }
        }
        return count
    }

    /// The ordinals for which a message's outcome is open: it is in their log, and not acknowledged.
    /// - Parameter ordinals: ascending.
    func waiting(
        for sequence: MessageSequence, _ record: MessageRecord, among ordinals: [Ordinal],
        in project: ProjectNumber
    ) throws(StorageError) -> [Ordinal] {
        assert(ordinals.isAscending, "Recipients are looked at in the order of their ordinals.")
        let hasSingles = try hasAny(.acknowledged, in: project)
        let mailboxes = try Cursor(raw, .mailboxes)
        var position = MailboxPosition()
        var open: [Ordinal] = []
        for ordinal in ordinals {
            guard let row = try position.move(to: ordinal, in: project, mailboxes),
                try MailboxRow.state(row).logStart < sequence,
                try !has(sequence, record, ordinal, row, in: project, hasSingles)
            else { continue }
            if hasSingles,
                try raw.get(.acknowledged, .inbox(ordinal, sequence, in: project)) != nil
            {
                continue
            }
            open.append(ordinal)
        }
        return open
    }

    private func has(
        _ sequence: MessageSequence, _ record: MessageRecord, _ ordinal: Ordinal,
        _ row: UnsafeRawBufferPointer?, in project: ProjectNumber, _ hasSingles: Bool
    ) throws(StorageError) -> Bool {
        guard let row else { return false }
        let marks = try MailboxRow.state(row).acknowledged
        if marks.lowest >= sequence { return true }
        if marks.highest >= sequence,
            let platform = try instances.instance(ordinal, in: project)?.platform,
            let variant = try record.variant(on: platform)
        {
            if marks[variant.lane] >= sequence { return true }
        }
        guard hasSingles else { return false }
        // A row with a byte in it means a dropped entry, not an acknowledgement.
        return try raw.get(.acknowledged, .inbox(ordinal, sequence, in: project))?.count == 0
    }

    private func hasAny(
        _ table: Table, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let cursor = try Cursor(raw, table)
        guard let entry = try cursor.seek(Key(project)) else { return false }
        return Key(project).isPrefix(of: entry.key)
    }
}

extension RecipientSetView {
    func ordinals(ofBlockAt index: Int) -> [Ordinal] {
        let block = block(at: index)
        var ordinals: [Ordinal] = []
        ordinals.reserveCapacity(block.count)
        block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
        return ordinals
    }
}

/// A position in `mailboxes` that only moves forward: by steps to a near row, by a search to a far one.
private struct MailboxPosition {
    private static let stepsMax = 16
    /// The row at the cursor.
    private var current: (ordinal: UInt32, value: UnsafeRawBufferPointer)?
    private var hasBegun = false

    /// An ordinal's row. Ordinals must ascend from call to call.
    mutating func move(
        to ordinal: Ordinal, in project: ProjectNumber, _ cursor: borrowing Cursor
    ) throws(StorageError) -> UnsafeRawBufferPointer? {
        var steps = 0
        while hasBegun, let at = current, at.ordinal < ordinal.rawValue, steps < Self.stepsMax {
            settle(try cursor.next(), in: project)
            steps += 1
        }
        if !hasBegun || current.map({ $0.ordinal < ordinal.rawValue }) ?? false {
            hasBegun = true
            settle(try cursor.seek(.ordinal(ordinal, in: project)), in: project)
        }
        guard let current, current.ordinal == ordinal.rawValue else { return nil }
        return current.value
    }

    private mutating func settle(_ entry: Cursor.Entry?, in project: ProjectNumber) {
        guard let entry, entry.key.project.rawValue == project.rawValue else {
            current = nil
            return
        }
        current = (entry.key.ordinal.rawValue, entry.value)
    }
}
