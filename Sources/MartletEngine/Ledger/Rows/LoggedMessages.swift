// SPDX-License-Identifier: Apache-2.0
//
// The results of reading an instance's log. Rests on the records.

public import MartletBase
public import MartletRows

/// A stored message for one instance. The bytes are valid only inside the call that receives them.
public struct PendingMessage {
    /// Fields of the message that are equal for all recipients of the variant.
    public let header: MessageHeader
    /// A valid message in wire form.
    public let body: UnsafeRawBufferPointer

    public init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// The end of a reading.
public enum LogScan: Sendable, Hashable {
    /// The snapshot has no more entries. `rowCount` messages were looked at.
    case end(rowCount: Int)
    /// The bound of the reading was reached. There may be more messages behind `through`.
    case paused(through: MessageSequence)
}
