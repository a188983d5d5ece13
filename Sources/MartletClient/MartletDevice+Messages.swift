// SPDX-License-Identifier: Apache-2.0
//
// From the socket to the application, and the acknowledgement back. Rests on `DeliveryLedger`, which
// knows what is new and what may be acknowledged.

import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// The messages, until the device is closed; it throws where trying again cannot help, such as
    /// UNREGISTERED. Connects when iterated over. Meant for one iterator at a time; several share the
    /// messages among them.
    public nonisolated var messages: Messages { Messages(device: self) }

    public struct Messages: AsyncSequence, Sendable {
        public typealias Element = IncomingMessage
        public typealias Failure = any Error

        let device: MartletDevice

        public func makeAsyncIterator() -> Iterator { Iterator(device: device) }

        public struct Iterator: AsyncIteratorProtocol {
            let device: MartletDevice
            private var last: IncomingMessage?

            init(device: MartletDevice) { self.device = device }

            /// Says that the message before was taken, and waits for the next.
            public mutating func next() async throws -> IncomingMessage? {
                let taken = last
                last = nil
                last = try await device.nextMessage(after: taken)
                return last
            }
        }
    }

    /// Says that the application has taken a message, where it does not ask for the next one. The
    /// broker hears of it as the options say.
    public func acknowledge(_ message: IncomingMessage) {
        guard message.isStored else { return }
        ledger.take(message.streamID)
        acknowledge(ifDue: true)
    }

    func nextMessage(after taken: IncomingMessage?) async throws -> IncomingMessage? {
        if let taken { acknowledge(taken) }
        start()
        if let message = waiting.popFirst() {
            readOnIfWanted()
            return message
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
            // Nobody can read it, now or later: the ones behind it must not wait for it.
            ledger.take(deliver.streamID)
            acknowledge(ifDue: true)
            return
        }
        if takers.isEmpty {
            waiting.append(message)
            // The answer to a request may be behind these messages: read on until it has come.
            if waiting.count >= options.bufferedMessagesMax && requests.count == 0 {
                link.handler.value.pause()
            }
        } else {
            takers.removeFirst().taker.resume(returning: message)
        }
    }

    func readOnIfWanted() {
        guard case .open(let link) = state else { return }
        if waiting.count * 2 <= options.bufferedMessagesMax || requests.count > 0 {
            link.handler.value.resume()
        }
    }

    // MARK: Acknowledging

    /// Sends the acknowledgement that is due, or makes sure that it will be in time. Not `ifDue`: what
    /// there is goes now, because something else does.
    func acknowledge(ifDue: Bool) {
        guard case .open(let link) = state, let through = ledger.acknowledgement else { return }
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
        guard (try? link.handler.value.send(.acknowledge(Acknowledge(through: through)))) != nil
        else { return }
        ledger.acknowledged(through: through)
    }
}
