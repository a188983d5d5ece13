// SPDX-License-Identifier: Apache-2.0
//
// Decides when the next request on an HTTP/1.1 connection is read (OPS-5). The next request is read when every earlier one is
// answered. Bytes outside a body pass in pieces so small that a piece holds no more than `httpPipelinedMax` requests; the
// bytes of a body pass as far as its declared length. So a client may write any number of requests at once: the rest waits
// unread, and then the client's own writes wait.
//
// A body without a declared length comes in chunks. Sizes, extensions and trailers of chunks are no content, so the bound
// on a body does not count them, and they have a bound of their own. The value decides, and does not act. Rests on NIO.

import HTTPTypes
import Martlet
import NIOCore
import NIOHTTPTypes

/// Decides how many bytes of a connection may be read as requests.
struct RequestTurns {
    /// Bytes outside a body that pass at a time: the shortest request, `GET / HTTP/1.0`, has 18.
    static let pieceBytes = 16 * Limits.httpPipelinedMax
    /// Bytes of a body in chunks that pass at a time. Fewer would make long bodies slow; some tens of requests may be behind
    /// the end of a body.
    private static let chunkedPieceBytes = 1024
    /// Bytes around a byte of content that are free. The smallest chunk has five around its byte; some writers fill the size
    /// up with zeros.
    private static let framingPerByte = 16

    /// Requests whose head was read and whose answer is not written.
    private(set) var unansweredCount = 0
    /// True between the head and the end of a request.
    private var isInside = false
    /// Bytes of the current body that have not come; 0 without a declared length.
    private var bodyBytesLeft = 0
    /// Bytes of a body in chunks beyond what its content explains.
    private var framingBytes = 0

    init() {}

    /// Whether a body in chunks has more around its content than any client sends.
    var isFlood: Bool { framingBytes > Limits.httpHeldBytesMax }

    /// Bytes that may pass now: 0 while a whole request waits for its answer.
    var passableBytes: Int {
        if isInside { return max(bodyBytesLeft, Self.chunkedPieceBytes) }
        return unansweredCount == 0 ? Self.pieceBytes : 0
    }

    /// Notes bytes that are read next.
    mutating func passes(_ byteCount: Int) {
        if isInside, bodyBytesLeft == 0 { framingBytes += byteCount }
    }

    /// Notes a part of a request.
    mutating func came(_ part: HTTPRequestPart) {
        switch part {
        case .head(let head):
            unansweredCount += 1
            isInside = true
            framingBytes = 0
            bodyBytesLeft = max(0, head.headerFields[.contentLength].flatMap { Int($0) } ?? 0)
        case .body(let bytes):
            bodyBytesLeft = max(0, bodyBytesLeft - bytes.readableBytes)
            framingBytes = max(0, framingBytes - Self.framingPerByte * bytes.readableBytes)
        case .end: isInside = false
        }
    }

    /// Notes the last part of an answer. The refusal of a broken head answers no request.
    mutating func answered() { unansweredCount = max(0, unansweredCount - 1) }
}
