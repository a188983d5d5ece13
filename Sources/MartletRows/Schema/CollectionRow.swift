// SPDX-License-Identifier: Apache-2.0
//
// How far a project's collection of fanouts is, as bytes. Rests on RecordBytes.

package import MartletBase

/// The row of a project in `collections`: 49 bytes, in the order of the properties.
package struct CollectionRow {
    package enum Phase: UInt8 {
        case idle = 0
        /// Every instance's log is looked through for fanouts that it needs.
        case marking = 1
        /// Fanouts that nobody needs are deleted.
        case deleting = 2
        /// Marking that ends as soon as every blob is marked: `left` counts the others. Rows in `marking`
        /// have no such count.
        case markingCounted = 3
    }

    /// The time of the row in `due`.
    package var due: Instant
    /// Bytes of blobs that came or expired since the last collection began.
    package var fresh: UInt64 = 0
    /// Bytes of blobs that were left by the last one, or were found to be needed by this one.
    package var live: UInt64 = 0
    package var phase = Phase.idle
    /// Fanouts up to here are collected.
    package var through = MessageSequence.none
    /// The next instance, then the next fanout, to look at.
    package var position: UInt64 = 0
    /// In `markingCounted`: blobs that are not marked yet. In `deleting`: bytes of blobs left so far.
    package var left: UInt64 = 0

    package init(due: Instant) { self.due = due }

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .collections)
        due = Instant(millisecondsSince1970: try reader.read(Int64.self))
        fresh = try reader.read(UInt64.self)
        live = try reader.read(UInt64.self)
        guard let phase = Phase(rawValue: try reader.read(UInt8.self)) else {
            throw reader.damaged()
        }
        self.phase = phase
        through = MessageSequence(try reader.read(UInt64.self))
        position = try reader.read(UInt64.self)
        left = try reader.read(UInt64.self)
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(due.millisecondsSince1970)
        writer.append(fresh)
        writer.append(live)
        writer.append(phase.rawValue)
        writer.append(through.rawValue)
        writer.append(position)
        writer.append(left)
        return writer.bytes
    }
}
