// SPDX-License-Identifier: Apache-2.0
//
// The results of reading an instance's log. Rests on the records.

package import MartletBase
package import MartletRows

/// A stored message for one instance. The bytes are valid only inside the call that receives them.
package struct PendingMessage {
    /// Fields of the message that are equal for all recipients of the variant.
    package let header: MessageHeader
    /// A valid message in wire form.
    package let body: UnsafeRawBufferPointer

    package init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// The end of a reading.
package enum LogScan: Sendable, Hashable {
    /// The snapshot has no more entries. `rowCount` messages were looked at.
    case end(rowCount: Int)
    /// The bound of the reading was reached. There may be more messages behind `through`.
    case paused(through: MessageSequence)
}
