// SPDX-License-Identifier: Apache-2.0
//
// What reading an instance's log gives. Rests on the records.

public import MartletBase
public import MartletRows

/// A stored message on its way to one instance. The bytes are valid inside the call that gets them.
public struct PendingMessage {
    public let header: MessageHeader
    /// A valid message in wire form.
    public let body: UnsafeRawBufferPointer

    public init(header: MessageHeader, body: UnsafeRawBufferPointer) {
        self.header = header
        self.body = body
    }
}

/// How reading a log ended.
public enum LogScan: Sendable, Hashable {
    /// So many messages were looked at, and there is nothing more in the snapshot.
    case end(rowCount: Int)
    /// So many messages were looked at: there may be more behind `through`.
    case paused(through: MessageSequence)
}
