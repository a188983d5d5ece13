// SPDX-License-Identifier: Apache-2.0
//
// The receipts of a project as an embedder takes them (RCP-1). It reads a page at a time and looks again
// after a short while when there is none: receipts come at the pace of people. Rests on Broker.

import MartletEngine

/// See `Broker.receipts(in:)`.
public struct ReceiptSequence: AsyncSequence, Sendable {
    public typealias Element = DeliveryReceipt
    public typealias Failure = any Error

    let broker: Broker
    let project: String

    public func makeAsyncIterator() -> Iterator { Iterator(broker: broker, project: project) }

    public struct Iterator: AsyncIteratorProtocol {
        private static let pageEntries = 100
        /// How soon a receipt is seen.
        private static let pause = Duration.milliseconds(200)

        private let broker: Broker
        private let project: String
        /// The last event that was handed out.
        private var handed: UInt64 = 0
        /// Read and not handed out, the next one last.
        private var waiting: [Receipt] = []

        init(broker: Broker, project: String) {
            self.broker = broker
            self.project = project
        }

        /// Says that all receipts so far were taken, where no other is asked for.
        public mutating func take() async throws {
            guard handed > 0 else { return }
            let number = try broker.number(of: project)
            _ = try await broker.perform(.takeReceipts(project: number, through: handed))
        }

        /// Says that the receipt before was taken, and waits for the next.
        public mutating func next() async throws -> DeliveryReceipt? {
            let number = try broker.number(of: project)
            while waiting.isEmpty {
                // One write for a page: what was handed out since the last one is taken.
                if handed > 0 {
                    _ = try await broker.perform(.takeReceipts(project: number, through: handed))
                }
                let after = handed
                waiting = try broker.ask { (transaction) throws in
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
                token: receipt.token.text, kind: receipt.kind, instant: receipt.at)
        }
    }
}
