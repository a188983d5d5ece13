// SPDX-License-Identifier: Apache-2.0
//
// Sends devices' messages (UPS-1) and receipts (RCP-1) to a connection's app server. At most a window of them is
// unacknowledged. Of a message that waits for room we keep only the number and read it again later, so an app server that
// doesn't read costs no memory. When the connection ends, whatever is unacknowledged goes to another one. Rests on
// AppServerHandler.

import Logging
import Martlet
import NIOCore

/// How an app server names the message that it acknowledges.
struct AckKey: Hashable, Sendable {
    /// The `from` of the message.
    var from: String
    var messageID: String
}

/// Something that was sent and is not acknowledged yet.
enum Outstanding: Sendable {
    /// A device's message, by its number.
    case message(UInt64)
    /// A receipt, by its event.
    case receipt(UInt64)
}

extension AppServerHandler {
    /// How many waiting messages to read from one snapshot.
    private static var messagesPerRead: Int { 16 }

    /// Takes the broker's news for this sender.
    func happened(_ event: DoorSender.Event) {
        switch event {
        case .messages(let messages):
            // A draining connection has already given its messages back.
            guard drain == nil, case .bound = phase else { return }
            took(messages)
        case .revoked:
            fail(StreamError(.notAuthorized, "The server key was revoked."))
        case .closed: fail(StreamError(.systemShutdown, "The broker is stopping."))
        }
    }

    private var hasRoom: Bool {
        guard case .bound = phase, drain == nil else { return false }
        return outstandingCount < XMPPLimits.windowMax && (context?.channel.isWritable ?? false)
    }

    // MARK: Sending

    private func took(_ messages: [DeviceMessage]) {
        for message in messages {
            if waitingNumbers.isEmpty, hasRoom {
                send(message)
            } else if message.expires > message.accepted {
                waitingNumbers.append(message.number)
            } else {
                // It is now or never and there is no room, so it is dropped.
                sender?.drop([message.number])
            }
        }
        // Another sender may have acknowledged some of them. Those left our window, and new ones took their place.
        if waitingNumbers.count > XMPPLimits.windowMax, let held = sender?.held() {
            waitingNumbers.removeAll { !held.contains($0) }
        }
    }

    func took(_ receipt: NamedReceipt) {
        guard drain == nil, case .bound = phase else { return }
        waitingReceipts.append(receipt)
        sendWaiting()
    }

    private func send(_ message: DeviceMessage) {
        core.metrics.sent(.upstream)
        let key = AckKey(from: message.token, messageID: message.messageID)
        wait(for: .message(message.number), key)
        send(ServerMessage.upstream(message).xml)
    }

    private func wait(for message: Outstanding, _ key: AckKey) {
        outstanding[key, default: []].append(message)
        outstandingCount += 1
    }

    /// Sends waiting receipts and messages while there is room.
    func sendWaiting() {
        sendReceipts()
        while hasRoom, !waitingNumbers.isEmpty, let sender {
            let numbers = Array(
                waitingNumbers.prefix(
                    min(Self.messagesPerRead, XMPPLimits.windowMax - outstandingCount)))
            let found: [DeviceMessage]
            do throws(MartletError) { found = try sender.messages(numbers) } catch {
                core.logger.error(
                    "messages of devices could not be read", metadata: ["error": "\(error)"])
                return after(.seconds(XMPPLimits.takeAgainSeconds)) { $0.sendWaiting() }
            }
            waitingNumbers.removeFirst(numbers.count)
            sender.drop(Set(numbers).subtracting(found.map(\.number)).sorted())
            for message in found { send(message) }
        }
    }

    /// Sends receipts. All receipts of one message have the same ID, so only one of them may be unacknowledged at a time.
    private func sendReceipts() {
        var index = 0
        while hasRoom, index < waitingReceipts.count {
            let receipt = waitingReceipts[index]
            let key = AckKey(from: domain, messageID: receipt.messageID)
            guard outstanding[key] == nil else {
                index += 1
                continue
            }
            waitingReceipts.remove(at: index)
            core.metrics.sent(.receipt)
            wait(for: .receipt(receipt.event), key)
            send(ServerMessage.receipt(receipt, from: domain).xml)
        }
    }

