// SPDX-License-Identifier: Apache-2.0
//
// The place of a store in a log that several stores follow, as bytes. Each transaction is a row of the log, and a
// store writes its place together with the changes of the row. So a store that is opened after a crash knows the row
// that comes next. Rests on RecordBytes and SHA256.
//
//   position: 16 bytes incarnation ‖ u32 epoch ‖ u64 row ‖ 16 bytes chain

import MartletBase
import MartletCrypto

/// The place of a store in a log: the last row of the log that the store contains. The value of the row
/// `position` of `meta`. A store without a log has no such row.
package struct LogPosition: Hashable, Sendable {
    package static let key = Key(bytes: Array("position".utf8))
    package static let incarnationBytes = 16
    /// Bytes of a chain: half of a SHA-256. No peer chooses the bytes of rows to meet another chain, so 128 bits are
    /// enough to notice a different history.
    package static let chainBytes = 16

    /// The random name of the log's history. A log that begins anew after its loss has another name.
    package var incarnation: [UInt8]
    /// The number of the takeover after which the row was written.
    package var epoch: UInt32
    /// The number of the row; 0: before the first row.
    package var row: UInt64
    /// A digest of all rows up to this row. Two stores with equal chains have equal histories.
    package var chain: [UInt8]

    /// The place before the first row of a log.
    /// - Parameter incarnation: 16 bytes.
    package init(beginningOf incarnation: [UInt8]) {
        invariant(
            incarnation.count == Self.incarnationBytes, "The name of a history has 16 bytes.")
        self.incarnation = incarnation
        epoch = 0
        row = 0
        chain = [UInt8](repeating: 0, count: Self.chainBytes)
    }

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .meta)
        incarnation = Array(try reader.bytes(Self.incarnationBytes))
        epoch = try reader.read(UInt32.self)
        row = try reader.read(UInt64.self)
        chain = Array(try reader.bytes(Self.chainBytes))
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.bytes += incarnation
        writer.append(epoch)
        writer.append(row)
        writer.bytes += chain
        return writer.bytes
    }

    /// The place after one more row.
    /// - Parameters:
    ///   - body: the bytes of the row, as the log keeps them.
    ///   - epoch: the epoch of the row's writer, not below the present epoch.
    package func following(_ body: [UInt8], epoch: UInt32) -> LogPosition {
        invariant(epoch >= self.epoch, "The epochs of a log's rows rise.")
        var digest = SHA256()
        digest.update(chain)
        digest.update(body)
        var next = self
        next.epoch = epoch
        next.row += 1
        next.chain = Array(digest.finish().prefix(Self.chainBytes))
        return next
    }
}
