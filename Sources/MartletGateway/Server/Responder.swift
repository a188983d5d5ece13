// SPDX-License-Identifier: Apache-2.0
//
// Turns a request into a call, and the call's answer into a response. The head is judged first (GW-15): of a refused
// request no byte of the body is kept. The body of an admitted request is then read within its limits. Bytes count when
// they come, so a request that only announces a body costs nothing. Rests on Hummingbird.

import HTTPTypes
import HummingbirdCore
import Martlet
import NIOCore
import ServiceLifecycle

/// Answers the requests of a server.
final class Responder: Sendable {
    /// Bytes read from the rest of a refused body, so that a caller still sending can read the answer: 8 MiB.
    private static let drainedBytesMax = 8 << 20

    /// Ends a connection after a refused body.
    private struct EndOfConnection: Error {}

    /// What a body holds of its memory.
    private enum Part {
        /// GW-15: of the memory of strangers.
        case stranger(StrangerMemory.Part)
        case caller(BodyMemory.Part)

        func take(_ byteCount: Int) -> Bool {
            guard byteCount > 0 else { return true }
            return switch self {
            case .stranger(let part): part.take(byteCount)
            case .caller(let part): part.take(byteCount)
            }
        }

        func giveBack() {
            switch self {
            case .stranger(let part): part.giveBack()
            case .caller(let part): part.giveBack()
            }
        }
    }

    private enum Body {
        case whole([UInt8])
        case refused(GatewayError)
    }

    /// The parts of a body that have not been read. A body has a single iterator: a second one is an error of the
    /// program, and has no parts.
    private typealias Parts = RequestBody.AsyncIterator

    private let gateway: Gateway
    /// Bodies of callers with a credential, by project. A project has half, so that others always have the other half.
    private let bodies: BodyMemory

    init(_ gateway: Gateway) {
        self.gateway = gateway
        let bytesMax = gateway.configuration.bodyMegabytesMax << 20
        // A single body of the greatest length must fit.
        let ownerMax = max(bytesMax / 2, min(gateway.configuration.bodyBytesMax, bytesMax))
        bodies = BodyMemory(totalMax: bytesMax, ownerMax: ownerMax)
    }

    func respond(
        to request: HummingbirdCore.Request, _ writer: consuming ResponseWriter,
        on channel: any Channel
    ) async throws {
        let isHeadOnly = request.method == .head
        let expectsContinue = request.headers[.expect]?.lowercased() == "100-continue"
        var parts = request.body.makeAsyncIterator()
        let admitted: Gateway.Admitted
        switch await admit(request, on: channel) {
        case .admitted(let call): admitted = call
        case .refused(let answer):
            // A body of ordinary length is passed over first, so that the connection can be used again.
            if !expectsContinue, request.headers[.transferEncoding] == nil,
                declaredBytes(request) ?? 0 <= gateway.configuration.bodyBytesMax
            {
                try await Self.drain(&parts)
                try await Self.write(answer, writer, isHeadOnly: isHeadOnly)
                return
            }
            return try await refuse(answer, &parts, writer, on: channel)
        case .turnedAway(let answer):
            // The caller's next connection may be to another node. An HTTP/2 connection gets GOAWAY, and ends after its
            // other streams.
            channel.parent?.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
            return try await refuse(answer, &parts, writer, on: channel)
        }
        let most =
            admitted.owner == nil
            ? min(Limits.httpStrangerBodyBytesMax, gateway.configuration.bodyBytesMax)
            : min(admitted.route.bodyBytesMax, gateway.configuration.bodyBytesMax)
        if expectsContinue, declaredBytes(request) ?? 0 <= most {
            try await writer.writeInformationalHead(HTTPResponse(status: .continue))
        }
        let part =
            admitted.owner.map { .caller(bodies.begin($0)) } ?? part(of: admitted.call, on: channel)
        defer { part.giveBack() }
        let body =
            try await declaredBytes(request) ?? 0 <= most
            ? read(&parts, most, part) : .refused(Gateway.tooLong(most))
        switch body {
        case .whole(let body):
            var call = admitted
            call.call.delivery = request.method == .post ? try await delivery(on: channel) : nil
            let answer =
                switch await gateway.content(
                    of: body, of: admitted, most: most, hold: { part.take($0) })
                {
                case .success(let content): await gateway.answer(call, body: content)
                case .failure(let error): admitted.route.refusal(error)
                }
            try await Self.write(answer, writer, isHeadOnly: isHeadOnly)
        case .refused(let error):
            let refusal = admitted.route.refusal(error)
            gateway.metrics.answered("none", status: refusal.status, after: .zero)
            gateway.count(error, of: admitted.call)
            // The rest of the body is not kept.
            part.giveBack()
            try await refuse(refusal, &parts, writer, on: channel)
        }
    }

    /// GW-15: begins the part of a body in the memory of strangers.
    private func part(of call: GatewayCall, on channel: any Channel) -> Part {
        let address = call.peer.flatMap { PeerAddress($0) } ?? .loopback
        return .stranger(gateway.strangers.begin(address) { channel.close(promise: nil) })
    }

