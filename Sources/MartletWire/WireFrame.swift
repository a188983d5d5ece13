// SPDX-License-Identifier: Apache-2.0
//
// Requirements of the typed frames: a type, and a body that can be written. A request names the type of its answer,
// so a client that asks gets a value of this type, and the broker cannot answer with another frame. Rests on
// `WireReader` and `WireWriter`.

/// A frame that can be appended to a `WireWriter`.
package protocol WireFrame: Sendable, Hashable {
    var type: FrameType { get }
    /// Appends all bytes after the type byte.
    func encodeBody(into writer: inout WireWriter)
}

extension WireFrame {
    /// Appends length, type and body.
    package func encode(into writer: inout WireWriter) {
        writer.frame(type) { writer in encodeBody(into: &writer) }
    }
}

/// A frame with a correlation: a request, or its answer.
package protocol CorrelatedFrame: WireFrame {
    static var type: FrameType { get }
    /// Number that ties the answer to the request. 0 in a frame without a connection: the connection sets the number
    /// when the frame is sent.
    var correlation: UInt32 { get set }
    /// Reads all bytes after the type byte.
    init(from reader: inout WireReader) throws(WireError)
}

extension CorrelatedFrame {
    package var type: FrameType { Self.type }
}

/// The answer to a request.
package protocol WireAnswer: CorrelatedFrame {}

/// A request of a sender or an administrator that has one answer, of one type. `FrameType.requests` lists all of them.
package protocol WireRequest: CorrelatedFrame {
    associatedtype Answer: WireAnswer
}

/// A request, as a frame of a connection. Requests are rare beside messages, so the frame may be an existential.
public struct RequestFrame: Sendable, Hashable {
    package var value: any WireRequest

    package init(_ value: some WireRequest) { self.value = value }

    public static func == (one: Self, other: Self) -> Bool {
        AnyHashable(one.value) == AnyHashable(other.value)
    }

    public func hash(into hasher: inout Hasher) { value.hash(into: &hasher) }
}

/// An answer, as a frame of a connection.
public struct AnswerFrame: Sendable, Hashable {
    package var value: any WireAnswer

    package init(_ value: some WireAnswer) { self.value = value }

    public static func == (one: Self, other: Self) -> Bool {
        AnyHashable(one.value) == AnyHashable(other.value)
    }

    public func hash(into hasher: inout Hasher) { value.hash(into: &hasher) }
}

extension ClientFrame {
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

extension BrokerFrame {
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
