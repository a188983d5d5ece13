// SPDX-License-Identifier: Apache-2.0
//
// Hands a project's receipts to its XMPP connections, and keeps them until they are acknowledged (RCP-1). The store keeps
// receipts until they are taken up to an event; app servers acknowledge in any order. The desk stands between the two:
//
//     readThrough   receipts up to this event were read, and are
//       held        with a connection, until its acknowledgement or its end;
//       returned    to be handed out again, because their connection has ended.
//
// The store deletes all receipts below the first unacknowledged receipt. So a receipt may come again after the broker or
// the last connection of the project has ended, and no receipt is lost. A receipt is with one connection at a time.
//
// Only receipts of arrival are known to XMPP. Receipts of display and opening are passed over, and deleted with their
// neighbours. A desk reads only while a message with receipts was sent over XMPP, so that senders of the binary
// protocol keep the receipts of projects without receipts over XMPP. Rests on MessageNames and DoorSender.

import Logging
import Martlet
import Synchronization

/// A receipt for an app server.
struct NamedReceipt: Sendable, Hashable {
    /// Place among the project's receipts.
    var event: UInt64
    /// The ID that the app server gave to the message.
    var originalID: String
    /// Token of the device.
    var token: String
    /// Name of the device's app; empty for a device that has unregistered.
    var app: String

    /// The receipt's own ID, which the app server acknowledges.
    var messageID: String { "dr2:" + originalID }
}

/// Hands the receipts of a project to its connections.
final class ReceiptDesk: Sendable {
    private struct Member {
        var sender: DoorSender
        var deliver: @Sendable (NamedReceipt) -> Void
        var held: Set<UInt64> = []
        /// Whether the connection drains, and gets no more.
        var isRetired = false

        var room: Int { isRetired ? 0 : XMPPLimits.receiptsWindowMax - held.count }
    }

    private struct State {
        var members: [UInt64: Member] = [:]
        var readThrough: UInt64 = 0
        var takenThrough: UInt64 = 0
        /// Receipts without an acknowledgement, with a connection or returned.
        var open: [UInt64: NamedReceipt] = [:]
        var returned: Set<UInt64> = []
        /// The connection that got the last receipt.
        var last: UInt64 = 0
    }

    private let broker: Broker
    private let projectID: String
    private let names: MessageNames
    private let logger: Logger
    private let state = Mutex(State())

    init(_ broker: Broker, projectID: String, _ names: MessageNames, _ logger: Logger) {
        self.broker = broker
        self.projectID = projectID
        self.names = names
        self.logger = logger
    }

    // MARK: Connections

    /// Adds a connection.
    /// - Parameter deliver: called on any thread, with at most `receiptsWindowMax` unacknowledged receipts.
    func join(
        _ number: UInt64, _ sender: DoorSender,
        deliver: @escaping @Sendable (NamedReceipt) -> Void
    ) {
        state.withLock { $0.members[number] = Member(sender: sender, deliver: deliver) }
    }

    /// Hands a connection no more receipts.
    /// - Parameter sent: events that were sent, and may still be acknowledged; others go to another connection.
    func retire(_ number: UInt64, keeping sent: Set<UInt64>) {
        state.withLock { state in
            guard var member = state.members[number] else { return }
            member.isRetired = true
            state.returned.formUnion(member.held.subtracting(sent))
            member.held.formIntersection(sent)
            state.members[number] = member
        }
    }

    /// Removes a connection. Its unacknowledged receipts go to others.
    /// - Returns: whether the desk has no connection left.
    func leave(_ number: UInt64) -> Bool {
        let (sender, through, isEmpty) = state.withLock { state in
            let member = state.members.removeValue(forKey: number)
            state.returned.formUnion(member?.held ?? [])
            return (member?.sender, Self.taken(&state), state.members.isEmpty)
        }
        // The acknowledgements of a last connection would be lost with the desk.
        if let through { sender?.takeReceipts(through: through) }
        return isEmpty
    }

    /// An app server has acknowledged a receipt.
    func acknowledged(_ event: UInt64, by number: UInt64) {
        state.withLock { state in
            guard state.members[number]?.held.remove(event) != nil else { return }
            state.open[event] = nil
        }
    }

    // MARK: Handing out

    /// Looks for new receipts, hands out what connections have room for, and deletes what is acknowledged.
    func look(now: Instant) {
        let isExpected = names.expects(projectID, now: now)
        guard let (sender, room, after) = begin(), isExpected || after > 0 else { return }
        var page: [DeliveryReceipt] = []
        if isExpected, room > 0 {
            do throws(MartletError) {
                page = try sender.receipts(after: after, limit: room)
            } catch {
                logger.error("receipts could not be read", metadata: ["error": "\(error)"])
            }
        }
        let read = page.map { (event: $0.eventID, receipt: named($0)) }
        let (deliveries, through) = state.withLock { state in hand(read, &state) }
        for (deliver, receipt) in deliveries { deliver(receipt) }
        if let through { sender.takeReceipts(through: through) }
    }

    private func begin() -> (sender: DoorSender, room: Int, after: UInt64)? {
        state.withLock { state in
            guard let sender = state.members.values.first?.sender else { return nil }
            let room = state.members.values.reduce(0) { $0 + max(0, $1.room) }
            return (sender, room - state.returned.count, state.readThrough)
        }
    }

    private func hand(
        _ page: [(event: UInt64, receipt: NamedReceipt?)], _ state: inout State
    ) -> (deliveries: [(@Sendable (NamedReceipt) -> Void, NamedReceipt)], through: UInt64?) {
        for (event, receipt) in page where event > state.readThrough {
            state.readThrough = event
            guard let receipt else { continue }
            state.open[event] = receipt
            state.returned.insert(event)
        }
        var deliveries: [(@Sendable (NamedReceipt) -> Void, NamedReceipt)] = []
        for event in state.returned.sorted() {
            guard let receipt = state.open[event] else {
                state.returned.remove(event)
                continue
            }
            guard let number = next(state) else { break }
            state.returned.remove(event)
            state.members[number]?.held.insert(event)
            state.last = number
            if let deliver = state.members[number]?.deliver {
                deliveries.append((deliver, receipt))
            }
        }
        return (deliveries, Self.taken(&state))
    }

    /// The event up to which the store may delete receipts; nil: as before.
    private static func taken(_ state: inout State) -> UInt64? {
        let through = state.open.keys.min().map { $0 - 1 } ?? state.readThrough
        guard through > state.takenThrough else { return nil }
        state.takenThrough = through
        return through
    }

    /// The next connection with room, in turns.
    private func next(_ state: State) -> UInt64? {
        let numbers = state.members.filter { $0.value.room > 0 }.keys
        return numbers.filter { $0 > state.last }.min() ?? numbers.min()
    }

    /// nil for an event that XMPP does not know.
    private func named(_ receipt: DeliveryReceipt) -> NamedReceipt? {
        guard receipt.kind == .received else { return nil }
        let number = receipt.messageID.split(separator: "/").last.flatMap { UInt64($0) } ?? 0
        let instance = try? Freshness.any.ask {
            try broker.instance(receipt.token, in: projectID)
        }
        let app = instance?.app ?? ""
        return NamedReceipt(
            event: receipt.eventID,
            originalID: names.name(of: number, in: projectID) ?? "0:\(number)",
            token: receipt.token, app: app)
    }
}
