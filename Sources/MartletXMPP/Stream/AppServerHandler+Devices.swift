// SPDX-License-Identifier: Apache-2.0
//
// Messages of devices (UPS-1) and receipts (RCP-1) for the app server of a connection. At most a window of both is
// unacknowledged. A message that waits for room is kept by its number alone, and read again, so an app server that does
// not read costs no memory. What is unacknowledged at the end of the connection goes to another. Rests on
// AppServerHandler.

import Logging
import Martlet
import NIOCore

/// By what an app server names a message that it acknowledges.
struct AckKey: Hashable, Sendable {
    /// The `from` of the message.
    var from: String
    var messageID: String
}

/// A message without an acknowledgement.
enum Outstanding: Sendable {
    /// A message of a device, by its number.
    case message(UInt64)
    /// A receipt, by its event.
    case receipt(UInt64)
}

extension AppServerHandler {
    /// Waiting messages read in a snapshot.
    private static var messagesPerRead: Int { 16 }

    /// Takes what the broker tells of the sender.
    func happened(_ event: DoorSender.Event) {
        switch event {
        case .messages(let messages):
            // A draining connection has given its messages back.
            guard drain == nil, case .bound = phase else { return }
            took(messages)
        case .revoked:
            fail(StreamError(.notAuthorized, "The server key was revoked."))
        case .closed: fail(StreamError(.systemShutdown, "The broker ends."))
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
                // A now-or-never message without room is dropped.
                sender?.drop([message.number])
            }
        }
        // A message that another sender has acknowledged leaves the listener's window, and another one comes.
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

    /// Sends waiting receipts and messages as far as there is room.
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

    /// Sends receipts. Of several receipts of a message to many, one is unacknowledged at a time, because all have one
    /// ID.
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
        case .receipt(let event): desk?.acknowledged(event, by: number)
        }
        sendWaiting()
        checkDrained()
    }

    /// Tells the store of acknowledged messages, all of a turn together.
    func takeNow() {
        guard !taking.isEmpty, let sender, let port else { return }
        let numbers = taking
        taking = []
        takeCount += 1
        // The sender lives until the answer, also behind the end of the connection.
        sender.take(numbers) { isTaken in
            withExtendedLifetime(sender) { port.run { $0.taken(numbers, isTaken) } }
        }
    }

    private func taken(_ numbers: [UInt64], _ isTaken: Bool) {
        takeCount -= 1
        if !isTaken {
            // The app server does not repeat its acknowledgement.
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

    /// Gives unacknowledged messages and receipts back. A message with an acknowledgement on the way to the store is not
    /// handed out again.
    func leaveDevices() {
        takeNow()
        if let desk, let sender { core.leave(desk, number, of: sender.project.id) }
        desk = nil
        if takeCount == 0 { sender?.end() }
        // With an acknowledgement on its way, the sender ends behind the answer.
        sender = nil
        outstanding = [:]
        waitingNumbers = []
        waitingReceipts = []
    }

    // MARK: Draining

    /// Tells the app server to turn to another connection. Answers to sends and acknowledgements still go over this
    /// connection.
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
        desk?.retire(number, keeping: events)
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

    /// Ends a draining connection on which everything is acknowledged.
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
