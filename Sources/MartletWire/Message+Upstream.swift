// SPDX-License-Identifier: Apache-2.0
//
// The rules for a message from a device (UPS-1): data alone, under the rules for a sender's data (MSG-2…MSG-4).
// Rests on `Message+Validation`.

public import MartletBase

extension Message {
    /// The encoded message for UPSTREAM, after the checks that need no project. The broker also checks the size (MSG-3).
    /// - Throws: `INVALID_ARGUMENT` if a device may not send the message.
    public func encodedUpstream() throws(MartletError) -> [UInt8] {
        guard data.count <= Limits.dataEntriesMax else { throw Self.tooManyEntries("message") }
        var writer = WireWriter()
        encode(into: &writer)
        if writer.isClipped { throw Self.clipped }
        _ = try Self.checkUpstream(writer.bytes)
        return writer.bytes
    }

    /// Checks that the bytes are a message that a device may send.
    /// - Returns: the size, whose limit depends on the project (MSG-3).
    /// - Throws: `INVALID_ARGUMENT` for a notification, a block or a malformed field.
    public static func checkUpstream(_ bytes: [UInt8]) throws(MartletError) -> MessageSize {
        try bytes.span.bytes.withUnsafeBytes { (bytes) throws(MartletError) in
            let outline = try checkedOutline(bytes)
            guard outline.blocks.isEmpty, outline.opaque == nil, !outline.summary.hasNotification
            else {
                throw refusal(
                    "A device sends data, and no notification, no blocks and no opaque content.",
                    "message")
            }
            return MessageSize(payloadBytes: outline.summary.payloadBytes)
        }
    }
}
