// SPDX-License-Identifier: Apache-2.0
//
// The state of a project's collection of fanouts, as bytes. Rests on RecordBytes.

package import MartletBase

/// The row of a project in `collections`: 49 bytes, in the order of the properties.
package struct CollectionRow {
    package enum Phase: UInt8 {
        case idle = 0
        /// The logs of all instances are searched for fanouts that an instance needs.
        case marking = 1
        /// Fanouts that no instance needs are deleted.
        case deleting = 2
        /// Like `marking`, but `left` counts the blobs without a mark, and the phase ends at 0. In the phase
        /// `marking` there is no such count.
        case markingCounted = 3
    }

    /// The time of the project's row in `due`.
    package var due: Instant
    /// Bytes of blobs that came or expired since the last collection began.
    package var fresh: UInt64 = 0
    /// Bytes of the blobs that the last collection left.
    package var live: UInt64 = 0
    package var phase = Phase.idle
    /// The last sequence that the present collection covers.
    package var through = MessageSequence.none
    /// Where the next step begins. While marking: the ordinal of an instance. While deleting: twice the sequence of a
    /// fanout, plus 1 for the row of its discarded recipients.
    package var position: UInt64 = 0
    /// In `markingCounted`: the number of blobs without a mark. In `deleting`: the bytes of the blobs kept so far.
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
