// SPDX-License-Identifier: Apache-2.0
//
// What a device and the broker tell one another beside messages: how awake the device is, up to where
// its acknowledgements are kept for good, that stored messages were discarded, and a new token. Rests
// on `WireReader` and `WireWriter`.

public import MartletBase

/// 0x15: PRI-2, the device is in this state from now on. No answer.
public struct DeviceStateReport: WireFrame {
    public var state: DeviceState
    public init(state: DeviceState) { self.state = state }
    public var type: FrameType { .deviceState }
    public init(from reader: inout WireReader) throws(WireError) {
        state = try reader.choice("device state")
    }
    public func encodeBody(into writer: inout WireWriter) { writer.u8(state.rawValue) }
}

/// 0x16: TTL-4, every message up to here is acknowledged on disk. The device need not know any more
/// which of them it has taken.
public struct Confirmed: WireFrame {
    public var through: UInt64
    public init(through: UInt64) { self.through = through }
    public var type: FrameType { .confirmed }
    public init(from reader: inout WireReader) throws(WireError) { through = try reader.u64() }
    public func encodeBody(into writer: inout WireWriter) { writer.u64(through) }
}

/// 0x17: STO-1 and STO-2, stored messages were discarded. Acknowledged like a message.
public struct Deleted: WireFrame {
    /// That of the last message discarded.
    public var streamID: UInt64
    /// How many were.
    public var count: UInt64

    public init(streamID: UInt64, count: UInt64) {
        self.streamID = streamID
        self.count = count
    }

    public var type: FrameType { .deleted }

    public init(from reader: inout WireReader) throws(WireError) {
        streamID = try reader.u64()
        count = try reader.u64()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u64(streamID)
        writer.u64(count)
    }
}

/// 0x19: REG-4, the device asks for another token.
public struct RotateRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32) { self.correlation = correlation }
    public var type: FrameType { .rotate }
    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    public func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// 0x1A: the new token. The old one is no longer registered; the device key stays.
public struct Rotated: WireFrame {
    public var correlation: UInt32
    public var token: String

    public init(correlation: UInt32, token: String) {
        self.correlation = correlation
        self.token = token
    }

    public var type: FrameType { .rotated }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(token)
    }
}
