// SPDX-License-Identifier: Apache-2.0
//
// Receipts that the broker does not have yet (RCP-2). Each is said again on every connection until it
// is answered. Pure.

import MartletBase

/// What became of one message.
package struct PendingReceipt: Sendable, Hashable {
    package var kind: ReceiptKind
    /// As in DELIVER, bit 63 included.
    package var streamID: UInt64

    package init(kind: ReceiptKind, streamID: UInt64) {
        self.kind = kind
        self.streamID = streamID
    }
}

/// In the order in which they came; each is there once.
package struct ReceiptQueue: Sendable {
    /// Past this the oldest are forgotten: a device that is offline goes on showing messages.
    package static let max = 1000

    private var receipts: [PendingReceipt] = []
    package init() {}

    package var all: [PendingReceipt] { receipts }

    /// Whether it was not waiting already.
    package mutating func add(_ receipt: PendingReceipt) -> Bool {
        guard !receipts.contains(receipt) else { return false }
        receipts.append(receipt)
        if receipts.count > Self.max { receipts.removeFirst() }
        return true
    }

    package mutating func remove(_ receipt: PendingReceipt) {
        receipts.removeAll { $0 == receipt }
    }
}
