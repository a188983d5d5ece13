// SPDX-License-Identifier: Apache-2.0
//
// What a device tells of itself and of the messages it got: how awake it is (PRI-2), and receipts
// (RCP-2). Both outlive a connection. Rests on `ReceiptQueue`.

public import MartletBase
import MartletWire
import NIOCore

extension MartletDevice {
    /// PRI-2: tells the broker how awake the device is, now and on every later connection. In `doze` only
    /// messages of high priority come; the others come when it is left.
    public func report(_ state: DeviceState) {
        guard state != deviceState else { return }
        deviceState = state
        if case .open(let link) = self.state { tell(state, on: link) }
    }

    /// RCP-2: the application has shown the message. Told to the broker, which counts it (REP-1) and tells
    /// the sender if that asked for it: now or when there is a connection again, until it is answered; at
    /// most 1000 receipts wait. Of one that was now or never it is told only if the sender asked for it.
    public func displayed(_ message: IncomingMessage) { report(.displayed, of: message) }

    /// RCP-2: somebody has opened the message. As `displayed(_:)`.
    public func opened(_ message: IncomingMessage) { report(.opened, of: message) }

    private func report(_ kind: ReceiptKind, of message: IncomingMessage) {
        guard message.wantsReceipts || message.isStored else { return }
        keep(
            PendingReceipt(
                kind: kind,
                streamID: message.streamID | (message.isStored ? 0 : WireVersion.notStoredBit)))
    }

    func tell(_ state: DeviceState, on link: Link) {
        // What was taken before is not said again for what comes after.
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

    /// What may go better later is said again on the next connection.
    func answered(_ receipt: PendingReceipt, by frame: BrokerFrame) {
        if case .error(let refusal) = frame, refusal.error.retryDelayMilliseconds != nil { return }
        receipts.remove(receipt)
    }
}
