// SPDX-License-Identifier: Apache-2.0
//
// Frames between a device and the broker beside messages: the device's state, the stream ID up to which
// acknowledgements are on disk, the notice of discarded messages, and the exchange of the registration token. Rests
// on `WireReader` and `WireWriter`.

public import MartletBase

/// STATE (0x15): PRI-2, the device changes to the given state. No answer.
public struct DeviceStateReport: WireFrame {
    public var state: DeviceState
    public init(state: DeviceState) { self.state = state }
    package var type: FrameType { .deviceState }
    package init(from reader: inout WireReader) throws(WireError) {
        state = try reader.choice("device state")
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u8(state.rawValue) }
}

/// CONFIRMED (0x16): TTL-4, acknowledgements are on disk. The device may forget the stream IDs up to `through`,
/// because no message up to there is delivered again.
public struct Confirmed: WireFrame {
    /// Stream ID up to which every message is acknowledged on disk.
    public var through: UInt64
    public init(through: UInt64) { self.through = through }
    package var type: FrameType { .confirmed }
    package init(from reader: inout WireReader) throws(WireError) { through = try reader.u64() }
    package func encodeBody(into writer: inout WireWriter) { writer.u64(through) }
}

/// DELETED (0x17): STO-1 and STO-2, the broker discarded stored messages. The device acknowledges DELETED like a
/// message.
public struct Deleted: WireFrame {
    /// Stream ID of the last discarded message, or a stream ID without a message.
    public var streamID: UInt64
    /// Count of the discarded messages.
    public var count: UInt64

    public init(streamID: UInt64, count: UInt64) {
        self.streamID = streamID
        self.count = count
    }

    package var type: FrameType { .deleted }

    package init(from reader: inout WireReader) throws(WireError) {
        streamID = try reader.u64()
        count = try reader.u64()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u64(streamID)
        writer.u64(count)
    }
}

/// ROTATE (0x19): REG-4, the device asks for another registration token. Answered by ROTATED.
public struct RotateRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package var type: FrameType { .rotate }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// ROTATED (0x1A): the new registration token. The old token is no longer registered; the device key stays valid.
public struct Rotated: WireFrame {
    public var correlation: UInt32
    public var token: String

    public init(correlation: UInt32, token: String) {
        self.correlation = correlation
        self.token = token
    }

    package var type: FrameType { .rotated }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(token)
    }
}
