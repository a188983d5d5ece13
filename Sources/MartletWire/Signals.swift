// SPDX-License-Identifier: Apache-2.0
//
// The small frames: signs of life, the notice that the broker is about to stop, and the answer to
// requests that return nothing. Rests on `WireReader` and `WireWriter`.

/// 0x03. Asks the other side for a PONG with the same value.
public struct Ping: WireFrame {
    public var value: UInt64
    public init(value: UInt64) { self.value = value }
    public var type: FrameType { .ping }
    public init(from reader: inout WireReader) throws(WireError) { value = try reader.u64() }
    public func encodeBody(into writer: inout WireWriter) { writer.u64(value) }
}

/// 0x04. The answer to a PING.
public struct Pong: WireFrame {
    public var value: UInt64
    public init(value: UInt64) { self.value = value }
    public var type: FrameType { .pong }
    public init(from reader: inout WireReader) throws(WireError) { value = try reader.u64() }
    public func encodeBody(into writer: inout WireWriter) { writer.u64(value) }
}

/// 0x06. NET-5: the broker is about to stop; come back after a random part of the delay.
public struct Draining: WireFrame {
    public var reconnectDelayMilliseconds: UInt32

    public init(reconnectDelayMilliseconds: UInt32) {
        self.reconnectDelayMilliseconds = reconnectDelayMilliseconds
    }

    public var type: FrameType { .draining }

    public init(from reader: inout WireReader) throws(WireError) {
        reconnectDelayMilliseconds = try reader.u32()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(reconnectDelayMilliseconds)
    }
}

/// 0x07. The request took effect and returns nothing.
public struct Done: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32) { self.correlation = correlation }
    public var type: FrameType { .done }
    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    public func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}
