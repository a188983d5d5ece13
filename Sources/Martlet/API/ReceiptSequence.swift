// SPDX-License-Identifier: Apache-2.0
//
// The receipts of a project for an embedder (RCP-1). The iterator reads a page of receipts at a time. Without a
// new receipt the iterator reads again after 200 ms, because receipts come at the pace of people. Rests on
// Broker.

import MartletEngine
import MartletWire

/// The receipts of a project: see `Broker.receipts(in:)`.
public struct ReceiptSequence: AsyncSequence, Sendable {
    /// A receipt of a device.
    public typealias Element = DeliveryReceipt
    /// `MartletError`, thrown by the iterator.
    public typealias Failure = any Error

    let broker: Broker
    let project: String

    /// Makes an iterator from the oldest unconfirmed receipt on. The first `next()` reads the store.
    public func makeAsyncIterator() -> Iterator { Iterator(broker: broker, project: project) }

    /// An iteration over receipts. `next()` or `take()` confirms the receipts handed out before; unconfirmed receipts
    /// come again.
    public struct Iterator: AsyncIteratorProtocol {
        private static let pageEntries = 100
        /// Time between two readings of the store while no receipt is there.
        private static let pause = Duration.milliseconds(200)

        private let broker: Broker
        private let project: String
        /// Event number of the receipt handed out last; 0: no receipt was handed out.
        private var handed: UInt64 = 0
        /// Event number of the last confirmed receipt. Each confirmation is a command, so none repeats another.
        private var taken: UInt64 = 0
        /// Receipts that were read and not handed out. The last element is handed out next.
        private var waiting: [Receipt] = []

        init(broker: Broker, project: String) {
            self.broker = broker
            self.project = project
        }

        /// Confirms all receipts handed out so far, without asking for the next receipt. The broker deletes
        /// confirmed receipts.
        /// - Throws: `MartletError` if the confirmation could not be stored.
        public mutating func take() async throws {
            guard handed > taken else { return }
            let number = try await broker.number(of: project)
            _ = try await broker.perform(.takeReceipts(project: number, through: handed))
            taken = handed
        }

        /// Confirms the receipt handed out before, and waits for the next receipt.
        /// - Returns: nil when the task is cancelled.
        /// - Throws: `NOT_FOUND` for the project, `UNAVAILABLE` if the broker is closed.
        public mutating func next() async throws -> DeliveryReceipt? {
            let number = try await broker.number(of: project)
            while waiting.isEmpty {
                // Receipts are confirmed before each reading: a page costs one write.
                try await take()
                let after = handed
                waiting = try await broker.ask { (transaction) throws in
                    try Receipt.page(
                        after: after, limit: Self.pageEntries, in: number, transaction)
                }.reversed()
                if waiting.isEmpty {
                    guard (try? await Task.sleep(for: Self.pause)) != nil else { return nil }
                }
            }
            guard let receipt = waiting.popLast() else { return nil }
            handed = receipt.event
            return DeliveryReceipt(
                messageID: MessageID.text(receipt.messageNumber, projectID: project),
                token: receipt.token.text, kind: receipt.kind, instant: receipt.at,
                eventID: receipt.event)
        }
    }
}
