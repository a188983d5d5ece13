// SPDX-License-Identifier: Apache-2.0
//
// The answer of a route. Rests on JSONValue.

public import Martlet

/// An error with an answer of its own.
package protocol AnsweredError: Error {
    var answer: GatewayAnswer { get }
    /// OPS-10: the cause to count; nil: the broker refused, and has counted it.
    var countedCause: ErrorWord? { get }
}

/// An answer to a call.
public struct GatewayAnswer: Sendable {
    /// The HTTP status.
    public var status: Int
    /// Headers with names in lower case. The server adds the length.
    public var headers: [(name: String, value: String)]
    /// Bytes of the body, as they go to the caller; empty for an answer without a body.
    public var body: [UInt8]
    /// The parts of a body without a known end, such as events, in place of `body`.
    package var stream: AsyncStream<[UInt8]>?

    /// Makes an answer with any content. The headers must name the body's type.
    public init(
        status: Int = 200, headers: [(name: String, value: String)] = [], body: [UInt8] = []
    ) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Makes an answer of JSON in UTF-8, with the `content-type` before `headers`.
    public static func json(
        _ value: JSONValue, status: Int = 200, headers: [(name: String, value: String)] = []
    ) -> GatewayAnswer {
        GatewayAnswer(
            status: status,
            headers: [("content-type", "application/json; charset=UTF-8")] + headers,
            body: Array(value.text.utf8))
    }

    /// Makes an answer of plain text in UTF-8.
    public static func text(_ text: String, status: Int = 200) -> GatewayAnswer {
        GatewayAnswer(
            status: status, headers: [("content-type", "text/plain; charset=UTF-8")],
            body: Array(text.utf8))
    }
}
