// SPDX-License-Identifier: Apache-2.0
//
// `ClientFrame`: one value for every frame type that a client sends to the broker. The codec accepts all of them;
// the broker decides whether the connection's role and state allow a frame. Rests on the typed frames.

import MartletBase

/// A frame from a client to the broker.
public enum ClientFrame: Sendable, Hashable {
    /// A request of a sender or an administrator that has one answer, of one type.
    case request(RequestFrame)
    case hello(Hello)
    case ping(Ping)
    case pong(Pong)
    case acknowledge(Acknowledge)
    case deviceTopics(DeviceTopicsRequest)
    case unregister(UnregisterRequest)
    case send(SendRequest)
    case deviceState(DeviceStateReport)
    case receipt(ReceiptRequest)
    case rotate(RotateRequest)
    case apnsToken(APNsTokenRequest)
    case listenReceipts(ListenReceiptsRequest)
    case receiptAcknowledge(ReceiptAcknowledge)
    case upstream(UpstreamRequest)
    case listenUpstream(ListenUpstreamRequest)
    case upstreamAcknowledge(UpstreamAcknowledge)
    case channel(ChannelSelection)
    case detach(Detach)

    package var type: FrameType {
        switch self {
        case .request(let frame): frame.value.type
        case .hello(let frame): frame.type
        case .ping(let frame): frame.type
        case .pong(let frame): frame.type
        case .acknowledge(let frame): frame.type
        case .deviceTopics(let frame): frame.type
        case .unregister(let frame): frame.type
        case .send(let frame): frame.type
        case .deviceState(let frame): frame.type
        case .receipt(let frame): frame.type
        case .rotate(let frame): frame.type
        case .apnsToken(let frame): frame.type
        case .listenReceipts(let frame): frame.type
        case .receiptAcknowledge(let frame): frame.type
        case .upstream(let frame): frame.type
        case .listenUpstream(let frame): frame.type
        case .upstreamAcknowledge(let frame): frame.type
        case .channel(let frame): frame.type
        case .detach(let frame): frame.type
        }
    }

    /// Number that ties an answer to its request; nil for frames without a correlation.
    public var correlation: UInt32? {
        switch self {
        case .hello, .ping, .pong, .acknowledge, .deviceState, .receiptAcknowledge,
            .upstreamAcknowledge, .channel, .detach:
            nil
        case .request(let frame): frame.value.correlation
        case .deviceTopics(let frame): frame.correlation
        case .unregister(let frame): frame.correlation
        case .send(let frame): frame.correlation
        case .receipt(let frame): frame.correlation
        case .rotate(let frame): frame.correlation
        case .apnsToken(let frame): frame.correlation
        case .listenReceipts(let frame): frame.correlation
        case .upstream(let frame): frame.correlation
        case .listenUpstream(let frame): frame.correlation
        }
    }

    /// Appends the whole frame to the writer: length, type and body.
    public func encode(into writer: inout WireWriter) {
        switch self {
        case .request(let frame): frame.value.encode(into: &writer)
        case .hello(let frame): frame.encode(into: &writer)
        case .ping(let frame): frame.encode(into: &writer)
        case .pong(let frame): frame.encode(into: &writer)
        case .acknowledge(let frame): frame.encode(into: &writer)
        case .deviceTopics(let frame): frame.encode(into: &writer)
        case .unregister(let frame): frame.encode(into: &writer)
        case .send(let frame): frame.encode(into: &writer)
        case .deviceState(let frame): frame.encode(into: &writer)
        case .receipt(let frame): frame.encode(into: &writer)
        case .rotate(let frame): frame.encode(into: &writer)
        case .apnsToken(let frame): frame.encode(into: &writer)
        case .listenReceipts(let frame): frame.encode(into: &writer)
        case .receiptAcknowledge(let frame): frame.encode(into: &writer)
        case .upstream(let frame): frame.encode(into: &writer)
        case .listenUpstream(let frame): frame.encode(into: &writer)
        case .upstreamAcknowledge(let frame): frame.encode(into: &writer)
        case .channel(let frame): frame.encode(into: &writer)
        case .detach(let frame): frame.encode(into: &writer)
        }
    }

    /// Decodes the body of a frame of type `number`.
    /// - Throws: `WireError` if a client sends no frame of type `number`, or if the body is malformed, too short or
    ///   too long for the type.
    public static func decode(
        type number: UInt8, body: UnsafeRawBufferPointer
    ) throws(WireError) -> Self {
        guard let type = FrameType(rawValue: number) else { throw .unknownFrameType(number) }
        var reader = WireReader(body)
        let frame = try decode(type, from: &reader)
        try reader.finish()
        return frame
    }

    /// Decodes the body of a frame of type `number`, for callers without pointers.
    public static func decode(type number: UInt8, body: RawSpan) throws(WireError) -> Self {
        try body.withUnsafeBytes { (bytes) throws(WireError) in
            try decode(type: number, body: bytes)
        }
    }

    private static func decode(
        _ type: FrameType, from reader: inout WireReader
    ) throws(WireError) -> Self {
        switch type {
        case .hello: .hello(try Hello(from: &reader))
        case .ping: .ping(try Ping(from: &reader))
        case .pong: .pong(try Pong(from: &reader))
        case .acknowledge: .acknowledge(try Acknowledge(from: &reader))
        case .subscribe:
            .deviceTopics(try DeviceTopicsRequest(operation: .subscribe, from: &reader))
        case .unsubscribe:
            .deviceTopics(try DeviceTopicsRequest(operation: .unsubscribe, from: &reader))
        case .unregister: .unregister(try UnregisterRequest(from: &reader))
        case .send: .send(try SendRequest(isMulticast: false, from: &reader))
        case .multicast: .send(try SendRequest(isMulticast: true, from: &reader))
        case .deviceState: .deviceState(try DeviceStateReport(from: &reader))
        case .receipt: .receipt(try ReceiptRequest(from: &reader))
        case .rotate: .rotate(try RotateRequest(from: &reader))
        case .apnsToken: .apnsToken(try APNsTokenRequest(from: &reader))
        case .listenReceipts: .listenReceipts(try ListenReceiptsRequest(from: &reader))
        case .receiptAcknowledge: .receiptAcknowledge(try ReceiptAcknowledge(from: &reader))
        case .upstream: .upstream(try UpstreamRequest(from: &reader))
        case .listenUpstream: .listenUpstream(try ListenUpstreamRequest(from: &reader))
        case .upstreamAcknowledge: .upstreamAcknowledge(try UpstreamAcknowledge(from: &reader))
        case .channel: .channel(try ChannelSelection(from: &reader))
        case .detach: .detach(Detach(from: &reader))
        default: .request(try decodeRequest(type, from: &reader))
        }
    }

    private static func decodeRequest(
        _ type: FrameType, from reader: inout WireReader
    ) throws(WireError) -> RequestFrame {
        guard let request = type.request else { throw .unexpectedFrame(type) }
        return try RequestFrame(request, from: &reader)
    }

    /// The frame of a request.
    package static func request(_ request: some WireRequest) -> Self {
        .request(RequestFrame(request))
    }

    /// The request in the frame; nil if the frame is no request of the type.
    package func request<Request: WireRequest>(as type: Request.Type = Request.self) -> Request? {
        guard case .request(let frame) = self else { return nil }
        return frame.value as? Request
    }
}
