// SPDX-License-Identifier: Apache-2.0
//
// One transaction as a row of a log: its operations, and two parts that the store does not read. Events are
// what the loops of all nodes are told. Outcomes are the answers to commands that other nodes have forwarded. Rests on
// RecordBytes.
//
//   body      u8 format ‖ u8 packing (0: none) ‖ u16 version of the store's tables ‖ u32 bytes of the content ‖ content
//   content   i64 time ‖ u32 bytes ‖ operations ‖ u32 bytes ‖ events ‖ outcomes

package import MartletBase
package import MartletRows

/// A transaction as a row of a log.
package struct Redo: Hashable, Sendable {
    /// The version of bodies and of operations. Nodes of two versions share a log while the log has rows of the lower
    /// version only.
    package static let format: UInt8 = 1
    /// Largest body, in bytes: far above the largest command, and PostgreSQL keeps values below 1 GiB.
    package static let bodyBytesMax = 256 << 20
    private static let headerBytes = 8

    /// The clock of the writer.
    package var time: Instant
    package var operations: [UInt8]
    package var events: [UInt8]
    package var outcomes: [UInt8]

    package init(
        time: Instant, operations: [UInt8], events: [UInt8] = [], outcomes: [UInt8] = []
    ) {
        self.time = time
        self.operations = operations
        self.events = events
        self.outcomes = outcomes
    }

    /// The body of the row. A content that the packing makes no shorter is not packed.
    package func body(packing: some RedoPacking) -> [UInt8] {
        invariant(packing.number > 0, "The number 0 says that a body is not packed.")
        var content = RecordWriter()
        content.append(time.millisecondsSince1970)
        for part in [operations, events] { content.append(bytes: part) }
        content.bytes += outcomes
        let packed = packing.pack(content.bytes)
        let isPacked = packed.count < content.bytes.count
        var body = RecordWriter()
        body.append(Self.format)
        body.append(isPacked ? packing.number : 0)
        body.append(UInt16(storeFormatVersion))
        body.append(UInt32(content.bytes.count))
        body.bytes += isPacked ? packed : content.bytes
        return body.bytes
    }

    /// Reads a body.
    package init(body: [UInt8], packing: some RedoPacking) throws(RedoError) {
        let content = try body.withUnsafeBufferPointer { (bytes) throws(RedoError) in
            try Self.content(of: UnsafeRawBufferPointer(bytes), packing)
        }
        do throws(StorageError) {
            self = try content.withUnsafeBufferPointer { (bytes) throws(StorageError) in
                try Redo(content: UnsafeRawBufferPointer(bytes))
            }
        } catch {
            throw .damaged
        }
    }

    private init(content: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(content, of: .meta)
        time = Instant(millisecondsSince1970: try reader.read(Int64.self))
        operations = Array(try reader.countedBytes())
        events = Array(try reader.countedBytes())
        outcomes = Array(reader.rest())
    }

    private static func content(
        of body: UnsafeRawBufferPointer, _ packing: some RedoPacking
    ) throws(RedoError) -> [UInt8] {
        guard body.count >= headerBytes else { throw .damaged }
        guard body[0] == format else { throw .format(body[0]) }
        let tables = body.loadLittleEndian(UInt16.self, at: 2)
        guard tables == storeFormatVersion else { throw .tables(tables) }
        let byteCount = Int(body.loadLittleEndian(UInt32.self, at: 4))
        guard byteCount <= bodyBytesMax else { throw .damaged }
        let rest = UnsafeRawBufferPointer(rebasing: body[headerBytes...])
        switch body[1] {
        case 0:
            guard rest.count == byteCount else { throw .damaged }
            return Array(rest)
        case packing.number:
            guard let content = packing.unpack(rest, byteCount: byteCount) else {
                throw .damaged
            }
            return content
        default: throw .packing(body[1])
        }
    }
}

/// The body of a row that this program does not understand.
package enum RedoError: Error, Hashable, CustomStringConvertible {
    case format(UInt8)
    case tables(UInt16)
    case packing(UInt8)
    case damaged

    package var description: String {
        switch self {
        case .format(let found):
            "the row has format \(found), and format \(Redo.format) is known; upgrade this node"
        case .tables(let found):
            """
            the row is of a store of format \(found), and this node's store has format \
            \(storeFormatVersion)
            """
        case .packing(let found): "the row is packed in the way \(found), which is not known"
        case .damaged: "the row is damaged"
        }
    }
}