    // MARK: Acknowledgements

    func acknowledged(to: String, messageID: String) {
        let key = AckKey(from: to, messageID: messageID)
        guard var messages = outstanding[key], !messages.isEmpty else {
            return refuseAcknowledgement(to: to, messageID: messageID)
        }
        let message = messages.removeFirst()
        outstanding[key] = messages.isEmpty ? nil : messages
        outstandingCount -= 1
        switch message {
        case .message(let number): taking.append(number)
        case .receipt(let event): dispatcher?.acknowledged(event, by: number)
        }
        sendWaiting()
        checkDrained()
    }

    /// Tells the store what was acknowledged in this turn, all at once.
    func takeNow() {
        guard !taking.isEmpty, let sender, let port else { return }
        let numbers = taking
        taking = []
        takeCount += 1
        // Keeps the sender alive until the answer, even if the connection ends first.
        sender.take(numbers) { isTaken in
            withExtendedLifetime(sender) { port.run { $0.taken(numbers, isTaken) } }
        }
    }

    private func taken(_ numbers: [UInt64], _ isTaken: Bool) {
        takeCount -= 1
        if !isTaken {
            // The app server won't acknowledge again, so we have to try again ourselves.
            takeCount += 1
            return after(.seconds(XMPPLimits.takeAgainSeconds)) { handler in
                handler.takeCount -= 1
                handler.taking += numbers
                handler.takeNow()
            }
        }
        checkDrained()
    }

    // MARK: The end

    /// Gives unacknowledged messages and receipts back, except those whose acknowledgement is on its way to the store.
    func leaveDevices() {
        takeNow()
        if let dispatcher, let sender { core.leave(dispatcher, number, of: sender.project.id) }
        dispatcher = nil
        if takeCount == 0 { sender?.end() }
        // If an acknowledgement is on its way, the sender ends after the answer.
        sender = nil
        outstanding = [:]
        waitingNumbers = []
        waitingReceipts = []
    }

    // MARK: Draining

    /// Asks the app server to use another connection. This one still carries acknowledgements, and answers to sends.
    func drain(for reason: Drain) {
        guard phase != .closing else { return }
        if case .certificate = drain, reason.isSoon {
            drain = reason
            after(drainMax) { $0.endDrained() }
            return checkDrained()
        }
        guard drain == nil else { return }
        guard case .bound = phase, let sender else {
            guard reason.isSoon else { return }
            return fail(StreamError(.systemShutdown, reason.text))
        }
        drain = reason
        drainBegan = .now()
        send(ServerMessage.draining.xml)
        var (numbers, events): (Set<UInt64>, Set<UInt64>) = ([], [])
        for message in outstanding.values.joined() {
            switch message {
            case .message(let number): numbers.insert(number)
            case .receipt(let event): events.insert(event)
            }
        }
        numbers.formUnion(taking)
        waitingNumbers = []
        waitingReceipts = []
        sender.retire(keeping: numbers)
        dispatcher?.retire(number, keeping: events)
        after(drainMin) { $0.checkDrained() }
        after(drainMax) { $0.endDrained() }
    }

    private var drainMin: TimeAmount {
        if drain?.isSoon ?? false { return .milliseconds(XMPPLimits.shutdownMillisecondsMin) }
        return .seconds(core.configuration.drainSecondsMin)
    }

    private var drainMax: TimeAmount {
        if drain?.isSoon ?? false { return .seconds(XMPPLimits.shutdownSecondsMax) }
        return .seconds(core.configuration.drainSecondsMax)
    }

    /// Closes a draining connection once everything on it is acknowledged.
    func checkDrained() {
        guard drain != nil, phase != .closing, inProgressCount == 0, outstandingCount == 0,
            takeCount == 0, taking.isEmpty, NIODeadline.now() >= drainBegan + drainMin
        else { return }
        endDrained()
    }

    private func endDrained() {
        guard let drain else { return }
        fail(StreamError(drain.isSoon ? .systemShutdown : .reset, drain.text))
    }
}
