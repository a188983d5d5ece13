// SPDX-License-Identifier: Apache-2.0
//
// Answers to senders that may repeat a request (MSG-9). Rests on the rows.

package import MartletBase
package import MartletRows

/// The answers kept under idempotency keys.
package struct AnswerLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    /// The answer kept under an idempotency key (MSG-9); nil if the key is unknown, or its answer has expired at `now`.
    package func answer(
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

    /// Keeps the answer to a sender until `expires` (MSG-9).
    package func put(
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

    func remove(
        _ digest: AnswerDigest, in project: ProjectNumber
    ) throws(StorageError) {
        let key = Key.answer(digest, in: project)
        guard let found = try raw.get(.answers, key) else { return }
        var reader = RecordReader(found, of: .answers)
        let expires = Instant(millisecondsSince1970: try reader.read(Int64.self))
        try raw.delete(.due, .due(.answer, expires, project, digest.bytes))
        try raw.deleteFound(.answers, key)
    }
}
