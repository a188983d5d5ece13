// SPDX-License-Identifier: Apache-2.0
//
// Stored messages. A message lies here once. Who it is for lies either in the inbox, a row per
// recipient, where they are few, or in one immutable blob where they are many; that never changes
// afterwards. What an instance has acknowledged is a watermark, and single sequences above it. What
// is pending for an instance is worked out on reading. Rests on Schema.

public import MartletBase
import MartletBits
public import MartletEngine

/// From how many recipients on a message gets a blob instead of inbox rows. A row costs about
/// 0.3 µs and 235 bytes to write; a blob costs every recipient that reconnects a look into it.
let inboxRecipientsMax = 64

extension Transaction {
    public borrowing func append(
        _ header: MessageHeader, body: [UInt8], recipients: Recipients, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(header.accepted.millisecondsSince1970)
        writer.append(header.expires.millisecondsSince1970)
        writer.append(recipients.count)
        writer.append(header.kind.rawValue)
        writer.append(header.priority.rawValue)
        writer.append(UInt16(0))
        writer.append(text: header.from)
        writer.bytes += body
        let key = Key.sequence(header.sequence, in: project)
        try raw.put(.messages, key, writer.bytes)
        switch recipients {
        case .one(let ordinal):
            try raw.put(.inbox, .inbox(ordinal, header.sequence, in: project), [])
        case .many(let set) where set.count <= inboxRecipientsMax:
            var ordinals: [Ordinal] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit { ordinals.append(Ordinal(block: block.block, bit: $0)) }
            }
            for ordinal in ordinals {
                try raw.put(.inbox, .inbox(ordinal, header.sequence, in: project), [])
            }
        case .many(let set):
            try raw.put(.recipients, key, set.bytes)
        }
    }

    public borrowing func watermark(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence {
        guard let found = try raw.get(.watermarks, .ordinal(ordinal, in: project)) else {
            return .none
        }
        var reader = RecordReader(found, of: .watermarks)
        return MessageSequence(try reader.read(UInt64.self))
    }

    public borrowing func acknowledge(
        through: MessageSequence, single: [UInt64], for ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        // The instance may have left between its acknowledgement and this transaction.
        guard try raw.get(.instances, .ordinal(ordinal, in: project)) != nil else { return }
        let before = try watermark(of: ordinal, in: project)
        if through > before {
            var writer = RecordWriter()
            writer.append(through.rawValue)
            try raw.put(.watermarks, .ordinal(ordinal, in: project), writer.bytes)
            for key in try keys(.acknowledged, under: .ordinal(ordinal, in: project)) {
                let sequence = key.bytes.withUnsafeBytes { $0.loadBigEndian(UInt64.self, at: 8) }
                if sequence <= through.rawValue { try raw.delete(.acknowledged, key) }
            }
        }
        for sequence in single where sequence > max(before, through).rawValue {
            try raw.put(
                .acknowledged, .inbox(ordinal, MessageSequence(sequence), in: project), [])
        }
    }

    public borrowing func forEachPending(
        for ordinal: Ordinal, in project: ProjectNumber, after sequence: MessageSequence,
        now: Instant, rowsMax: Int, _ body: (borrowing PendingMessage) -> Bool
    ) throws(StorageError) -> PendingScan {
        let first = MessageSequence(sequence.rawValue + 1)
        let inboxPrefix = Key.ordinal(ordinal, in: project)
        let projectPrefix = Key(project)
        let inbox = try Cursor(raw, .inbox)
        let recipients = try Cursor(raw, .recipients)
        var direct = try inbox.seek(.inbox(ordinal, first, in: project))
        var fanout = try recipients.seek(.sequence(first, in: project))
        let singles = try hasSingleAcknowledgements(ordinal, in: project)
        var rows = 0
        var through = sequence
        while true {
            if let entry = direct, !inboxPrefix.isPrefix(of: entry.key) { direct = nil }
            if let entry = fanout, !projectPrefix.isPrefix(of: entry.key) { fanout = nil }
            // The next message is the lower of the two indexes' next.
            let directSequence = direct.map { $0.key.loadBigEndian(UInt64.self, at: 8) } ?? .max
            let fanoutSequence = fanout.map { $0.key.loadBigEndian(UInt64.self, at: 4) } ?? .max
            let next = MessageSequence(min(directSequence, fanoutSequence))
            guard next.rawValue != .max else { return .end }
            guard rows < rowsMax else { return .paused(through: through) }
            rows += 1
            through = next
            var isRecipient = true
            if directSequence < fanoutSequence {
                direct = try inbox.next()
            } else {
                guard let isMember = RecipientSetView.contains(ordinal, in: fanout!.value) else {
                    throw RecordReader(fanout!.value, of: .recipients).damaged()
                }
                isRecipient = isMember
                fanout = try recipients.next()
            }
            guard isRecipient else { continue }
            if singles, try raw.get(.acknowledged, .inbox(ordinal, next, in: project)) != nil {
                continue
            }
            guard let found = try raw.get(.messages, .sequence(next, in: project)) else { continue }
            let message = try pending(next, found)
            guard message.header.expires > now else { continue }
            if !body(message) { return .stopped }
        }
    }

    private borrowing func hasSingleAcknowledgements(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        let prefix = Key.ordinal(ordinal, in: project)
        let cursor = try Cursor(raw, .acknowledged)
        guard let entry = try cursor.seek(prefix) else { return false }
        return prefix.isPrefix(of: entry.key)
    }

    /// How many recipients a message had when it was accepted; the whole record is read for it.
    borrowing func storedRecipientCount(
        _ sequence: MessageSequence, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> UInt64? {
        _ = try pending(sequence, bytes)
        return bytes.loadLittleEndian(UInt64.self, at: 16)
    }

    private borrowing func pending(
        _ sequence: MessageSequence, _ bytes: UnsafeRawBufferPointer
    ) throws(StorageError) -> PendingMessage {
        var reader = RecordReader(bytes, of: .messages)
        let accepted = Instant(millisecondsSince1970: try reader.read(Int64.self))
        let expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
        _ = try reader.read(UInt64.self)
        guard let kind = TargetKind(rawValue: try reader.read(UInt8.self)),
            let priority = MessagePriority(rawValue: try reader.read(UInt8.self))
        else { throw reader.damaged() }
        _ = try reader.read(UInt16.self)
        let from = try reader.text()
        return PendingMessage(
            header: MessageHeader(
                sequence: sequence, accepted: accepted, expires: expires, kind: kind,
                priority: priority, from: from),
            body: reader.rest())
    }
}

extension Transaction: StorageWriter {}
