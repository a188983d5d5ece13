// SPDX-License-Identifier: Apache-2.0
//
// What a device may say (UPS-1): data, by the rules of what a sender says (MSG-2…MSG-4). Rests on
// Message+Validation.

public import MartletBase

extension Message {
    /// The bytes for UPSTREAM, checked as the broker checks them.
    public func encodedUpstream() throws(MartletError) -> [UInt8] {
        guard payloadBytes <= Limits.payloadBytesMax else {
            throw Self.tooLong(payloadBytes, field: "message")
        }
        guard data.count <= Limits.dataEntriesMax else { throw Self.tooManyEntries("message") }
        var writer = WireWriter()
        encode(into: &writer)
        try Self.checkUpstream(writer.bytes)
        return writer.bytes
    }

    /// Whether a device may send these bytes.
    public static func checkUpstream(_ bytes: [UInt8]) throws(MartletError) {
        try bytes.span.bytes.withUnsafeBytes { (bytes) throws(MartletError) in
            let outline = try checkedOutline(bytes)
            guard outline.blocks.isEmpty, !outline.summary.hasNotification else {
                throw refusal(
                    "A device sends data, and neither a notification nor blocks.", "message")
            }
            try checkSize(outline.summary, "message")
        }
    }
}
