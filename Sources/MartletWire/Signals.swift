// SPDX-License-Identifier: Apache-2.0
//
// The small frames: PING and PONG as signs of life, DRAINING before the broker stops, and DONE as the answer to
// requests that return no value. Rests on `WireReader` and `WireWriter`.

/// PING (0x03): asks the other side for a PONG with an equal value.
public struct Ping: WireFrame {
    public var value: UInt64
    public init(value: UInt64) { self.value = value }
    package var type: FrameType { .ping }
    package init(from reader: inout WireReader) throws(WireError) { value = try reader.u64() }
    package func encodeBody(into writer: inout WireWriter) { writer.u64(value) }
}

/// PONG (0x04): the answer to PING.
public struct Pong: WireFrame {
    public var value: UInt64
    public init(value: UInt64) { self.value = value }
    package var type: FrameType { .pong }
    package init(from reader: inout WireReader) throws(WireError) { value = try reader.u64() }
    package func encodeBody(into writer: inout WireWriter) { writer.u64(value) }
}

/// DRAINING (0x06): NET-5, the broker is about to stop. The client reconnects after a random part of the delay.
public struct Draining: WireFrame {
    public var reconnectDelayMilliseconds: UInt32

    public init(reconnectDelayMilliseconds: UInt32) {
        self.reconnectDelayMilliseconds = reconnectDelayMilliseconds
    }

    package var type: FrameType { .draining }

    package init(from reader: inout WireReader) throws(WireError) {
        reconnectDelayMilliseconds = try reader.u32()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(reconnectDelayMilliseconds)
    }
}

/// DONE (0x07): the request took effect and returns no value.
public struct Done: WireAnswer {
    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package static var type: FrameType { .done }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}
