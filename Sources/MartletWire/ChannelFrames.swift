// SPDX-License-Identifier: Apache-2.0
//
// A connection of several apps: each is on a channel, which opens with a HELLO of its own, and every
// frame is for the channel that was named last. So the frames themselves are the same on every
// channel and connection. Rests on `WireReader` and `WireWriter`.

import MartletBase

/// 0x98, either way. The frames that follow are for this channel.
public struct ChannelSelection: WireFrame {
    /// 0 is the connection itself; else one of its apps.
    public var number: UInt8

    public init(number: UInt8) { self.number = number }

    public var type: FrameType { .channel }

    public init(from reader: inout WireReader) throws(WireError) {
        number = try reader.u8()
        guard Int(number) <= Limits.appsPerConnectionMax else {
            throw .unknownValue(field: "channel", value: UInt64(number))
        }
    }

    public func encodeBody(into writer: inout WireWriter) { writer.u8(number) }
}

/// 0x99. The app of this channel leaves the connection.
public struct Detach: WireFrame {
    public init() {}
    public var type: FrameType { .detach }
    public init(from reader: inout WireReader) {}
    public func encodeBody(into writer: inout WireWriter) {}
}

/// 0x9A. The last frame for an app; its channel is free again.
public struct Detached: WireFrame {
    public init() {}
    public var type: FrameType { .detached }
    public init(from reader: inout WireReader) {}
    public func encodeBody(into writer: inout WireWriter) {}
}
