// SPDX-License-Identifier: Apache-2.0
//
// The DELIVER frame of a message. A loop writes the frame once per message, for all recipients. Only here the
// engine's header becomes the wire's. Rests on MartletWire.

import MartletBase
import MartletEngine
import MartletRows
import MartletWire

/// Encodes DELIVER frames.
enum DeliveryFrame {
    static func byteCount(_ header: MessageHeader, bodyBytes: Int) -> Int {
        DeliverHeader.byteCount(
            fromBytes: header.from.utf8.count, hasOwnNumber: ownNumber(header) != nil,
            bodyBytes: bodyBytes)
    }

    /// The number in the message ID, if the number is not the stream ID (MSG-10).
    private static func ownNumber(_ header: MessageHeader) -> UInt64? {
        let usual = header.sequence.rawValue & ~MessageSequence.nowOrNeverBit
        return header.number == usual ? nil : header.number
    }

    static func write(
        _ header: MessageHeader, _ body: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) {
        var from = header.from
        from.withUTF8 { from in
            _ = DeliverHeader.write(
                streamID: header.sequence.rawValue, accepted: header.accepted,
                expires: header.expires, kind: header.kind, priority: header.priority,
                options: header.options, ownNumber: ownNumber(header),
                from: UnsafeRawBufferPointer(from), body: body, into: target)
        }
    }
}
