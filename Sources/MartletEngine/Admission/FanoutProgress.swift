// SPDX-License-Identifier: Apache-2.0
//
// How far a message is on its way to many instances, over all loops. Shared by its variants' fanouts:
// one message is one fanout, whatever the number of its variants. Loops tell what they did once for a
// walk, never for a delivery. Rests on FanoutBook, which knows of it until its last part has ended.

public import MartletBase
import MartletBits
import MartletRows
import Synchronization

/// One message in progress.
public final class FanoutProgress: Sendable {
    public let project: ProjectNumber
    /// The number in the message ID.
    public let number: UInt64
    public let target: SendCommand.Target
    public let recipientCount: UInt64
    public let began: Instant
    let weight: Int
    /// FAN-1: whether it is one of the project's 1000. What is now or never is not (TTL-2).
    let takesPlace: Bool
    /// What it keeps in memory: the variants' bodies, and who they are for.
    let bodyBytes: Int
    let recipients: [RecipientSet]
    /// The book outlives what is in it: the broker has it as long as its loops.
    private unowned let book: FanoutBook
    private let delivered = Atomic<UInt64>(0)
    private let blocks: Int
    private let blocksTotal = Atomic<Int>(0)
    private let blocksDone = Atomic<Int>(0)
    /// Variants on loops that are not through yet; 0 before the loops are told.
    private let partsLeft = Atomic<Int>(0)

    init(
        project: Project, number: UInt64, target: SendCommand.Target, recipientCount: UInt64,
        began: Instant, takesPlace: Bool = true, bodyBytes: Int, recipients: [RecipientSet],
        book: FanoutBook
    ) {
        self.project = project.number
        self.number = number
        self.target = target
        self.recipientCount = recipientCount
        self.began = began
        weight = project.weight
        self.takesPlace = takesPlace
        self.bodyBytes = bodyBytes
        self.recipients = recipients
        self.book = book
        blocks = recipients.reduce(0) { $0 + $1.view.blockCount }
    }

    // MARK: What loops tell

    /// It is durable, and so many loops are about to be told of each of its variants.
    public func begin(loops: Int, at now: Instant) {
        blocksTotal.store(blocks * loops, ordering: .relaxed)
        partsLeft.store(recipients.count * loops, ordering: .releasing)
        if loops == 0 { book.end(self, at: now) }
    }

    package func add(delivered count: Int, blocks: Int) {
        if count > 0 { delivered.add(UInt64(count), ordering: .relaxed) }
        if blocks > 0 { blocksDone.add(blocks, ordering: .relaxed) }
    }

    /// One variant has nothing more to do on one loop.
    public func endPart(at now: Instant) {
        let left = partsLeft.subtract(1, ordering: .acquiringAndReleasing).newValue
        if left == 0 { book.end(self, at: now) }
    }

    // MARK: What is asked

    /// Whether loops have been told of it: before, it may still be taken back.
    var isTold: Bool { partsLeft.load(ordering: .acquiring) > 0 }

    /// Messages that were queued for a connection. Recipients that are not connected get theirs from
    /// their mailbox and are not among them. Of messages that go together each counts its share.
    public var deliveredCount: UInt64 { delivered.load(ordering: .relaxed) }

    /// 0 to 1: how much of the recipients has been walked through, or been given the message if that
    /// is more.
    public var fraction: Double {
        let total = blocksTotal.load(ordering: .relaxed)
        let walked =
            total > 0 ? Double(blocksDone.load(ordering: .relaxed)) / Double(total) : 0
        let given = recipientCount > 0 ? Double(deliveredCount) / Double(recipientCount) : 0
        return min(max(walked, given), 1)
    }
}

extension Dispatch {
    /// How far the message is to be told of; nil for a message to one token, or to nobody.
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
