// SPDX-License-Identifier: Apache-2.0
//
// Hands a project's receipts to its XMPP connections and keeps track of them until they are acknowledged (RCP-1). The store
// can only delete receipts up to an event, but app servers acknowledge in any order. The dispatcher sits in between:
//
//     readThrough   receipts up to this event have been read. Each one is
//       held        by a connection until it is acknowledged or the connection ends,
//       returned    to be handed out again because its connection has ended, or acknowledged.
//
// The store deletes everything below the first unacknowledged receipt. So no receipt is lost, but one may come again after the
// broker or the project's last connection has ended. Only one connection holds a receipt at a time.
//
// XMPP knows receipts of arrival only. We skip those of display and opening, and they are deleted along with the ones
// around them. A dispatcher reads only while it expects receipts of messages that were sent over XMPP: otherwise it would take
// away the receipts of senders who use the binary protocol. Rests on MessageNames and DoorSender.

import Logging
import Martlet
import MartletThreads
import Synchronization

/// A receipt for an app server.
struct NamedReceipt: Sendable, Hashable {
    /// Its place among the project's receipts.
    var event: UInt64
    /// The ID that the app server gave to the message.
    var originalID: String
    /// Token of the device.
    var token: String
    /// Name of the device's app; empty if the device has unregistered.
    var app: String

    /// The receipt's own ID, which the app server acknowledges.
    var messageID: String { "dr2:" + originalID }
}

/// Hands the receipts of a project to its connections.
final class ReceiptDispatcher: Sendable {
    private struct Member {
        var sender: DoorSender
        var deliver: @Sendable (NamedReceipt) -> Void
        var held: Set<UInt64> = []
        /// Whether the connection is draining, so it gets no more.
        var isRetired = false

        var room: Int { isRetired ? 0 : XMPPLimits.receiptsWindowMax - held.count }
    }

    private struct State {
        var members: [UInt64: Member] = [:]
        var readThrough: UInt64 = 0
        var takenThrough: UInt64 = 0
        /// Unacknowledged receipts, held or returned.
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

    /// Stops handing receipts to a connection.
    /// - Parameter sent: events that it may still acknowledge; its others go to another connection.
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
    /// - Returns: whether the dispatcher has no connection left.
    func leave(_ number: UInt64) -> Bool {
        let (sender, through, isEmpty) = state.withLock { state in
            let member = state.members.removeValue(forKey: number)
            state.returned.formUnion(member?.held ?? [])
            return (member?.sender, Self.taken(&state), state.members.isEmpty)
        }
        // When the last connection leaves, the dispatcher goes too, so its acknowledgements must reach the store now.
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

    /// Reads new receipts, hands out as many as connections have room for, and deletes what is acknowledged.
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

    /// Up to which event the store may delete receipts; nil if nothing has changed.
    private static func taken(_ state: inout State) -> UInt64? {
        let through = state.open.keys.min().map { $0 - 1 } ?? state.readThrough
        guard through > state.takenThrough else { return nil }
        state.takenThrough = through
        return through
    }

    /// The next connection that has room; they take turns.
    private func next(_ state: State) -> UInt64? {
        let numbers = state.members.filter { $0.value.room > 0 }.keys
        return numbers.filter { $0 > state.last }.min() ?? numbers.min()
    }

    /// nil for an event that XMPP has no receipt for.
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
