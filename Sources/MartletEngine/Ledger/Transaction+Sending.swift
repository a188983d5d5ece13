// SPDX-License-Identifier: Apache-2.0
//
// What is kept for senders beside messages: answers to those who repeat themselves (MSG-9), and
// messages that wait for their time (MSG-10). Rests on Schema.

public import MartletBase
public import MartletRows

extension Transaction {
    // MARK: Answers

    /// MSG-9: what a sender was answered who used this key, if that still holds at `now`.
    public borrowing func answer(
        toKey key: String, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> KeptAnswer? {
        guard let found = try raw.get(.answers, .answer(AnswerDigest(of: key), in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .answers)
        let expires = try reader.read(Int64.self)
        var acceptance = Acceptance(
            messageNumber: try reader.read(UInt64.self),
            recipientCount: try reader.read(UInt64.self),
            rateLimitedCount: try reader.read(UInt64.self),
            inactiveCount: try reader.read(UInt64.self),
            deferredPlace: try reader.read(UInt64.self))
        let digest = try reader.read(UInt64.self)
        acceptance.named = try NamedResults(&reader)
        let answer = KeptAnswer(acceptance: acceptance, digest: digest)
        return expires > now.millisecondsSince1970 ? answer : nil
    }

    /// MSG-9: keeps what a sender was answered until `expires`.
    public borrowing func putAnswer(
        _ answer: KeptAnswer, toKey key: String, expires: Instant, in project: ProjectNumber
    ) throws(StorageError) {
        let digest = AnswerDigest(of: key)
        let place = Key.answer(digest, in: project)
        var before: Instant?
        if let found = try raw.get(.answers, place) {
            var reader = RecordReader(found, of: .answers)
            before = Instant(millisecondsSince1970: try reader.read(Int64.self))
        }
        var writer = RecordWriter()
        writer.append(expires.millisecondsSince1970)
        writer.append(answer.acceptance.messageNumber)
        writer.append(answer.acceptance.recipientCount)
        writer.append(answer.acceptance.rateLimitedCount)
        writer.append(answer.acceptance.inactiveCount)
        writer.append(answer.acceptance.deferredPlace)
        writer.append(answer.digest)
        answer.acceptance.named.append(to: &writer)
        try raw.put(.answers, place, writer.bytes)
        guard before != expires else { return }
        if let before { try raw.delete(.due, .due(.answer, before, project, digest.bytes)) }
        try raw.put(.due, .due(.answer, expires, project, digest.bytes), [])
    }

    borrowing func removeAnswer(
        _ digest: AnswerDigest, in project: ProjectNumber
    ) throws(StorageError) {
        let key = Key.answer(digest, in: project)
        guard let found = try raw.get(.answers, key) else { return }
        var reader = RecordReader(found, of: .answers)
        let expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
        try raw.delete(.due, .due(.answer, expires, project, digest.bytes))
        try raw.delete(.answers, key)
    }

    // MARK: Scheduled messages

    /// MSG-10: a scheduled message, as it was put.
    public borrowing func scheduled(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> ScheduledMessage? {
        guard let found = try raw.get(.scheduled, .number(number, in: project)) else { return nil }
        var reader = RecordReader(found, of: .scheduled)
        let due = Instant(millisecondsSince1970: try reader.read(Int64.self))
        return ScheduledMessage(
            project: project, number: number, due: due, bytes: Array(reader.rest()))
    }

    public borrowing func scheduledCount(
        in project: ProjectNumber
    ) throws(StorageError) -> UInt64 {
        guard let found = try raw.get(.scheduled, Key(project)) else { return 0 }
        var reader = RecordReader(found, of: .scheduled)
        return try reader.read(UInt64.self)
    }

    /// The scheduled message of any project that is due at `now`, and first.
    public borrowing func nextScheduled(
        dueAt now: Instant
    ) throws(StorageError) -> ScheduledMessage? {
        guard let next = try nextDue(.scheduled, through: now) else { return nil }
        guard let message = try scheduled(next.number, in: next.project) else {
            throw StorageError(
                operation: "read due", code: 0,
                text: "a scheduled message is missing; run 'martlet check'", isFull: false)
        }
        return message
    }

    /// MSG-10: keeps a message until it is removed; its number is new.
    public borrowing func putScheduled(_ message: ScheduledMessage) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(message.due.millisecondsSince1970)
        writer.bytes += message.bytes
        try raw.put(.scheduled, .number(message.number, in: message.project), writer.bytes)
        try raw.put(.due, .due(.scheduled, message.due, message.project, message.number), [])
        try putScheduledCount(try scheduledCount(in: message.project) + 1, in: message.project)
    }

    /// - Returns: false if there is none.
    public borrowing func removeScheduled(
        _ number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let message = try scheduled(number, in: project) else { return false }
        try raw.delete(.scheduled, .number(number, in: project))
        try raw.delete(.due, .due(.scheduled, message.due, project, number))
        try putScheduledCount(try scheduledCount(in: project) - 1, in: project)
        return true
    }

    private borrowing func putScheduledCount(
        _ count: UInt64, in project: ProjectNumber
    ) throws(StorageError) {
        var writer = RecordWriter()
        writer.append(count)
        try raw.put(.scheduled, Key(project), writer.bytes)
    }

    /// Where a message is in the order of stored ones; nil if it is there no more. The two numbers
    /// differ for those that were scheduled.
    public borrowing func sequence(
        ofNumber number: UInt64, in project: ProjectNumber
    ) throws(StorageError) -> MessageSequence? {
        if let found = try raw.get(.numbers, .number(number, in: project)) {
            var reader = RecordReader(found, of: .numbers)
            return MessageSequence(try reader.read(UInt64.self))
        }
        let sequence = MessageSequence(number)
        guard let found = try raw.get(.messages, .log(LogRow(sequence), in: project)),
            try !MessageRecord(found).flags.contains(.hasNumber)
        else { return nil }
        return sequence
    }
}
