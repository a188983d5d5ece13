// SPDX-License-Identifier: Apache-2.0
//
// Receipts that the broker has not answered (RCP-2). The device sends each receipt on every connection until the
// broker answers. Pure.

import MartletBase

/// A receipt for one message.
package struct PendingReceipt: Sendable, Hashable {
    package var kind: ReceiptKind
    /// Stream ID from DELIVER, including bit 63.
    package var streamID: UInt64

    package init(kind: ReceiptKind, streamID: UInt64) {
        self.kind = kind
        self.streamID = streamID
    }
}

/// Unanswered receipts in order of arrival, without duplicates.
package struct ReceiptQueue: Sendable {
    /// Most receipts in the queue. At the bound the oldest receipt is dropped, because an offline device goes on
    /// showing messages.
    package static let max = 1000

    private var receipts: [PendingReceipt] = []
    package init() {}

    package var all: [PendingReceipt] { receipts }

    /// Adds a receipt.
    /// - Returns: false if the receipt was already waiting.
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
