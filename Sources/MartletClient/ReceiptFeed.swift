// SPDX-License-Identifier: Apache-2.0
//
// The receipts of a project, each until a sender has taken the receipt (RCP-1). An acknowledgement covers all
// receipts up to an event ID. Rests on `Feed`.

import MartletWire

extension MartletSender {
    /// The sequence of `MartletSender.receipts`.
    public struct Receipts: AsyncSequence, Sendable {
        /// A receipt of a device.
        public typealias Element = DeliveryReceipt
        /// `MartletError`, thrown when the broker refuses the sender for good.
        public typealias Failure = any Error

        let projectID: String
        let client: RequestClient

        /// Makes an iterator with a feed of its own. The feed begins at the first `next()`.
        public func makeAsyncIterator() -> Iterator {
            Iterator(feed: Feed(ReceiptSource(projectID: projectID), of: client))
        }

        /// An iteration over receipts. `next()` or `take()` marks the receipt handed out before as taken.
        public struct Iterator: AsyncIteratorProtocol {
            let feed: Feed<ReceiptSource>
            private var last: DeliveryReceipt?

            init(feed: Feed<ReceiptSource>) { self.feed = feed }

            /// Marks the previous receipt as taken, and waits for the next receipt. Returns nil if the task is
            /// cancelled. Copies of an iterator must not wait at the same time.
            /// - Throws: the broker's refusal of the sender, if another attempt cannot change the refusal.
            public mutating func next() async throws -> DeliveryReceipt? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.eventID)
                return last
            }

            /// Marks the last receipt as taken without asking for the next receipt.
            public mutating func take() async {
                guard let taken = last else { return }
                last = nil
                await feed.take(taken.eventID)
            }
        }
    }
}

/// Receipts in the order of their event IDs. Pure.
struct ReceiptSource: FeedSource {
    static let bufferedMax = 256

    private let projectID: String
    /// Highest event ID received. A repeated receipt has no higher event ID.
    private var receivedThrough: UInt64 = 0
    private var takenThrough: UInt64 = 0
    /// Highest event ID received on this connection. An acknowledgement on this connection reaches no higher.
    private var hereThrough: UInt64 = 0

    init(projectID: String) { self.projectID = projectID }

    static func listen(correlation: UInt32) -> ClientFrame {
        .listenReceipts(ListenReceiptsRequest(correlation: correlation))
    }

    mutating func connected() { hereThrough = 0 }

    mutating func receive(_ frame: BrokerFrame) -> FeedArrival<DeliveryReceipt> {
        guard case .receiptEvent(let event) = frame else { return .nothing }
        hereThrough = event.eventID
        guard event.eventID > receivedThrough else {
            // The receipt was taken, but the broker has not heard of the acknowledgement.
            let again = event.eventID == takenThrough ? acknowledgement : nil
            return again.map { .acknowledge($0) } ?? .nothing
        }
        receivedThrough = event.eventID
        return .element(
            DeliveryReceipt(
                messageID: MessageID.text(event.messageNumber, projectID: projectID),
                token: event.token, kind: event.kind, instant: event.instant,
                eventID: event.eventID))
    }

    mutating func take(_ eventID: UInt64) -> ClientFrame? {
        takenThrough = max(takenThrough, eventID)
        return acknowledgement
    }

    private var acknowledgement: ClientFrame? {
        guard takenThrough > 0, takenThrough <= hereThrough else { return nil }
        return .receiptAcknowledge(ReceiptAcknowledge(through: takenThrough))
    }

    /// All waiting receipts stay, because `receivedThrough` detects their repetition.
    func lost(_ waiting: [DeliveryReceipt]) -> [DeliveryReceipt] { waiting }
}
