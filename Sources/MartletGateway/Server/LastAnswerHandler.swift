// SPDX-License-Identifier: Apache-2.0
//
// Says `Connection: close` in the last answer of an HTTP/1.1 connection. A proxy with a pool of connections takes every
// other answer as a promise: it keeps the connection, sends its next request there, and turns our close into a 502.
//
// An answer is the last one if the request wants that (`Connection: close`, or HTTP/1.0), if the answer says so itself
// (a refused body), if the server stops, if the request did not come in time, which is answered with 408, or if its head
// is refused (RequestHeadRule). So is the answer to a request that offers another protocol, as Java's client does by
// default (`Upgrade: h2c`): the parser reads no further request behind one. Requests behind the last one are dropped,
// and their senders may repeat them. The connection closes when the answer is written and its request is read to the
// end.
//
// The handler stands below HTTPTypes, whose requests have no version. Source: RFC 9112, section 9.6. Rests on
// RequestHeadRule and NIO.

import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1

/// Ends an HTTP/1.1 connection with an answer that says so.
final class LastAnswerHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// How long the connection of a refused head stays open, so that a client that still sends can read the answer.
    private static let farewell = TimeAmount.seconds(2)

    /// The value of `Date`.
    private let date: () -> String
    private var context: ChannelHandlerContext?
    /// Requests without a whole answer.
    private var unansweredCount = 0
    /// Between the head and the end of a request.
    private var isReading = false
    /// Between the head and the end of an answer.
    private var isAnswering = false
    /// No further request is taken.
    private var isLast = false
    private var isLastWritten = false
    /// A request or its connection is broken. Hummingbird answers, where it can, and ends the connection.
    private var isBroken = false
    /// The status for a refused head, until the answers before it are written.
    private var refusal: HTTPResponseStatus?
    /// Between the head and the end of an answer that nobody asked for.
    private var isSurplus = false

    private init(date: @escaping () -> String) { self.date = date }

    /// Adds a handler to a connection that speaks HTTP/1.1.
    /// - Parameter date: the value of `Date` in answers that no handler above has made.
    static func add(
        to pipeline: ChannelPipeline.SynchronousOperations, date: @escaping () -> String
    ) throws {
        let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
        try pipeline.addHandler(LastAnswerHandler(date: date), position: .before(codec))
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            guard !isLast else { return }
            if let status = RequestHeadRule.refusal(of: head) {
                isLast = true
                refusal = status
                return refuse()
            }
            unansweredCount += 1
            isReading = true
            isLast = !head.isKeepAlive || Self.offersProtocol(head)
            context.fireChannelRead(data)
        case .body:
            if isReading { context.fireChannelRead(data) }
        case .end:
            guard isReading else { return }
            isReading = false
            context.fireChannelRead(data)
            closeIfDone()
        }
    }

    private static func offersProtocol(_ head: HTTPRequestHead) -> Bool {
        head.headers.contains(name: "upgrade")
            && head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "upgrade" }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isBroken = true
        context.fireErrorCaught(error)
    }

    /// Ends the connection at a graceful shutdown, after the answers that are due. Handlers behind this one would close a
    /// connection before the last bytes of an answer are written.
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event is ChannelShouldQuiesceEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        isLast = true
        guard unansweredCount == 0 else { return }
        isLastWritten = true
        // The rest of a broken request never comes.
        if isBroken { context.close(promise: nil) } else { closeIfDone() }
    }

    /// Ends the connection because a request did not come whole in time.
    func requestIsLate() {
        guard let context else { return }
        let isUnanswered = unansweredCount == (isReading ? 1 : 0)
        if isUnanswered, !isAnswering, !isBroken {
            answer(.requestTimeout, context)
        }
        // What comes until the end has come must not be carried out.
        isLast = true
        isReading = false
        context.close(promise: nil)
    }

    /// Answers a refused head when all earlier requests are answered. The rest of the request is dropped.
    private func refuse() {
        guard let status = refusal, unansweredCount == 0, let context else { return }
        refusal = nil
        answer(status, context)
        let channel = context.channel
        context.eventLoop.scheduleTask(in: Self.farewell) { channel.close(promise: nil) }
    }

    // MARK: Answers

    /// Writes a last answer that no handler above has made.
    private func answer(_ status: HTTPResponseStatus, _ context: ChannelHandlerContext) {
        let head = HTTPResponseHead(
            version: .http1_1, status: status,
            headers: ["Connection": "close", "Content-Length": "0", "Date": date()])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func write(
        context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
    ) {
        let part = unwrapOutboundIn(data)
        // A body broke after its request was answered or refused, and Hummingbird answers the break as a request of its own.
        if case .head = part {
            isSurplus = unansweredCount == 0 && (isLast || isBroken && isReading)
        }
        guard !isSurplus else {
            promise?.succeed()
            return
        }
        switch part {
        case .head(let head) where head.status.code < 200:
            context.write(data, promise: promise)
        case .head(var head):
            isAnswering = true
            if head.headers[canonicalForm: "connection"].contains("close") { isLast = true }
            if isLast, unansweredCount <= 1, refusal == nil {
                // An answer of 426 has `Connection: Upgrade` too.
                if head.status != .upgradeRequired { head.headers.remove(name: "Connection") }
                head.headers.add(name: "Connection", value: "close")
            }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body: context.write(data, promise: promise)
        case .end:
            isAnswering = false
            unansweredCount = max(0, unansweredCount - 1)
            guard isLast, unansweredCount == 0, refusal == nil else {
                context.write(data, promise: promise)
                return refuse()
            }
            let written = promise ?? context.eventLoop.makePromise()
            written.futureResult.assumeIsolated().whenComplete { _ in
                self.isLastWritten = true
                self.closeIfDone()
            }
            context.write(data, promise: written)
        }
    }

    private func closeIfDone() {
        if isLastWritten, !isReading, !isBroken { context?.close(promise: nil) }
    }
}

@available(*, unavailable)
extension LastAnswerHandler: Sendable {}
