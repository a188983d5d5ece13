// SPDX-License-Identifier: Apache-2.0
//
// `BrokerFrame`: one value for every frame type that the broker sends to a client. Rests on the typed frames.

/// A frame from the broker to a client.
public enum BrokerFrame: Sendable, Hashable {
    /// An answer to a `RequestFrame`.
    case answer(AnswerFrame)
    case welcome(Welcome)
    case ping(Ping)
    case pong(Pong)
    case error(ErrorFrame)
    case draining(Draining)
    case done(Done)
    case deliver(Deliver)
    case topicResult(TopicResult)
    case accepted(Accepted)
    case confirmed(Confirmed)
    case deleted(Deleted)
    case rotated(Rotated)
    case receiptEvent(ReceiptEvent)
    case upstreamAccepted(UpstreamAccepted)
    case upstreamMessage(UpstreamDelivery)
    case groupAccepted(GroupAccepted)
    case multicastResult(MulticastResult)
    case channel(ChannelSelection)
    case detached(Detached)

    package var type: FrameType {
        switch self {
        case .answer(let frame): frame.value.type
        case .welcome(let frame): frame.type
        case .ping(let frame): frame.type
        case .pong(let frame): frame.type
        case .error(let frame): frame.type
        case .draining(let frame): frame.type
        case .done(let frame): frame.type
        case .deliver(let frame): frame.type
        case .topicResult(let frame): frame.type
        case .accepted(let frame): frame.type
        case .confirmed(let frame): frame.type
        case .deleted(let frame): frame.type
        case .rotated(let frame): frame.type
        case .receiptEvent(let frame): frame.type
        case .upstreamAccepted(let frame): frame.type
        case .upstreamMessage(let frame): frame.type
        case .groupAccepted(let frame): frame.type
        case .multicastResult(let frame): frame.type
        case .channel(let frame): frame.type
        case .detached(let frame): frame.type
        }
    }

    /// Number that ties an answer to its request; nil for frames without a correlation.
    public var correlation: UInt32? {
        switch self {
        case .welcome, .ping, .pong, .draining, .deliver, .confirmed, .deleted, .receiptEvent,
            .upstreamMessage, .channel, .detached:
            nil
        case .answer(let frame): frame.value.correlation
        case .error(let frame): frame.correlation
        case .done(let frame): frame.correlation
        case .topicResult(let frame): frame.correlation
        case .accepted(let frame): frame.correlation
        case .rotated(let frame): frame.correlation
        case .upstreamAccepted(let frame): frame.correlation
        case .groupAccepted(let frame): frame.correlation
        case .multicastResult(let frame): frame.correlation
        }
    }

    /// Appends the whole frame to the writer: length, type and body.
    public func encode(into writer: inout WireWriter) {
        switch self {
        case .answer(let frame): frame.value.encode(into: &writer)
        case .welcome(let frame): frame.encode(into: &writer)
        case .ping(let frame): frame.encode(into: &writer)
        case .pong(let frame): frame.encode(into: &writer)
        case .error(let frame): frame.encode(into: &writer)
        case .draining(let frame): frame.encode(into: &writer)
        case .done(let frame): frame.encode(into: &writer)
        case .deliver(let frame): frame.encode(into: &writer)
        case .topicResult(let frame): frame.encode(into: &writer)
        case .accepted(let frame): frame.encode(into: &writer)
        case .confirmed(let frame): frame.encode(into: &writer)
        case .deleted(let frame): frame.encode(into: &writer)
        case .rotated(let frame): frame.encode(into: &writer)
        case .receiptEvent(let frame): frame.encode(into: &writer)
        case .upstreamAccepted(let frame): frame.encode(into: &writer)
        case .upstreamMessage(let frame): frame.encode(into: &writer)
        case .groupAccepted(let frame): frame.encode(into: &writer)
        case .multicastResult(let frame): frame.encode(into: &writer)
        case .channel(let frame): frame.encode(into: &writer)
        case .detached(let frame): frame.encode(into: &writer)
        }
    }

    /// Decodes the body of a frame of type `number`.
    /// - Throws: `WireError` if the broker sends no frame of type `number`, or if the body is malformed, too short
    ///   or too long for the type.
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
        case .welcome: .welcome(try Welcome(from: &reader))
        case .ping: .ping(try Ping(from: &reader))
        case .pong: .pong(try Pong(from: &reader))
        case .error: .error(try ErrorFrame(from: &reader))
        case .draining: .draining(try Draining(from: &reader))
        case .done: .done(try Done(from: &reader))
        case .deliver: .deliver(try Deliver(from: &reader))
        case .topicResult: .topicResult(try TopicResult(from: &reader))
        case .accepted: .accepted(try Accepted(from: &reader))
        case .confirmed: .confirmed(try Confirmed(from: &reader))
        case .deleted: .deleted(try Deleted(from: &reader))
        case .rotated: .rotated(try Rotated(from: &reader))
        case .receiptEvent: .receiptEvent(try ReceiptEvent(from: &reader))
        case .upstreamAccepted: .upstreamAccepted(try UpstreamAccepted(from: &reader))
        case .upstreamMessage: .upstreamMessage(try UpstreamDelivery(from: &reader))
        case .groupAccepted: .groupAccepted(try GroupAccepted(from: &reader))
        case .multicastResult: .multicastResult(try MulticastResult(from: &reader))
        case .channel: .channel(try ChannelSelection(from: &reader))
        case .detached: .detached(Detached(from: &reader))
        default: .answer(try decodeAnswer(type, from: &reader))
        }
    }

    private static func decodeAnswer(
        _ type: FrameType, from reader: inout WireReader
    ) throws(WireError) -> AnswerFrame {
        guard let answer = type.answer else { throw .unexpectedFrame(type) }
        return try AnswerFrame(answer, from: &reader)
    }

    /// The frame of an answer.
    package static func answer(_ answer: some WireAnswer) -> Self { .answer(AnswerFrame(answer)) }

    /// The answer in the frame; nil if the frame is no answer of the type.
    package func answer<Answer: WireAnswer>(as type: Answer.Type = Answer.self) -> Answer? {
        switch self {
        case .answer(let frame): frame.value as? Answer
        case .done(let done): done as? Answer
        case .topicResult(let result): result as? Answer
        default: nil
        }
    }
}
