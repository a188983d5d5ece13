// SPDX-License-Identifier: Apache-2.0
//
// How far a message to many has come, over all loops (FAN-8). In the book it is one fanout, so its variants share the
// progress. Loops report once per turn of a walk, never for a single delivery. Rests on FanoutBook, which keeps the progress
// until the last part has ended.

package import MartletBase
package import MartletBits
import MartletRows
import Synchronization

/// The progress of a message.
package final class FanoutProgress: Sendable {
    /// Project of the message.
    package let project: ProjectNumber
    /// The number in the message ID.
    package let number: UInt64
    /// Target of the message (MSG-1).
    package let target: SendCommand.Target
    /// Recipients within their quotas, connected or not.
    package let recipientCount: UInt64
    /// Acceptance of the message.
    package let began: Instant
    let weight: Int
    /// Whether it takes one of the project's places (FAN-1). Now-or-never ones don't (TTL-2).
    let takesPlace: Bool
    /// Bytes of the variants' bodies, which stay in memory as long as the fanout. So do the recipient sets.
    let bodyBytes: Int
    let recipients: [RecipientSet]
    /// Unowned: the broker keeps the book until all loops have ended.
    private unowned let book: FanoutBook
    private let delivered = Atomic<UInt64>(0)
    private let blocks: Int
    private let blocksTotal = Atomic<Int>(0)
    private let blocksDone = Atomic<Int>(0)
    /// Parts in progress, one per variant and loop; 0 until the loops are told.
    private let partsLeft = Atomic<Int>(0)

    convenience init(
        project: Project, number: UInt64, target: SendCommand.Target, recipientCount: UInt64,
        began: Instant, takesPlace: Bool = true, bodyBytes: Int, recipients: [RecipientSet],
        book: FanoutBook
    ) {
        self.init(
            project: project.number, weight: project.weight, number: number, target: target,
            recipientCount: recipientCount, began: began, takesPlace: takesPlace,
            bodyBytes: bodyBytes, recipients: recipients, book: book)
    }

    private init(
        project: ProjectNumber, weight: Int, number: UInt64, target: SendCommand.Target,
        recipientCount: UInt64, began: Instant, takesPlace: Bool, bodyBytes: Int,
        recipients: [RecipientSet], book: FanoutBook
    ) {
        self.project = project
        self.number = number
        self.target = target
        self.recipientCount = recipientCount
        self.began = began
        self.weight = weight
        self.takesPlace = takesPlace
        self.bodyBytes = bodyBytes
        self.recipients = recipients
        self.book = book
        blocks = recipients.reduce(0) { $0 + $1.view.blockCount }
    }

    /// The progress of another node's fanout on our loops. It isn't in our book (OPS-7).
    package convenience init(
        relayed number: UInt64, of project: ProjectNumber, began: Instant,
        recipients: [RecipientSet], book: FanoutBook
    ) {
        self.init(
            project: project, weight: 1, number: number, target: .topic(""), recipientCount: 0,
            began: began, takesPlace: false, bodyBytes: 0, recipients: recipients, book: book)
    }

    // MARK: Reports of the loops

    /// Begins the fanout, once its transaction is durable and before the loops are told.
    /// - Parameters:
    ///   - loops: the loops that are told of each variant.
    ///   - nodes: OPS-7: the other nodes whose loops are told.
    package func begin(loops: Int, nodes: Int = 0, at now: Instant) {
        invariant(!isTold, "A fanout begins once.")
        blocksTotal.store(blocks * (loops + nodes), ordering: .relaxed)
        let parts = recipients.count * loops + nodes
        partsLeft.store(parts, ordering: .releasing)
        if parts == 0 { book.end(self, at: now) }
    }

    package func add(delivered count: Int, blocks: Int) {
        invariant(count >= 0 && blocks >= 0, "The progress of a fanout never goes back.")
        if count > 0 {
            let before = delivered.add(UInt64(count), ordering: .relaxed).oldValue
            if before == 0 { book.tell?(.first, began) }
        }
        if blocks > 0 { blocksDone.add(blocks, ordering: .relaxed) }
    }

    /// Adds another node's progress. It times its first delivery itself (OPS-7).
    package func addRemote(delivered count: UInt64, blocks: Int) {
        delivered.add(count, ordering: .relaxed)
        blocksDone.add(blocks, ordering: .relaxed)
    }

    /// Ends a part: a variant on a loop, or all loops of another node.
    package func endPart(at now: Instant) {
        let left = partsLeft.subtract(1, ordering: .acquiringAndReleasing).newValue
        invariant(left >= 0, "Each part of a fanout ends once.")
        if left == 0 { book.end(self, at: now) }
    }

    // MARK: Questions

    /// Whether the loops have been told. Until then the engine may take the fanout back.
    package var isTold: Bool { partsLeft.load(ordering: .acquiring) > 0 }

    /// How often the message was queued. Recipients that aren't connected don't count; they read their mailboxes later.
    /// Messages that are delivered in one run share the deliveries equally.
    package var deliveredCount: UInt64 { delivered.load(ordering: .relaxed) }

    /// Blocks of recipients that our loops have walked.
    package var walkedBlocks: Int { blocksDone.load(ordering: .relaxed) }

    /// From 0 to 1: which part of the blocks was walked, or which part of the recipients had a delivery, whichever is more.
    package var fraction: Double {
        let total = blocksTotal.load(ordering: .relaxed)
        let walked =
            total > 0 ? Double(blocksDone.load(ordering: .relaxed)) / Double(total) : 0
        let given = recipientCount > 0 ? Double(deliveredCount) / Double(recipientCount) : 0
        return min(max(walked, given), 1)
    }
}

extension Dispatch {
    /// A message's progress; nil if it is for one token, or has no recipients.
    func progress(
        of message: StoredMessage, _ distribution: Distribution, in project: Project,
        book: FanoutBook
    ) -> FanoutProgress? {
        guard target.isFanout else { return nil }
        var bodyBytes = 0
        var sets: [RecipientSet] = []
        for (variant, recipients) in zip(variants, distribution.perVariant) {
            guard case .many(let set) = recipients else { continue }
            bodyBytes += variant.variant.body.count
            sets.append(set)
        }
        guard !sets.isEmpty else { return nil }
        return FanoutProgress(
            project: project, number: message.number, target: target.told,
            recipientCount: distribution.recipientCount, began: message.accepted,
            takesPlace: isStored, bodyBytes: bodyBytes, recipients: sets, book: book)
    }
}
