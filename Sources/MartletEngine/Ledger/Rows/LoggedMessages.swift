// SPDX-License-Identifier: Apache-2.0
//
// What reading an instance's log yields. Rests on the records.

package import MartletBase
package import MartletRows

/// A stored message for one instance. Its bytes are valid only inside the call that gets them.
package struct PendingMessage {
    /// What is the same for all recipients of the variant.
    package let header: MessageHeader
    /// The message in wire form, valid.
    package let body: UnsafeRawBufferPointer

    package init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// How a reading ended.
package enum LogScan: Sendable, Hashable {
    /// The snapshot has no more entries. `rowCount` messages were looked at.
    case end(rowCount: Int)
    /// The reading has reached its bound. There may be more messages behind `through`.
    case paused(through: MessageSequence)
}
