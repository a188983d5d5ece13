// SPDX-License-Identifier: Apache-2.0
//
// CHANNEL, for a connection that several apps share. Each app has a channel, and a HELLO opens the channel. Every frame
// belongs to the channel that the last CHANNEL named, so all other frames have an equal form on every channel and on every
// connection. Rests on `WireReader` and `WireWriter`.

import MartletBase

/// CHANNEL (0x98), sent by either side: selects the channel of the frames that follow in the sending direction.
public struct ChannelSelection: WireFrame {
    /// 0 selects the connection itself; 1 to `Limits.appsPerConnectionMax` select an app.
    public var number: UInt8

    public init(number: UInt8) { self.number = number }

    package var type: FrameType { .channel }

    package init(from reader: inout WireReader) throws(WireError) {
        number = try reader.u8()
        guard Int(number) <= Limits.appsPerConnectionMax else {
            throw .unknownValue(field: "channel", value: UInt64(number))
        }
    }

    package func encodeBody(into writer: inout WireWriter) { writer.u8(number) }
}