    /// Answers before the body has come, and ends the connection.
    private func refuse(
        _ answer: GatewayAnswer, _ parts: inout Parts, _ writer: consuming ResponseWriter,
        on channel: any Channel
    ) async throws {
        var answer = answer
        // An HTTP/2 stream must not send `connection`, and ends by itself.
        if !channel.isStream { answer.headers.append(("connection", "close")) }
        try await Self.write(answer, writer)
        try await Self.drain(&parts)
        throw EndOfConnection()
    }

    /// GW-8: begins the delivery of the channel's next answer.
    private func delivery(on channel: any Channel) async throws -> AnswerDelivery {
        try await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(
                type: AnswerWatchHandler.self)
            return handler.watch(channel)
        }.get()
    }

    private func admit(
        _ request: HummingbirdCore.Request, on channel: any Channel
    ) async -> Gateway.Admission {
        // HEAD is answered like GET. Source: RFC 9110 §9.3.2.
        let asked = request.method == .head ? .get : request.method
        let method = GatewayCall.Method(rawValue: asked.rawValue)
        var headers = request.headers.map { (name: $0.name.canonicalName, value: $0.value) }
        if let authority = request.head.authority { headers.append(("host", authority)) }
        let address = channel.remoteAddress?.ipAddress
        let fault = RequestHeadRule.fault(
            in: request.head, isStream: channel.isStream,
            isProxy: address.flatMap { PeerAddress($0) }.map(gateway.broker.isProxy) ?? false)
        if let fault { return Self.malformed(fault) }
        if asked == .options, request.head.path == "*" { return .refused(gateway.methods) }
        guard
            var call = GatewayCall(
                method ?? .get, target: request.head.path ?? "/", headers: headers)
        else {
            return Self.malformed(
                "The path or query has a broken escape, or the path escapes a letter or digit.")
        }
        guard method != nil else { return .refused(gateway.unserved(at: call.path)) }
        call.peer = gateway.client(of: call.headers, from: address)
        if let answer = otherWebSocket(request.head, call, on: channel) { return .refused(answer) }
        return await gateway.admit(call)
    }

    private static func malformed(_ sentence: String) -> Gateway.Admission {
        .refused(GatewayError(.invalidArgument, sentence, violations: []).envelope)
    }

    /// GW-13: refuses a request for a WebSocket that WebSocketUpgradeHandler has not taken: of another version, or with a
    /// broken key. Source: RFC 6455, section 4.2.2.
    /// - Returns: nil for any other request.
    private func otherWebSocket(
        _ head: HTTPRequest, _ call: GatewayCall, on channel: any Channel
    ) -> GatewayAnswer? {
        guard !channel.isStream, WebSocketUpgradeHandler.isUpgrade(head),
            gateway.doors.contains(where: { $0.webSocket(for: call) != nil })
        else { return nil }
        let isKnownVersion = WebSocketUpgradeHandler.hasKnownVersion(head)
        var answer = GatewayError(
            .invalidArgument,
            isKnownVersion
                ? "The request for a WebSocket has no key of 16 bytes."
                : "A WebSocket of version 13 is served here.",
            violations: [], httpStatus: isKnownVersion ? 400 : 426
        ).envelope
        answer.headers += [
            ("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-version", "13"),
        ]
        return answer
    }

    // MARK: Bodies

    private func declaredBytes(_ request: HummingbirdCore.Request) -> Int? {
        request.headers[.contentLength].flatMap { Int($0) }
    }

    /// Reads a body within the bounds on one body and on all bodies.
    private func read(
        _ parts: inout Parts, _ most: Int, _ held: Part
    ) async throws -> Body {
        var body: [UInt8] = []
        while let part = try await parts.next() {
            let count = part.readableBytes
            guard body.count + count <= most else { return .refused(Gateway.tooLong(most)) }
            guard held.take(count) else { return .refused(Gateway.full) }
            body.append(contentsOf: part.readableBytesView)
        }
        return .whole(body)
    }

    /// Reads and drops the rest of a refused body, within the time limit of a request.
    private static func drain(_ parts: inout Parts) async throws {
        var count = 0
        while let part = try await parts.next() {
            count += part.readableBytes
            if count > drainedBytesMax { return }
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
        let body: ResponseBody
        if let stream = answer.stream {
            body = isHeadOnly ? ResponseBody() : Self.body(of: stream)
        } else {
            // RFC 9110, section 8.6: an answer of status 204 has no length.
            if answer.status != 204 { fields[.contentLength] = String(answer.body.count) }
            body = ResponseBody(byteBuffer: ByteBuffer(bytes: isHeadOnly ? [] : answer.body))
        }
        try await writer.write(
            response: HTTPResponse(
                status: HTTPResponse.Status(code: answer.status), headerFields: fields),
            body: body)
    }

    /// A body that ends with its stream, and at a graceful shutdown of the server. A part is taken from the stream when
    /// the connection has room for it.
    private static func body(of stream: AsyncStream<[UInt8]>) -> ResponseBody {
        ResponseBody { writer in
            for await part in stream.cancelOnGracefulShutdown() {
                try await writer.write(ByteBuffer(bytes: part))
            }
            try await writer.finish(nil)
        }
    }
}
