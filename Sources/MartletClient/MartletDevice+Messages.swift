// SPDX-License-Identifier: Apache-2.0
//
// Messages from the socket to the application, and acknowledgements back. Rests on `DeliveryLedger`, which knows
// the new messages and the possible acknowledgements.

import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// DEV-3: the messages, until the device is closed. Iterating connects the device. Meant for a single iterator
    /// at a time; several iterators share the messages among them. Notices of discarded messages are taken and
    /// dropped; `events` has the notices too. The sequence throws an error that another attempt cannot change, such
    /// as UNREGISTERED.
    public nonisolated var messages: Messages { Messages(device: self) }

    /// DEV-3: the messages, and in their place the notices of discarded stored messages. Ends and throws like
    /// `messages`.
    public nonisolated var events: Events { Events(device: self) }

    /// The sequence of `MartletDevice.events`.
    public struct Events: AsyncSequence, Sendable {
        /// A message, or a notice of discarded messages.
        public typealias Element = DeviceEvent
        /// `MartletError`, thrown when the device has ended with an error.
        public typealias Failure = any Error

        let device: MartletDevice

        /// Makes an iterator. The first `next()` connects the device.
        public func makeAsyncIterator() -> Iterator { Iterator(device: device) }

        /// An iteration over the device's events.
        public struct Iterator: AsyncIteratorProtocol {
            let device: MartletDevice
            private var last: DeviceEvent?

            init(device: MartletDevice) { self.device = device }

            /// Marks the previous event as taken, and waits for the next event.
            /// - Returns: nil when the device is closed or the task is cancelled.
            /// - Throws: an error that another attempt cannot change, such as UNREGISTERED.
            public mutating func next() async throws -> DeviceEvent? {
                let taken = last
                last = nil
                last = try await device.nextEvent(after: taken)
                return last
            }
        }
    }

    /// The sequence of `MartletDevice.messages`.
    public struct Messages: AsyncSequence, Sendable {
        /// A message to the device.
        public typealias Element = IncomingMessage
        /// `MartletError`, thrown when the device has ended with an error.
        public typealias Failure = any Error

        let device: MartletDevice

        /// Makes an iterator. The first `next()` connects the device.
        public func makeAsyncIterator() -> Iterator { Iterator(device: device) }

        /// An iteration over the device's messages. Notices of discarded messages are taken and dropped.
        public struct Iterator: AsyncIteratorProtocol {
            private var events: Events.Iterator

            init(device: MartletDevice) { events = Events.Iterator(device: device) }

            /// Marks the previous message as taken, and waits for the next message.
            /// - Returns: nil when the device is closed or the task is cancelled.
            /// - Throws: an error that another attempt cannot change, such as UNREGISTERED.
            public mutating func next() async throws -> IncomingMessage? {
                while let event = try await events.next() {
                    if case .message(let message) = event { return message }
                }
                return nil
            }
        }
    }

    /// Marks a message as taken without asking for the next message. `DeviceOptions` tells when the acknowledgement
    /// leaves.
    public func acknowledge(_ message: IncomingMessage) { acknowledge(.message(message)) }

    /// Marks a notice of discarded messages as taken.
    public func acknowledge(_ deleted: DeletedMessages) { acknowledge(.deleted(deleted)) }

    private func acknowledge(_ event: DeviceEvent) {
        guard let streamID = event.acknowledgedID else { return }
        ledger.take(streamID)
        acknowledge(ifDue: true)
    }

    func nextEvent(after taken: DeviceEvent?) async throws -> DeviceEvent? {
        if let taken { acknowledge(taken) }
        start()
        if let event = waiting.popFirst() {
            readOnIfWanted()
            return event
        }
        if case .ended(let error) = state {
            if let error { throw error }
            return nil
        }
        waitersEver += 1
        let number = waitersEver
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { takers.append((number, $0)) }
        } onCancel: {
            Task { await self.cancelTaker(number) }
        }
    }

    private func cancelTaker(_ number: UInt64) {
        guard let index = takers.firstIndex(where: { $0.number == number }) else { return }
        takers.remove(at: index).taker.resume(returning: nil)
    }

    func endTakers(_ error: MartletError?) {
        let ended = takers
        takers = []
        for (_, taker) in ended {
            if let error { taker.resume(throwing: error) } else { taker.resume(returning: nil) }
        }
    }

    func received(_ deliver: Deliver, on link: Link) {
        if deliver.isStored && !ledger.deliver(deliver.streamID) {
            acknowledge(ifDue: true)
            return
        }
        guard let message = try? IncomingMessage(deliver, projectID: credentials.projectID) else {
            // No later attempt can decode the message, so the device acknowledges the message to end its
            // redelivery.
            ledger.take(deliver.streamID)
            acknowledge(ifDue: true)
            return
        }
        hand(.message(message), on: link)
        if message.wantsReceipts {
            keep(PendingReceipt(kind: .received, streamID: deliver.streamID))
        }
    }

    func received(_ deleted: Deleted, on link: Link) {
        guard ledger.deliver(deleted.streamID) else { return acknowledge(ifDue: true) }
        hand(
            .deleted(DeletedMessages(count: deleted.count, streamID: deleted.streamID)), on: link)
    }

    private func hand(_ event: DeviceEvent, on link: Link) {
        if takers.isEmpty {
            waiting.append(event)
            // The answer to a request may follow these messages in the socket, so the device reads until the answer
            // has come.
            if isFull && requests.count == 0 {
                link.handler.value.pause()
            }
        } else {
            takers.removeFirst().taker.resume(returning: event)
        }
    }

    /// True if the buffer has as many events as allowed.
    var isFull: Bool { waiting.count >= options.bufferedMessagesMax }

    func readOnIfWanted() {
        openIfHeldOff()
        guard case .open(let link) = state else { return }
        if waiting.count * 2 <= options.bufferedMessagesMax || requests.count > 0 {
            link.handler.value.resume()
        }
    }

    // MARK: Acknowledging

    /// Sends the acknowledgement if it is due, and else starts the timer for it. With `ifDue` false the
    /// acknowledgement leaves at once, because another frame leaves too.
    func acknowledge(ifDue: Bool) {
        guard case .open(let link) = state, ledger.unsentCount > 0 else { return }
        if ifDue && ledger.unsentCount < options.acknowledgedTogetherMax
            && options.acknowledgementDelay > .zero
        {
            if acknowledgementTimer == nil {
                acknowledgementTimer = eventLoop.scheduleTask(
                    in: TimeAmount(options.acknowledgementDelay)
                ) { [weak self] in
                    self?.assumeIsolated { device in
                        device.acknowledgementTimer = nil
                        device.acknowledge(ifDue: false)
                    }
                }
            }
            return
        }
        acknowledgementTimer?.cancel()
        acknowledgementTimer = nil
        while let (through, single) = ledger.acknowledgement {
            let frame = Acknowledge(through: through, streamIDs: single)
            guard (try? link.handler.value.send(.acknowledge(frame))) != nil else { return }
            ledger.acknowledged(through: through, single: single)
        }
        // The connection may be lost before the acknowledgement arrives.
        saveSoon()
    }
}
