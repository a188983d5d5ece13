// SPDX-License-Identifier: Apache-2.0
//
// Brings receipts to the senders that listen on this loop (RCP-1). The loop reads receipts behind the last receipt sent to a
// sender, as far as the sender's queue has room. Rests on the engine's receipts and MartletWire.

import Logging
import MartletBase
import MartletDelivery
import MartletEngine
import MartletStore
import MartletTransport
import MartletWire

/// The senders that listen on this loop, for receipts and for messages of devices.
struct Listeners {
    /// RCP-1: those for receipts, by project.
    var byProject: [ProjectNumber: [ConnectionID]] = [:]
    /// Those with possibly new receipts.
    var receiptsDue: [ConnectionID] = []
    /// Those whose receipts could not be read. The next tick tries again.
    var receiptsUnread: [ConnectionID] = []
    /// UPS-1: those for messages of devices, by listener number.
    var upstream: [UInt64: UpstreamListener] = [:]
}

extension Loop where Kernel: ~Copyable {
    /// Receipts for a sender in a turn.
    private static var receiptsPerTurn: Int { 256 }

    mutating func listen(_ connection: UnsafeMutablePointer<Connection>, _ project: ProjectNumber) {
        guard connection.pointee.receiptsAfter == nil else { return }
        connection.pointee.receiptsAfter = 0
        listeners.byProject[project, default: []].append(connection.pointee.id)
        listeners.receiptsDue.append(connection.pointee.id)
    }

    /// Removes the listener of a connection that is gone.
    mutating func stopListening(_ connection: UnsafeMutablePointer<Connection>) {
        guard connection.pointee.receiptsAfter != nil,
            let project = try? connection.pointee.principal.senderProject()
        else { return }
        let id = connection.pointee.id
        listeners.byProject[project]?.removeAll { $0 == id }
        if listeners.byProject[project]?.isEmpty == true { listeners.byProject[project] = nil }
    }

    mutating func sendReceipts() {
        guard !listeners.receiptsDue.isEmpty else { return }
        var due: [ConnectionID] = []
        swap(&due, &listeners.receiptsDue)
        for id in due {
            guard let connection = connection(id), connection.pointee.phase == .open,
                let after = connection.pointee.receiptsAfter,
                let project = try? connection.pointee.principal.senderProject()
            else { continue }
            guard delivery.hasRoom(id.index) else {
                connection.pointee.receiptsWait = true
                continue
            }
            do {
                let page = try context.store.read { (transaction) throws in
                    try Receipt.page(
                        after: after, limit: Self.receiptsPerTurn, in: project, transaction)
                }
                for receipt in page { send(receipt, to: connection) }
                if page.count == Self.receiptsPerTurn { listeners.receiptsDue.append(id) }
            } catch {
                context.logger.error(
                    "receipts could not be read", metadata: ["error": "\(error)"])
                listeners.receiptsUnread.append(id)
            }
        }
    }

    private mutating func send(
        _ receipt: Receipt, to connection: UnsafeMutablePointer<Connection>
    ) {
        connection.pointee.receiptsAfter = receipt.event
        send(
            .receiptEvent(
                ReceiptEvent(
                    eventID: receipt.event, messageNumber: receipt.messageNumber,
                    token: receipt.token.text, kind: receipt.kind, instant: receipt.at)),
            to: connection)
    }
}
