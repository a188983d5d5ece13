// SPDX-License-Identifier: Apache-2.0
//
// Stores a message for its recipients. If it replaces one, that one's body is dropped at once. Rests on ExpiryLines,
// ReportLedger and Collecting.

package import MartletBase
import MartletBits
package import MartletRows

/// Stores accepted messages.
package struct Accepting: Ledger {
    package let context: LedgerContext
    private var collecting: Collecting { Collecting(context) }
    private var expiryLines: ExpiryLines { ExpiryLines(context) }
    private var reports: ReportLedger { ReportLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Stores a message for its recipients until it is acknowledged, replaced, discarded, or expires.
    package func append(
        _ message: StoredMessage, recipients: Recipients, in project: ProjectNumber
    ) throws(StorageError) {
        invariant(message.sequence.isStored, "Only a stored message has rows.")
        invariant(!message.variants.isEmpty, "A stored message has a variant.")
        if case .one(let ordinal) = recipients, let variant = message.variants.first,
            message.variants.count == 1
        {
            switch variant.collapse {
            case .none: break
            case .app: try dropReplaced(by: message, 0, for: ordinal, in: project)
            case .named(let key):
                try dropReplaced(
                    by: message, CollapseDigest(of: key).rawValue, for: ordinal, in: project)
            case .opaque(let topic):
                if let topic {
                    try dropReplaced(
                        by: message, CollapseDigest(ofTopic: topic).rawValue, for: ordinal,
                        in: project)
                }
                try settleIfLong(ordinal, in: project, before: message.sequence)
            }
        }
        let expires = message.variants.reduce(Instant(millisecondsSince1970: .min)) {
            max($0, $1.expires)
        }
        var hasReport = false
        if case .one = recipients {
            hasReport = reports.takeOpen(of: message.sequence, in: project)
        }
        try append(
            LogRow(message.sequence), accepted: message.accepted, expires: expires,
            recipients: recipients, in: project
        ) { owners, isInLine, flags in
            MessageRecord.bytes(
                of: message, owners: owners, isInLine: isInLine, hasReport: hasReport, flags: flags)
        }
        if message.number != message.sequence.rawValue, recipients.count > 0 {
            var writer = RecordWriter()
            writer.append(message.sequence.rawValue)
            try raw.put(.numbers, .number(message.number, in: project), writer.bytes)
        }
    }

    /// Keeps until `expires` for whom a message was discarded (STO-2).
    package func appendDiscarded(
        _ sequence: MessageSequence, accepted: Instant, expires: Instant, recipients: Recipients,
        in project: ProjectNumber
    ) throws(StorageError) {
        let record = StoredMessage(
            sequence: sequence, number: sequence.rawValue, accepted: accepted, kind: .token,
            from: "", options: MessageOptions(),
            variants: [
                MessageVariant(
                    platforms: .all, expires: expires, priority: .normal, collapse: .none, body: [])
            ])
        try append(
            LogRow(sequence, isDiscarded: true), accepted: accepted, expires: expires,
            recipients: recipients, in: project
        ) { owners, isInLine, flags in
            MessageRecord.bytes(
                of: record, owners: owners, isInLine: isInLine, flags: flags.union(.isDiscarded))
        }
    }

    private func append(
        _ row: LogRow, accepted: Instant, expires: Instant, recipients: Recipients,
        in project: ProjectNumber,
        _ record: (_ owners: [Ordinal], _ isInLine: Bool, MessageRecord.Flags) -> [UInt8]
    ) throws(StorageError) {
        let key = Key.log(row, in: project)
        guard recipients.count > 0 else { return }
        var isInLine = false
        if !row.isDiscarded {
            isInLine = try expiryLines.join(row.sequence, expires: expires, in: project)
        }
        let value = row.isDiscarded ? InboxRow.discarded : InboxRow.message
        switch recipients {
        case .one(let ordinal):
            let bytes = record([ordinal], isInLine, .none)
            try putLast(.messages, key, bytes)
            let digest = bytes.withUnsafeBytes { MessageRecord.onlyDigest($0) }
            try raw.put(
                .inbox, .inbox(ordinal, row.sequence, in: project),
                digest.map { InboxRow.collapsible($0) } ?? value)
        case .many(let set) where set.count <= inboxRecipientsMax:
            var ordinals: [Ordinal] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
            }
            invariant(ordinals.count == Int(set.count), "A set has as many members as it counts.")
            try putLast(.messages, key, record(ordinals, isInLine, .none))
            for ordinal in ordinals {
                try raw.put(.inbox, .inbox(ordinal, row.sequence, in: project), value)
            }
        case .many(let set):
            try putLast(.messages, key, record([], isInLine, .hasBlob))
            try set.withBytes { bytes throws(StorageError) in
                try putLast(.recipients, key, bytes)
            }
            collecting.noteBlob(of: set.byteCount, in: project, now: accepted)
        }
        if !isInLine {
            try raw.put(.due, .due(row.dueKind, expires, project, row.sequence.rawValue), [])
        }
    }

    /// How many inbox rows to search for the replaced message, from the latest back.
    private static let replacedLookback = 32

    /// At so many replaced messages among these the instance is due for settling.
    private static let replacedMax = 16

    /// At so many inbox rows an absent instance is settled after an opaque message (MSG-11).
    private static let opaqueRowsMax = 128

    /// Gets an absent instance settled soon if it has many rows (STO-1). Opaque messages push out the oldest one by one, and
    /// those rows would otherwise stay until the next connection.
    private func settleIfLong(
        _ ordinal: Ordinal, in project: ProjectNumber, before sequence: MessageSequence
    ) throws(StorageError) {
        let prefix = Key.ordinal(ordinal, in: project)
        guard try raw.get(.connections, prefix) == nil else { return }
        var count = 0
        do {
            let cursor = try Cursor(raw, .inbox)
            var row = try cursor.seekLast(below: .inbox(ordinal, sequence, in: project))
            while let entry = row, prefix.isPrefix(of: entry.key), count < Self.opaqueRowsMax {
                count += 1
                row = try cursor.previous()
            }
        }
        if count == Self.opaqueRowsMax { try putSettlement(of: ordinal, in: project) }
    }

    /// Makes an instance due for settling. It has at most one such row, because the time is always 0.
    private func putSettlement(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        try raw.put(
            .due,
            .due(
                .settlement, Instant(millisecondsSince1970: 0), project, UInt64(ordinal.rawValue)),
            [])
    }

    /// Drops the body of the message that a new one for one instance replaces (COL-1).
    /// - Parameter digest: of the collapse key or topic; 0 stands for the app's key.
    func dropReplaced(
        by message: StoredMessage, _ digest: UInt64, for ordinal: Ordinal,
        in project: ProjectNumber
    ) throws(StorageError) {
        let (found, replacedCount) = try lookBack(
            from: message.sequence, for: digest, of: ordinal, in: project)
        if replacedCount == Self.replacedMax {
            // Settling removes replaced rows, so the count falls again.
            try putSettlement(of: ordinal, in: project)
        }
        guard let found else { return }
        invariant(found < message.sequence, "A message replaces an earlier message.")
        let key = Key.log(LogRow(found), in: project)
        guard let bytes = try raw.get(.messages, key) else { return }
        let record = try MessageRecord(bytes)
        // A message whose time is over isn't replaced, even if its expiry hasn't been handled yet (TTL-3).
        guard try record.expires() > message.accepted else { return }
        try raw.put(.messages, key, try record.dropped(expiring: nil))
        try raw.put(.inbox, .inbox(ordinal, found, in: project), InboxRow.replaced(digest))
    }

    private func lookBack(
        from sequence: MessageSequence, for digest: UInt64, of ordinal: Ordinal,
        in project: ProjectNumber
    ) throws(StorageError) -> (found: MessageSequence?, replacedCount: Int) {
        let prefix = Key.ordinal(ordinal, in: project)
        let cursor = try Cursor(raw, .inbox)
        var row = try cursor.seekLast(below: .inbox(ordinal, sequence, in: project))
        var found: MessageSequence?
        var replacedCount = 0
        var looked = 0
        while let entry = row, prefix.isPrefix(of: entry.key), looked < Self.replacedLookback {
            looked += 1
            if InboxRow.isReplaced(entry.value) { replacedCount += 1 }
            if found == nil, InboxRow.digest(entry.value) == digest {
                found = entry.key.instanceSequence
            }
            row = try cursor.previous()
        }
        return (found, replacedCount)
    }
}
