// SPDX-License-Identifier: Apache-2.0
//
// The routes for application servers. Everything but the body is checked on the head (GW-15), cheapest first: the endpoint's
// code, the application server's token, the instance, the other headers. Rests on PushHead and VAPID.

import Martlet
package import MartletGateway

extension WebPushDoor {
    package var routes: [Route] {
        let refusal: @Sendable (GatewayError) -> GatewayAnswer = { PushError($0).answer }
        var routes: [Route] = []
        for (kind, isBound) in [("f", false), ("b", true)] {
            let pattern = "wpush/\(kind)/{endpoint}"
            routes.append(
                Route(
                    "webPush", .post, pattern,
                    access: .judged { [self] in .sender(try sender(of: $0, isBound: isBound)) },
                    keepsCoding: true, bodyBytesMax: Limits.opaqueBytesMax, refusal: refusal
                ) { [self] (call, gateway) in try await push(call, gateway) })
            routes.append(
                Route("webPushProbe", .get, pattern, access: .anyone, refusal: refusal) { _, _ in
                    Self.probe
                })
            routes.append(Self.crossOrigin(pattern, refusal))
        }
        routes.append(
            Route(
                "webPushWithdrawal", .delete, "wpush/m/{message}",
                access: .judged { [self] in .sender(try withdrawer(of: $0)) }, refusal: refusal
            ) { [self] (call, _) in try await withdraw(call) })
        routes.append(Self.crossOrigin("wpush/m/{message}", refusal))
        return routes
    }

    private static func crossOrigin(
        _ pattern: String, _ refusal: @escaping @Sendable (GatewayError) -> GatewayAnswer
    ) -> Route {
        Route("webPushOptions", .options, pattern, access: .anyone, refusal: refusal) { _, _ in
            CrossOrigin.answer
        }
    }

    /// What older UnifiedPush senders look for at an endpoint.
    private static let probe = GatewayAnswer.json(
        .object(["unifiedpush": .object(["version": .integer(1)])]), headers: CrossOrigin.headers)

    // MARK: The head

    private func sender(of call: GatewayCall, isBound: Bool) throws(PushError) -> Caller {
        guard let endpoint = endpoints.endpoint(call["endpoint"], isBound: isBound) else {
            throw .unknown
        }
        let vapid = try VAPID(call)
        if isBound {
            guard let vapid else { throw VAPID.missing }
            guard endpoints.isMade(endpoint, for: vapid.publicKey) else {
                throw VAPID.wrong("is not of the subscription's application server")
            }
        }
        if let vapid {
            try tokens.verify(
                vapid, for: configuration.origins,
                now: Double(broker.now.millisecondsSince1970) / 1000)
        }
        do throws(MartletError) {
            _ = try broker.instance(endpoint.token.text, in: configuration.project)
        } catch {
            throw PushError(error)
        }
        _ = try PushHead(call)
        return Caller(
            projectID: configuration.project, senderID: 0, credential: .endpoint,
            keyID: endpoint.token.text)
    }

    private func withdrawer(of call: GatewayCall) throws(PushError) -> Caller {
        guard endpoints.message(call["message"]) != nil else { throw .unknown }
        return Caller(
            projectID: configuration.project, senderID: 0, credential: .endpoint,
            keyID: call["message"])
    }

    // MARK: The message

    private func push(_ call: GatewayCall, _ gateway: Gateway) async throws -> GatewayAnswer {
        let head = try PushHead(call)
        guard call.body.isEmpty || head.coding != nil else { throw PushHead.noCoding }
        guard let token = call.caller?.keyID else { throw PushError.unknown }
        var message = Message(opaque: call.body)
        if !call.body.isEmpty, !head.options.isEmpty {
            message.webpush = Message.WebPush(options: head.options)
        }
        var outgoing = OutgoingMessage(to: .token(token), message)
        outgoing.timeToLiveSeconds = head.timeToLiveSeconds
        outgoing.priority = head.priority
        outgoing.collapseKey = head.topic
        // Each encryption has its own salt, so an equal body is a repetition (GW-8). Messages without a body are all equal,
        // and each one is meant.
        guard !call.body.isEmpty else { return try await send(outgoing, as: nil, head) }
        let prepared = outgoing
        return try await gateway.retries.answer(call) { [self] attempt in
            try await send(prepared, as: attempt, head)
        }
    }

    private func send(
        _ message: OutgoingMessage, as attempt: SendAttempt?, _ head: PushHead
    ) async throws(PushError) -> GatewayAnswer {
        do throws(MartletError) {
            let receipt = try await broker.send(
                message, as: attempt, in: configuration.project)
            return GatewayAnswer(
                status: 201,
                headers: CrossOrigin.headers + [
                    ("location", endpoints.url(ofMessage: receipt.messageNumber)),
                    ("ttl", String(head.timeToLiveSeconds)),
                ])
        } catch {
            throw PushError(error)
        }
    }

    private func withdraw(_ call: GatewayCall) async throws(PushError) -> GatewayAnswer {
        guard let number = endpoints.message(call["message"]) else { throw .unknown }
        do throws(MartletError) {
            try await broker.cancel(String(number), in: configuration.project)
            return GatewayAnswer(status: 204, headers: CrossOrigin.headers)
        } catch {
            guard error.word == .notFound else { throw PushError(error) }
            throw PushError(404, 102, "No such message is waiting.", isCounted: true)
        }
    }
}
