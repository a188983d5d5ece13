// SPDX-License-Identifier: Apache-2.0
//
// Rows about runs of the broker, as bytes. Each run has a number, and each connection belongs to a run. The
// connections of an earlier run are lost: the broker ended before their ends were written. Rests on RecordBytes.
//
//   run:        u32 number ‖ u8 1 while connections may be lost ‖ u32 p ‖ u32 o to look at next
//   connection: u64 s at the beginning ‖ u64 number of the connection ‖ u32 run
//   ending:     u64 s of the last message ‖ i64 begin of the next run

package import MartletBase

/// The row `run` of `meta`, the only row of this kind.
package struct RunRow {
    package static let key = Key(bytes: Array("run".utf8))

    package var number: UInt32 = 0
    /// The first place that may have a lost connection; nil if no connection is lost.
    package var position: (project: ProjectNumber, ordinal: Ordinal)?

    package init() {}

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .meta)
        number = try reader.read(UInt32.self)
        let hasPosition = try reader.read(UInt8.self) != 0
        let project = ProjectNumber(try reader.read(UInt32.self))
        let ordinal = Ordinal(try reader.read(UInt32.self))
        if hasPosition { position = (project, ordinal) }
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(number)
        writer.append(position == nil ? 0 : 1 as UInt8)
        writer.append(position?.project.rawValue ?? 0)
        writer.append(position?.ordinal.rawValue ?? 0)
        return writer.bytes
    }
}

/// A row of `connections`.
package struct ConnectionRow {
    /// Bytes of a row: `start` and `run`.
    package static let byteCount = 20

    package var start: ConnectionStart
    package var run: UInt32

    package init(start: ConnectionStart, run: UInt32) {
        self.start = start
        self.run = run
    }

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .connections)
        let position = MessageSequence(try reader.read(UInt64.self))
        start = ConnectionStart(number: try reader.read(UInt64.self), position: position)
        run = try reader.read(UInt32.self)
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(start.position.rawValue)
        writer.append(start.number)
        writer.append(run)
        return writer.bytes
    }
}

/// A row of `runs`: the project's last sequence, and the time, when a run began and found connections of earlier
/// runs.
package struct EndingRow {
    package var position: MessageSequence
    package var at: Instant

    package init(position: MessageSequence, at: Instant) {
        self.position = position
        self.at = at
    }

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .runs)
        position = MessageSequence(try reader.read(UInt64.self))
        at = Instant(millisecondsSince1970: try reader.read(Int64.self))
    }

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(position.rawValue)
        writer.append(at.millisecondsSince1970)
        return writer.bytes
    }
}
