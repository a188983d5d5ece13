// SPDX-License-Identifier: Apache-2.0
//
// Reports of a device: its state (PRI-2), and receipts for messages (RCP-2). Both outlive a connection. Rests on
// `ReceiptQueue`.

public import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// PRI-2: tells the broker the device's state, now and on every later connection. In `doze` only messages of
    /// high priority come; the other messages come when the device leaves `doze`.
    public func report(_ state: DeviceState) {
        guard state != deviceState else { return }
        deviceState = state
        if case .open(let link) = self.state { tell(state, on: link) }
    }

    /// RCP-2: reports that the application has shown the message. The broker counts the report (REP-1) and tells
    /// the sender, if the sender asked for receipts. The message is acknowledged at once. The device repeats the
    /// report on later connections until the broker answers; at most 1000 receipts wait. For a message that was now
    /// or never, the device reports only if the sender asked for receipts.
    public func displayed(_ message: IncomingMessage) { report(.displayed, of: message) }

    /// RCP-2: reports that the user has opened the message. Waits and repeats like `displayed(_:)`.
    public func opened(_ message: IncomingMessage) { report(.opened, of: message) }

    private func report(_ kind: ReceiptKind, of message: IncomingMessage) {
        guard message.wantsReceipts || message.isStored else { return }
        // REP-1: a shown message is taken. Its acknowledgement leaves before the report, so that at no moment a message
        // counts as displayed and not as received.
        if message.isStored {
            ledger.take(message.streamID)
            acknowledge(ifDue: false)
        }
        keep(
            PendingReceipt(
                kind: kind,
                streamID: message.streamID | (message.isStored ? 0 : WireVersion.nowOrNeverBit)))
    }

    func tell(_ state: DeviceState, on link: Link) {
        // Messages taken so far are acknowledged before the state changes, so the acknowledgement cannot concern
        // messages that come after the change.
        acknowledge(ifDue: false)
        try? link.handler.value.send(.deviceState(DeviceStateReport(state: state)))
    }

    func keep(_ receipt: PendingReceipt) {
        guard receipts.add(receipt) else { return }
        if case .open(let link) = state { send(receipt, on: link) }
    }

    func send(_ receipt: PendingReceipt, on link: Link) {
        let correlation = nextCorrelation()
        let frame = ReceiptRequest(
            correlation: correlation, kind: receipt.kind, streamID: receipt.streamID)
        guard (try? link.handler.value.send(.receipt(frame))) != nil else { return }
        receiptsTold[correlation] = receipt
    }

    /// Removes an answered receipt. After an error with a retry delay the receipt stays, for the next connection.
    func answered(_ receipt: PendingReceipt, by frame: BrokerFrame) {
        if case .error(let refusal) = frame, refusal.error.retryDelayMilliseconds != nil { return }
        receipts.remove(receipt)
    }
}
