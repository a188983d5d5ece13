// SPDX-License-Identifier: Apache-2.0
//
// OPS-5: the order of requests on an HTTP/1.1 connection. The next request is read when every earlier one is answered.
// Bytes outside a body pass in pieces of 1 KiB, because a piece may contain several requests; the bytes of a body pass
// as far as its declared length. A piece of 1 KiB holds some 50 of the shortest requests, and fewer than
// `httpPipelinedMax` of those that clients send. The value decides, and does not act. Rests on NIO.

import HTTPTypes
import Martlet
import NIOCore
import NIOHTTPTypes

/// Decides how many bytes of a connection may be read as requests.
struct RequestTurns {
    /// Bytes outside a body that pass at a time.
    static let pieceBytes = 1024

    /// Requests whose head was read and whose answer is not written.
    private(set) var unansweredCount = 0
    /// True between the head and the end of a request.
    private var isInside = false
    /// Bytes of the current body that have not come; 0 without a declared length.
    private var bodyBytesLeft = 0

    init() {}

    /// Whether more requests wait for their answers than a connection may have.
    var isFlood: Bool { unansweredCount > Limits.httpPipelinedMax }

    /// Bytes that may pass now: 0 while a whole request waits for its answer.
    var passableBytes: Int {
        if isInside { return max(bodyBytesLeft, Self.pieceBytes) }
        return unansweredCount == 0 ? Self.pieceBytes : 0
    }

    /// Notes a part of a request.
    mutating func came(_ part: HTTPRequestPart) {
        switch part {
        case .head(let head):
            unansweredCount += 1
            isInside = true
            bodyBytesLeft = max(0, head.headerFields[.contentLength].flatMap { Int($0) } ?? 0)
        case .body(let bytes): bodyBytesLeft = max(0, bodyBytesLeft - bytes.readableBytes)
        case .end: isInside = false
        }
    }

    /// Notes the last part of an answer. The refusal of a broken head answers no request.
    mutating func answered() { unansweredCount = max(0, unansweredCount - 1) }
}
