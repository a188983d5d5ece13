// SPDX-License-Identifier: Apache-2.0
//
// Messages of a project's devices, each until a sender has taken the message (UPS-1). Acknowledgements are single,
// by number, so their order does not matter. If the broker has not heard of an acknowledgement on a lost
// connection, the message comes again, here or to another sender; the feed recognises the number. Rests on `Feed`.

import MartletBase
public import MartletWire

extension MartletSender {
    /// The sequence of `MartletSender.upstreamMessages`.
    public struct UpstreamMessages: AsyncSequence, Sendable {
        /// A message of a device.
        public typealias Element = DeviceMessage
        /// `MartletError`, thrown when the broker refuses the sender for good.
        public typealias Failure = any Error

        let client: RequestClient

        /// Makes an iterator with a feed of its own. The feed begins at the first `next()`.
        public func makeAsyncIterator() -> Iterator {
            Iterator(feed: Feed(UpstreamSource(), of: client))
        }

        /// An iteration over messages. `next()` or `take()` marks the message handed out before as taken.
        public struct Iterator: AsyncIteratorProtocol {
            let feed: Feed<UpstreamSource>
            private var last: DeviceMessage?

            init(feed: Feed<UpstreamSource>) { self.feed = feed }

            /// Marks the previous message as taken, and waits for the next message. Returns nil if the task is
            /// cancelled. Copies of an iterator must not wait at the same time.
            /// - Throws: the broker's refusal of the sender, if another attempt cannot change the refusal.
            public mutating func next() async throws -> DeviceMessage? {
                let taken = last
                last = nil
                last = try await feed.next(after: taken?.number)
                return last
            }

            /// Marks the last message as taken without asking for the next message.
            public mutating func take() async {
                guard let taken = last else { return }
                last = nil
                await feed.take(taken.number)
            }
        }
    }
}

/// Received messages: outstanding or taken. Pure.
package struct UpstreamLedger: Sendable {
    /// Least count of taken numbers that the ledger remembers, because their messages may come again. 1000 numbers
    /// are several windows.
    package static let takenMax = 1000

    /// Numbers of messages received and not yet taken.
    private var outstanding: Set<UInt64> = []
    private var taken: Set<UInt64> = []
    /// The taken numbers in the order of taking.
    private var order: [UInt64] = []

    package enum Arrival: Sendable {
        case new
        /// The message waits here, or the application has it.
        case outstanding
        /// The application took the message, but the broker has not heard of the acknowledgement.
        case taken
    }

    package init() {}

    package mutating func receive(_ number: UInt64) -> Arrival {
        if taken.contains(number) { return .taken }
        return outstanding.insert(number).inserted ? .new : .outstanding
    }

    /// Forgets a message that the feed gave back before the application had it.
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
    /// The broker sends at most one window of unacknowledged messages.
    static let bufferedMax = Limits.upstreamWindow

    private var ledger = UpstreamLedger()
    /// Numbers received on this connection and not acknowledged there.
    private var here: Set<UInt64> = []

    static func listen(correlation: UInt32) -> ClientFrame {
        .listenUpstream(ListenUpstreamRequest(correlation: correlation))
    }

    mutating func connected() { here = [] }

    mutating func receive(_ frame: BrokerFrame) -> FeedArrival<DeviceMessage> {
        guard case .upstreamMessage(let delivery) = frame else { return .nothing }
        here.insert(delivery.number)
        switch ledger.receive(delivery.number) {
        case .new: break
        case .outstanding: return .nothing
        case .taken: return acknowledgement(of: delivery.number)
        }
        guard let message = try? DeviceMessage(delivery) else {
            // No later attempt can decode the message, so the feed acknowledges the message to end its redelivery.
            ledger.take(delivery.number)
            return acknowledgement(of: delivery.number)
        }
        return .element(message)
    }

    mutating func take(_ number: UInt64) -> ClientFrame? {
        ledger.take(number)
        guard case .acknowledge(let frame) = acknowledgement(of: number) else { return nil }
        return frame
    }

    /// Acknowledges a message of this connection. A message of an earlier connection comes again here or went to
    /// another sender.
    private mutating func acknowledgement(
        of number: UInt64
    ) -> FeedArrival<DeviceMessage> {
        guard here.remove(number) != nil else { return .nothing }
        return .acknowledge(.upstreamAcknowledge(UpstreamAcknowledge(numbers: [number])))
    }

    /// Drops all waiting messages, because another sender may have them by now.
    mutating func lost(_ waiting: [DeviceMessage]) -> [DeviceMessage] {
        for message in waiting { ledger.forget(message.number) }
        here = []
        return []
    }
}
