// SPDX-License-Identifier: Apache-2.0
//
// Turns a request into a call, and the call's answer into a response. A body is read within its limits before any
// other work. Rests on Hummingbird.

import HTTPTypes
import HummingbirdCore
import Martlet
import NIOCore
import Synchronization

/// Answers the requests of a server.
final class Responder: Sendable {
    /// Bytes read from the rest of a refused body, so that a caller still sending can read the answer: 8 MiB.
    private static let drainedBytesMax = 8 << 20

    /// Ends a connection after a refused body.
    private struct EndOfConnection: Error {}

    private enum Body {
        case whole([UInt8])
        case refused(GatewayError)
    }

    private let gateway: Gateway
    private let bodyBytes = Atomic<Int>(0)

    init(_ gateway: Gateway) { self.gateway = gateway }

    func respond(
        to request: HummingbirdCore.Request, _ writer: consuming ResponseWriter,
        on channel: any Channel
    ) async throws {
        if request.headers[.expect]?.lowercased() == "100-continue",
            declaredBytes(request) ?? 0 <= gateway.configuration.bodyBytesMax
        {
            try await writer.writeInformationalHead(HTTPResponse(status: .continue))
        }
        var held = 0
        defer { bodyBytes.subtract(held, ordering: .relaxed) }
        switch try await read(request, &held) {
        case .whole(let body):
            let delivery = request.method == .post ? try await delivery(on: channel) : nil
            let answer = await answer(
                request, body, delivery, from: channel.remoteAddress?.ipAddress)
            try await Self.write(answer, writer, isHeadOnly: request.method == .head)
        case .refused(let error):
            var answer = error.envelope
            // An HTTP/2 stream must not send `connection`, and ends by itself.
            if !channel.isStream { answer.headers.append(("connection", "close")) }
            gateway.metrics.answered("none", status: answer.status, after: .zero)
            try await Self.write(answer, writer)
            try await drain(request)
            throw EndOfConnection()
        }
    }

    /// GW-8: begins the delivery of the channel's next answer.
    private func delivery(on channel: any Channel) async throws -> AnswerDelivery {
        try await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(
                type: AnswerWatchHandler.self)
            return handler.watch(channel)
        }.get()
    }

    private func answer(
        _ request: HummingbirdCore.Request, _ body: [UInt8], _ delivery: AnswerDelivery?,
        from peer: String?
    ) async -> GatewayAnswer {
        // HEAD is answered like GET. Source: RFC 9110 §9.3.2.
        let asked = request.method == .head ? .get : request.method
        guard let method = GatewayCall.Method(rawValue: asked.rawValue) else {
            return GatewayError(
                .unimplemented, "\(request.method.rawValue) is not served.", httpStatus: 405
            ).envelope
        }
        var headers = request.headers.map { (name: $0.name.canonicalName, value: $0.value) }
        if let authority = request.head.authority { headers.append(("host", authority)) }
        guard
            var call = GatewayCall(
                method, target: request.head.path ?? "/", headers: headers, body: body)
        else {
            return GatewayError(
                .invalidArgument, "The path or query has a broken escape.", violations: []
            ).envelope
        }
        call.delivery = delivery
        call.peer = peer
        return await gateway.answer(call)
    }

    // MARK: Bodies

    private func declaredBytes(_ request: HummingbirdCore.Request) -> Int? {
        request.headers[.contentLength].flatMap { Int($0) }
    }

    /// Reads a body within the bounds on one body and on all bodies.
    /// - Parameter held: bytes that the request holds of the memory for all bodies.
    private func read(_ request: HummingbirdCore.Request, _ held: inout Int) async throws -> Body {
        let most = gateway.configuration.bodyBytesMax
        let tooLong = GatewayError(
            .invalidArgument, "A request has at most \(most) bytes.", violations: [],
            httpStatus: 413)
        let declared = declaredBytes(request)
        guard declared ?? 0 <= most else { return .refused(tooLong) }
        guard hold(declared ?? 0, &held) else { return .refused(Gateway.full) }
        var body: [UInt8] = []
        body.reserveCapacity(declared ?? 0)
        for try await part in request.body {
            let count = body.count + part.readableBytes
            guard count <= most else { return .refused(tooLong) }
            guard hold(count - held, &held) else { return .refused(Gateway.full) }
            body.append(contentsOf: part.readableBytesView)
        }
        return .whole(body)
    }

    private func hold(_ count: Int, _ held: inout Int) -> Bool {
        guard count > 0 else { return true }
        let all = bodyBytes.add(count, ordering: .relaxed).newValue
        held += count
        return all <= gateway.configuration.bodyMegabytesMax << 20
    }

    /// Reads and drops the rest of a refused body, within the time limit of a request.
    private func drain(_ request: HummingbirdCore.Request) async throws {
        var count = 0
        for try await part in request.body {
            count += part.readableBytes
            if count > Self.drainedBytesMax { return }
        }
    }

    private static func write(
        _ answer: GatewayAnswer, _ writer: consuming ResponseWriter, isHeadOnly: Bool = false
    ) async throws {
        var fields = HTTPFields()
        for header in answer.headers {
            if let name = HTTPField.Name(header.name) {
                fields.append(HTTPField(name: name, value: header.value))
            }
        }
        fields[.contentLength] = String(answer.body.count)
        try await writer.write(
            response: HTTPResponse(
                status: HTTPResponse.Status(code: answer.status), headerFields: fields),
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: isHeadOnly ? [] : answer.body)))
    }
}
