// SPDX-License-Identifier: Apache-2.0
//
// A project's expiry line, as bytes. The messages of the line expire in the order of their sequences: a message joins
// if it does not expire before the last message of the line. So all messages with the default time to live, the
// longest, are in line. Only the line has a row in `due`. A message of the line costs no row there, neither at
// acceptance nor at its acknowledgement. A message with a shorter life has its own row in `due`. Rests on
// RecordBytes.
//
// u64 first: the lowest sequence that may be in line ‖ i64 due: when the sweep looks at the line next, or `never` if
// the line is empty ‖ i64 last: when the message that joined last expires

package import MartletBase

/// A row of `projects`, beside the project's record, because both change with each message.
package struct ExpiryLineRow: Equatable {
    package static let never = Instant(millisecondsSince1970: .max)

    package var first = MessageSequence.none
    package var due = Self.never
    package var last = Instant(millisecondsSince1970: 0)

    package init() {}

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .projects)
        first = MessageSequence(try reader.read(UInt64.self))
        due = Instant(millisecondsSince1970: try reader.read(Int64.self))
        last = Instant(millisecondsSince1970: try reader.read(Int64.self))
    }

    package var bytes: [UInt8] {
        invariant(due == Self.never || first > .none, "A line that is due has a message.")
        var writer = RecordWriter()
        writer.append(first.rawValue)
        writer.append(due.millisecondsSince1970)
        writer.append(last.millisecondsSince1970)
        return writer.bytes
    }
}
