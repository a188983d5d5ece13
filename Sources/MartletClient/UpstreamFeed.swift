// SPDX-License-Identifier: Apache-2.0
//
// The messages of a project's devices, one by one, each until it is taken (UPS-1). What was taken is
// acknowledged by its number, so it does not matter in which order; what the broker has not heard of on
// a connection that was lost comes again, here or to another sender, and is known by its number. Rests
// on Feed.

public import MartletBase
public import MartletWire

/// UPS-1: what a device sent to its project.
public struct UpstreamMessage: Sendable, Hashable {
    /// Its place among the messages of the project's devices. Whatever comes twice has the same.
    public var number: UInt64
    /// The instance that sent it, by the last token that is known.
    public var token: String
    /// The device's application: a package name or bundle ID.
    public var appName: String
    /// The device's own.
    public var messageID: String
    public var accepted: Instant
    /// The same as `accepted` if it was for now or never.
    public var expires: Instant
    public var data: [Message.DataEntry]

    /// The value of a data key.
    public subscript(key: String) -> String? { data.first { $0.key == key }?.value }
}

extension MartletSender {
    /// See `upstreamMessages`.
    public struct UpstreamMessages: AsyncSequence, Sendable {
        public typealias Element = UpstreamMessage
        public typealias Failure = any Error

        let client: RequestClient

        public func makeAsyncIterator() -> Iterator {
            Iterator(feed: Feed(UpstreamSource(), of: client))
        }

        public struct Iterator: AsyncIteratorProtocol {
            let feed: Feed<UpstreamSource>
            private var last: UpstreamMessage?

            init(feed: Feed<UpstreamSource>) { self.feed = feed }

            /// Says that the message before was taken, and waits for the next. nil when the task is
            /// cancelled.
            public mutating func next() async throws -> UpstreamMessage? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.number)
                return last
            }

            /// Says that the last message was taken, where no other is asked for.
            public mutating func take() async {
                guard let taken = last else { return }
                last = nil
                await feed.take(taken.number)
            }
        }
    }
}

/// Which messages came, and what became of them here. Pure.
package struct UpstreamLedger: Sendable {
    /// Numbers that were taken and are remembered, for they may come once more: some windows.
    package static let takenMax = 1000

    /// Came, and were not taken yet.
    private var outstanding: Set<UInt64> = []
    private var taken: Set<UInt64> = []
    /// The same in their order.
    private var order: [UInt64] = []

    package enum Arrival: Sendable {
        case new
        /// It waits here, or the application has it.
        case outstanding
        /// The broker has not heard that it was taken.
        case taken
    }

    package init() {}

    package mutating func receive(_ number: UInt64) -> Arrival {
        if taken.contains(number) { return .taken }
        return outstanding.insert(number).inserted ? .new : .outstanding
    }

    /// It was given back before the application had it.
    package mutating func forget(_ number: UInt64) { outstanding.remove(number) }

    package mutating func take(_ number: UInt64) {
        guard outstanding.remove(number) != nil else { return }
        taken.insert(number)
        order.append(number)
        guard order.count > 2 * Self.takenMax else { return }
        taken.subtract(order.prefix(Self.takenMax))
        order.removeFirst(Self.takenMax)
    }
}

/// Messages of devices, acknowledged one by one. Pure.
struct UpstreamSource: FeedSource {
    /// The broker sends no more than a window that is not acknowledged.
    static let bufferedMax = Limits.upstreamWindow

    private var ledger = UpstreamLedger()
    /// Came on this connection, and was not acknowledged on it.
    private var here: Set<UInt64> = []

    static func listen(correlation: UInt32) -> ClientFrame {
        .listenUpstream(ListenUpstreamRequest(correlation: correlation))
    }

    mutating func connected() { here = [] }

    mutating func receive(_ frame: BrokerFrame) -> FeedArrival<UpstreamMessage> {
        guard case .upstreamMessage(let delivery) = frame else { return .nothing }
        here.insert(delivery.number)
        switch ledger.receive(delivery.number) {
        case .new: break
        case .outstanding: return .nothing
        case .taken: return acknowledgement(of: delivery.number)
        }
        guard let content = try? Message(decoding: delivery.message, unknownTags: .skip) else {
            // Nobody can read it, now or later: it must not come again and again.
            ledger.take(delivery.number)
            return acknowledgement(of: delivery.number)
        }
        return .element(
            UpstreamMessage(
                number: delivery.number, token: delivery.token, appName: delivery.appName,
                messageID: delivery.messageID, accepted: delivery.accepted,
                expires: delivery.expires, data: content.data))
    }

    mutating func take(_ number: UInt64) -> ClientFrame? {
        ledger.take(number)
        guard case .acknowledge(let frame) = acknowledgement(of: number) else { return nil }
        return frame
    }

    /// What came on another connection comes again on this one, or went to another sender.
    private mutating func acknowledgement(
        of number: UInt64
    ) -> FeedArrival<UpstreamMessage> {
        guard here.remove(number) != nil else { return .nothing }
        return .acknowledge(.upstreamAcknowledge(UpstreamAcknowledge(numbers: [number])))
    }

    /// Another sender may have them by now.
    mutating func lost(_ waiting: [UpstreamMessage]) -> [UpstreamMessage] {
        for message in waiting { ledger.forget(message.number) }
        here = []
        return []
    }
}
