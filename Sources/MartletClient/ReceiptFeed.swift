// SPDX-License-Identifier: Apache-2.0
//
// The receipts of a project, one by one, each until it is taken (RCP-1). Acknowledged is up to which
// event ID all are. Rests on Feed.

public import MartletBase
import MartletWire

/// RCP-2: what became of a message on a device.
public struct Receipt: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`.
    public var messageID: String
    /// The instance that tells.
    public var token: String
    public var kind: ReceiptKind
    /// When the broker got it.
    public var instant: Instant
    /// Its place among the project's receipts; they rise.
    public var eventID: UInt64
}

extension MartletSender {
    /// See `receipts`.
    public struct Receipts: AsyncSequence, Sendable {
        public typealias Element = Receipt
        public typealias Failure = any Error

        let projectID: String
        let client: RequestClient

        public func makeAsyncIterator() -> Iterator {
            Iterator(feed: Feed(ReceiptSource(projectID: projectID), of: client))
        }

        public struct Iterator: AsyncIteratorProtocol {
            let feed: Feed<ReceiptSource>
            private var last: Receipt?

            init(feed: Feed<ReceiptSource>) { self.feed = feed }

            /// Says that the receipt before was taken, and waits for the next. nil when the task is
            /// cancelled.
            public mutating func next() async throws -> Receipt? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.eventID)
                return last
            }

            /// Says that the last receipt was taken, where no other is asked for.
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
    /// Highest that came: what comes again after a loss is known by it.
    private var receivedThrough: UInt64 = 0
    private var takenThrough: UInt64 = 0
    /// Highest that came on this connection: it can be told of no more than that.
    private var hereThrough: UInt64 = 0

    init(projectID: String) { self.projectID = projectID }

    static func listen(correlation: UInt32) -> ClientFrame {
        .listenReceipts(ListenReceiptsRequest(correlation: correlation))
    }

    mutating func connected() { hereThrough = 0 }

    mutating func receive(_ frame: BrokerFrame) -> FeedArrival<Receipt> {
        guard case .receiptEvent(let event) = frame else { return .nothing }
        hereThrough = event.eventID
        guard event.eventID > receivedThrough else {
            // It was taken on a connection that was lost, or since: the broker has not heard of that.
            let again = event.eventID == takenThrough ? acknowledgement : nil
            return again.map { .acknowledge($0) } ?? .nothing
        }
        receivedThrough = event.eventID
        return .element(
            Receipt(
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

    /// What came is known by its number, and waits on.
    func lost(_ waiting: [Receipt]) -> [Receipt] { waiting }
}
