// SPDX-License-Identifier: Apache-2.0
//
// A project's expiry line, as bytes: messages that expire in the order of their sequences. A message joins
// when it does not expire before the last message of the line. So messages with one time to live, which is
// the longest one by default, are all in line, and only the line has a row in `due`: a message costs no row
// there when it is accepted, and none when it is acknowledged. A message with a shorter life has a row of its
// own. Rests on RecordBytes.
//
//   u64 first: no message of the line lies before it ‖ i64 due: when the line is looked at next; never where
//   it is empty ‖ i64 last: when the message that joined last expires

package import MartletBase

/// A row of `projects`, beside the project's record: both change with each message.
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
        var writer = RecordWriter()
        writer.append(first.rawValue)
        writer.append(due.millisecondsSince1970)
        writer.append(last.millisecondsSince1970)
        return writer.bytes
    }
}
