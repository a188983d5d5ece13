// SPDX-License-Identifier: Apache-2.0
//
// Keeps an HTTP/2 connection when one of its streams is broken (GW-1). A malformed request is an error of its stream, and
// other requests of the connection are answered. NIO resets the stream with PROTOCOL_ERROR, tells the connection of the error
// as well, and ends a connection with very many of them; Hummingbird would end it at the first one. An error of the connection
// differs by the GOAWAY that NIO writes before it reports the error. Source: RFC 9113, sections 5.4 and 8.1.1. Rests on
// PeerBytesHandler and NIO.

import NIOCore
import NIOHTTP2

/// Stops errors of streams before they end the connection.
final class StreamErrorHandler: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame

    private let bytes: PeerBytesHandler

    init(_ bytes: PeerBytesHandler) { self.bytes = bytes }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        // NIO could not write what the connection needs: after a GOAWAY of ours, another one.
        case is NIOHTTP2Errors.RaisedGoawayLastStreamID, is NIOHTTP2Errors.UnableToSerializeFrame:
            context.fireErrorCaught(error)
        case is any NIOHTTP2Error where !bytes.hasToldError: return
        default: context.fireErrorCaught(error)
        }
    }
}

@available(*, unavailable)
extension StreamErrorHandler: Sendable {}
