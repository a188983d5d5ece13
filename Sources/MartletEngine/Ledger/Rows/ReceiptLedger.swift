// SPDX-License-Identifier: Apache-2.0
//
// Receipts (RCP-1, RCP-2): the messages whose senders want receipts, the receipts that instances sent, and the events
// that wait for senders. Rests on ReportLedger.

package import MartletBase
import MartletBits
package import MartletRows

/// The rows of receipts.
package struct ReceiptLedger: Ledger {
    package let context: LedgerContext
    private var reports: ReportLedger { ReportLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    private static let wishBytes = 16

    private static let wisherBytes = 12

    /// Receipts of a message are wanted until `expires`, even if it is now or never (RCP-1). Calling this again for the
    /// message adds recipients. Few recipients are listed in the row, which outlives the message.
    package func putWanted(
        of sequence: MessageSequence, number: UInt64, expires: Instant, from recipients: Recipients,
        in project: ProjectNumber
    ) throws(StorageError) {
        let key = Key.sequence(sequence, in: project)
        let before = try raw.get(.receiptsWanted, key).map { Array($0) } ?? []
        var writer = RecordWriter()
        writer.append(expires.millisecondsSince1970)
        writer.append(number)
        let areMany = before.count == Self.wishBytes
        if !areMany, recipients.count <= UInt64(inboxRecipientsMax) {
            writer.bytes += before.dropFirst(Self.wishBytes)
            for ordinal in recipients.ordinals {
                guard let digest = try digestStart(of: ordinal, in: project) else { continue }
                writer.append(ordinal.rawValue)
                writer.append(digest)
            }
        }
        try raw.put(.receiptsWanted, key, writer.bytes)
        try raw.put(.due, .due(.receiptsWanted, expires, project, sequence.rawValue), [])
    }

    /// Whether an instance is one of the few recipients of a message with wanted receipts; nil if they are many, or no
    /// receipts are wanted. Compares the holder, because the ordinal may have been another instance's.
    func isWanted(
        from ordinal: Ordinal, of sequence: MessageSequence, in project: ProjectNumber
    ) throws(StorageError) -> Bool? {
        guard let found = try raw.get(.receiptsWanted, .sequence(sequence, in: project)),
            found.count > Self.wishBytes
        else { return nil }
        var at = Self.wishBytes
        while at + Self.wisherBytes <= found.count {
            if found.loadLittleEndian(UInt32.self, at: at) == ordinal.rawValue {
                let digest = found.loadLittleEndian(UInt64.self, at: at + 4)
                return try digestStart(of: ordinal, in: project) == digest
            }
            at += Self.wisherBytes
        }
        return false
    }

    private func digestStart(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> UInt64? {
        guard let instance = try raw.get(.instances, .ordinal(ordinal, in: project)) else {
            return nil
        }
        var reader = RecordReader(instance, of: .instances)
        _ = try reader.bytes(Limits.tokenRandomBytes)
        return try reader.read(UInt64.self)
    }

    /// Takes a receipt from an instance (RCP-2). Displayed and opened messages are counted (REP-1).
    /// - Returns: the message's number; nil if no sender wants the receipt, or it came before.
    package func take(
        _ kind: ReceiptKind, of sequence: MessageSequence, by instance: Instance, now: Instant
    ) throws(StorageError) -> UInt64? {
        let project = instance.project
        let wish = try raw.get(.receiptsWanted, .sequence(sequence, in: project))
        let counted: ReportEvent? =
            switch kind {
            case .received: nil
            case .displayed: .displayed
            case .opened: .opened
            }
        var isCounted = false
        if counted != nil {
            isCounted = try reports.row(of: sequence, in: project) != nil
        }
        guard wish != nil || isCounted else { return nil }
        var expires = now.advanced(bySeconds: Int64(Limits.receiptsWantedSeconds))
        var number: UInt64?
        if let wish {
            var reader = RecordReader(wish, of: .receiptsWanted)
            expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
            number = try reader.read(UInt64.self)
        }
        let key = Key.inbox(instance.ordinal, sequence, in: project)
        var before: UInt8 = 0
        if let found = try raw.get(.receiptsTold, key) {
            var reader = RecordReader(found, of: .receiptsTold)
            expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
            before = try reader.read(UInt8.self)
        }
        let told = before | 1 << kind.rawValue
        guard told != before else { return nil }
        var writer = RecordWriter()
        writer.append(expires.millisecondsSince1970)
        writer.append(told)
        try raw.put(.receiptsTold, key, writer.bytes)
        try raw.put(.due, .due(.receiptsTold, expires, project, key.bytes.dropFirst(4)), [])
        if isCounted, let counted {
            reports.count(
                counted, of: sequence, accepted: now, for: instance.ordinal, of: instance.app,
                in: project)
        }
        return number
    }

    /// Deletes an instance's receipts when it leaves.
    func removeTold(
        by ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        for key in try keys(.receiptsTold, under: .ordinal(ordinal, in: project)) {
            guard let found = try raw.get(.receiptsTold, key) else { continue }
            var reader = RecordReader(found, of: .receiptsTold)
            let expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
            try raw.delete(.due, .due(.receiptsTold, expires, project, key.bytes.dropFirst(4)))
            try raw.delete(.receiptsTold, key)
        }
    }

    /// The events after `number` that no sender has taken, in order, at most `limit` (RCP-1).
    package func records(
        in project: ProjectNumber, after number: UInt64, limit: Int
    ) throws(StorageError) -> [ReceiptRecord] {
        let prefix = Key(project)
        let cursor = try Cursor(raw, .receipts)
        let start = max(number, try row(of: project).taken) + 1
        var found = try cursor.seek(.number(start, in: project))
        var records: [ReceiptRecord] = []
        while let entry = found, prefix.isPrefix(of: entry.key), records.count < limit {
            records.append(
                ReceiptRecord(
                    number: entry.key.number,
                    bytes: Array(entry.value)))
            found = try cursor.next()
        }
        return records
    }

    /// Appends an event, and deletes the one that is `Limits.receiptsPerProjectMax` older. The numbers have no gaps, so
    /// the first and the last say how many there are.
    /// - Returns: the event's number.
    package func append(
        _ bytes: [UInt8], in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        var row = try row(of: project)
        row.last += 1
        let number = row.last
        try put(row, of: project)
        try raw.put(.receipts, .number(number, in: project), bytes)
        let bound = UInt64(Limits.receiptsPerProjectMax)
        if number > bound { try raw.delete(.receipts, .number(number - bound, in: project)) }
        return number
    }

    /// Most events to delete when a sender takes them. The sweep deletes the rest.
    private static let deletedAtOnceMax = 4096

    package func remove(
        through number: UInt64, in project: ProjectNumber
    ) throws(StorageError) {
        var row = try row(of: project)
        let taken = min(number, row.last)
        guard taken > row.taken else { return }
        row.taken = taken
        try put(row, of: project)
        _ = try deleteTaken(in: project, rowsMax: Self.deletedAtOnceMax)
    }

    /// Deletes events that a sender has taken, at most `rowsMax`, and makes the rest due for the sweep.
    /// - Returns: how many were deleted.
    func deleteTaken(
        in project: ProjectNumber, rowsMax: Int
    ) throws(StorageError) -> Int {
        let taken = try row(of: project).taken
        let due = Key.due(.receiptsTaken, Instant(millisecondsSince1970: 0), project)
        guard let first = try first(of: project), first <= taken else {
            try raw.delete(.due, due)
            return 0
        }
        let count = min(taken - first + 1, UInt64(rowsMax))
        invariant(first + count <= taken + 1, "Events that no sender has taken stay.")
        for number in first..<(first + count) {
            try raw.delete(.receipts, .number(number, in: project))
        }
        if first + count <= taken {
            try raw.put(.due, due, [])
        } else {
            try raw.delete(.due, due)
        }
        return Int(count)
    }

    /// The first event that has a row, taken or not.
    func first(of project: ProjectNumber) throws(StorageError) -> UInt64? {
        let cursor = try Cursor(raw, .receipts)
        guard let found = try cursor.seek(.number(0, in: project)),
            Key(project).isPrefix(of: found.key)
        else { return nil }
        return found.key.number
    }

    func row(
        of project: ProjectNumber
    ) throws(StorageError) -> (last: UInt64, taken: UInt64) {
        guard let found = try raw.get(.receipts, Key(project)) else { return (0, 0) }
        var reader = RecordReader(found, of: .receipts)
        let (last, taken) = (try reader.read(UInt64.self), try reader.read(UInt64.self))
        guard taken <= last else { throw reader.damaged() }
        return (last, taken)
    }

    private func put(
        _ row: (last: UInt64, taken: UInt64), of project: ProjectNumber
    ) throws(StorageError) {
        invariant(row.taken <= row.last, "Senders take events that exist.")
        var writer = RecordWriter()
        writer.append(row.last)
        writer.append(row.taken)
        try raw.put(.receipts, Key(project), writer.bytes)
    }
}

extension Recipients {
    /// All ordinals. For few recipients: the array has an element for each.
    fileprivate var ordinals: [Ordinal] {
        switch self {
        case .one(let ordinal): return [ordinal]
        case .many(let set):
            var ordinals: [Ordinal] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
            }
            return ordinals
        }
    }
}
