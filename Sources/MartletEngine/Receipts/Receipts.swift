// SPDX-License-Identifier: Apache-2.0
//
// The receipts that wait for a project's senders, and their form in the store (RCP-1): u64 message number ‖ i64 instant ‖ u8
// kind ‖ token (24 bytes), little-endian. Rests on the ledgers.

package import MartletBase
package import MartletRows

/// A device's report about a message (RCP-2).
package struct Receipt: Sendable, Hashable {
    /// The number of the receipt among the project's receipts. Senders acknowledge receipts by this number.
    package var event: UInt64
    /// Number in the ID of the message that the device reports about.
    package var messageNumber: UInt64
    /// The instance's token at the time of the report.
    package var token: Token
    /// Event that the device reports (RCP-2).
    package var kind: ReceiptKind
    /// The acceptance of the report.
    package var at: Instant

    package init(
        event: UInt64, messageNumber: UInt64, token: Token, kind: ReceiptKind, at: Instant
    ) {
        self.event = event
        self.messageNumber = messageNumber
        self.token = token
        self.kind = kind
        self.at = at
    }

    /// A project's receipts with numbers above `event`, in the order of the numbers, at most `limit`.
    package static func page(
        after event: UInt64, limit: Int, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [Receipt] {
        var found: [Receipt] = []
        for record in try storage.receipts.records(in: project, after: event, limit: limit) {
            found.append(try Receipt(record))
        }
        return found
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        for word in [messageNumber, UInt64(bitPattern: at.millisecondsSince1970)] {
            for shift in 0..<8 as Range<UInt64> {
                bytes.append(UInt8(truncatingIfNeeded: word >> (shift * 8)))
            }
        }
        bytes.append(kind.rawValue)
        return bytes + token.bytes
    }

    private init(_ record: ReceiptRecord) throws(StorageError) {
        let bytes = record.bytes
        guard bytes.count == 17 + Limits.tokenRandomBytes,
            let kind = ReceiptKind(rawValue: bytes[16])
        else {
            throw StorageError(
                operation: "read receipts", code: 0,
                text: "a record is damaged; run 'martlet check'", isFull: false)
        }
        func word(_ start: Int) -> UInt64 {
            (0..<8).reduce(0) { $0 | UInt64(bytes[start + $1]) << (UInt64($1) * 8) }
        }
        self.init(
            event: record.number, messageNumber: word(0), token: Token(bytes: Array(bytes[17...])),
            kind: kind, at: Instant(millisecondsSince1970: Int64(bitPattern: word(8))))
    }
}
