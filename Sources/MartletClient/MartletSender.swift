// SPDX-License-Identifier: Apache-2.0
//
// An app server's side of Martlet: send, change subscriptions, ask. Every call may be made from any
// task, as many at a time as one likes; refusals are thrown as `MartletError`. Rests on
// `RequestClient`.

import MartletBase
import MartletWire

/// MSG-6: what the broker said to a message that it accepted.
public struct SendResult: Sendable, Hashable {
    /// `projects/PROJECT/messages/NUMBER`; nil if the message was only validated.
    public var messageID: String?
    /// The stream ID under which devices get it; 0 if the message was only validated.
    public var messageNumber: UInt64
    /// Instances that it was accepted for; 0 for a message that is scheduled, or deferred.
    public var recipients: UInt64
    /// QUO-1: instances that are not among them, because their device had too many messages.
    public var rateLimited: UInt64
    /// STO-2: those of the recipients for which it was discarded at once, because they have not
    /// connected for more than 30 days.
    public var inactive: UInt64
    /// FAN-1: its place among the project's messages that wait until others have ended; nil: it does
    /// not.
    public var deferredPlace: UInt64?
    /// GRP-5: what became of a group's members, or of the tokens among several targets; nil for any
    /// other target.
    public var tokens: TokenResults?
}

/// MSG-10: what became of a message that was cancelled.
public struct CancelResult: Sendable, Hashable {
    /// Nobody had been sent it yet.
    public var wasScheduled: Bool
    /// Instances that have it already.
    public var delivered: UInt64
}

/// A sender of one project.
public final class MartletSender: Sendable {
    public let projectID: String
    let client: RequestClient

    init(projectID: String, client: RequestClient) {
        self.projectID = projectID
        self.client = client
    }

    /// Makes a sender that connects with its first request.
    public convenience init(
        host: String, port: Int = Limits.defaultPort, projectID: String, serverKey: String,
        options: ClientOptions = ClientOptions()
    ) {
        self.init(
            projectID: projectID,
            client: options.client(
                host: host, port: port,
                hello: .sender(projectID: projectID, serverKey: serverKey)))
    }

    /// Makes a sender and connects it, so that a wrong key is known at once.
    public static func connect(
        host: String, port: Int = Limits.defaultPort, projectID: String, serverKey: String,
        options: ClientOptions = ClientOptions()
    ) async throws -> MartletSender {
        let sender = MartletSender(
            host: host, port: port, projectID: projectID, serverKey: serverKey, options: options)
        _ = try await sender.connect()
        return sender
    }

    /// Connects if it is not connected, and tells what the broker said.
    @discardableResult
    public func connect() async throws -> Welcome { try await client.connect() }

    /// Closes for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }

    // MARK: Messages

    /// Sends a message. When this returns, the message is on disk. After an UNAVAILABLE whether it is,
    /// is unknown: with an idempotency key it may be sent again without harm.
    @discardableResult
    public func send(_ outgoing: OutgoingMessage) async throws -> SendResult {
        try await send(encoded: try outgoing.message.encoded(), as: outgoing)
    }

    @discardableResult
    public func send(
        _ message: Message, to target: MessageTarget, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, validateOnly: Bool = false
    ) async throws -> SendResult {
        try await send(
            OutgoingMessage(
                to: target, message, timeToLiveSeconds: timeToLiveSeconds, priority: priority,
                validateOnly: validateOnly))
    }

    /// One message to the instances that any of the targets means, each once. A token that is not good
    /// does not refuse the message: it is in the result's `tokens`.
    ///
    /// - Parameter targets: at most 10,000 tokens and 100 topics, conditions and groups.
    @discardableResult
    public func send(_ message: Message, toAll targets: [MessageTarget]) async throws -> SendResult
    {
        try await send(OutgoingMessage(to: .several(targets), message))
    }

    /// MSG-10: whoever has not got the message does not get it. NOT_FOUND if there is no such message,
    /// or nothing of it is left to cancel.
    ///
    /// - Parameter messageID: as `SendResult` has it, or its number alone.
    @discardableResult
    public func cancel(_ messageID: String) async throws -> CancelResult {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .cancel(CancelRequest(correlation: correlation, messageNumber: number))
        }
        guard case .cancelled(let cancelled) = answer else { throw unexpected(answer) }
        return CancelResult(wasScheduled: cancelled.wasScheduled, delivered: cancelled.delivered)
    }

    /// RCP-1: what became of messages that were sent with `wantsReceipts`, from the oldest that no sender
    /// has taken. A receipt is taken when the next one is asked for; what is not taken comes again.
    /// Each iteration has a connection of its own and connects again after a loss; it throws where trying
    /// again cannot help. Two that iterate at a time both get everything.
    public var receipts: Receipts { Receipts(projectID: projectID, client: client) }

    /// UPS-1: what devices of the project send, from the oldest that no sender has taken. The
    /// broker gives each to one sender at a time. A message is taken when the next one is asked
    /// for; what is not taken when the connection ends, or within 60 seconds, goes to another
    /// sender or comes again. Each iteration has a connection of its own and connects again after a
    /// loss; it gives nothing twice of what it remembers, the last 1000 numbers. It throws where
    /// trying again cannot help.
    public var upstreamMessages: UpstreamMessages { UpstreamMessages(client: client) }

    /// Sends a message that is encoded already, as one does who sends the same one often.
    @discardableResult
    public func send(
        encoded message: [UInt8], to target: MessageTarget, timeToLiveSeconds: UInt32? = nil,
        priority: MessagePriority? = nil, validateOnly: Bool = false
    ) async throws -> SendResult {
        try await send(
            encoded: message,
            as: OutgoingMessage(
                to: target, Message(), timeToLiveSeconds: timeToLiveSeconds, priority: priority,
                validateOnly: validateOnly))
    }

    /// Sends the bytes as the options say, whose own message does not count.
    @discardableResult
    public func send(
        encoded message: [UInt8], as options: OutgoingMessage
    ) async throws -> SendResult {
        let request = try options.request(
            correlation: 1, message: message, projectID: projectID)
        let answer = try await client.request { correlation in
            var request = request
            request.correlation = correlation
            return .send(request)
        }
        let accepted: Accepted
        var tokens: TokenResults?
        switch answer {
        case .accepted(let plain): accepted = plain
        case .groupAccepted(let group):
            accepted = group.accepted
            tokens = TokenResults(group)
        case .multicastResult(let multicast):
            accepted = multicast.accepted
            tokens = TokenResults(multicast, of: options.target)
        default: throw unexpected(answer)
        }
        let number = accepted.messageNumber
        return SendResult(
            messageID: number == 0 ? nil : "projects/\(projectID)/messages/\(number)",
            messageNumber: number, recipients: accepted.recipients,
            rateLimited: accepted.rateLimited, inactive: accepted.inactive,
            deferredPlace: accepted.deferredPlace == 0 ? nil : accepted.deferredPlace,
            tokens: tokens)
    }

    // MARK: Topics

    /// TOP-4: subscribes up to 1000 instances. Refused tokens are in the result, by their index.
    public func subscribe(_ tokens: [String], toTopic topic: String) async throws -> TopicResult {
        try await change(.subscribe, tokens, topic)
    }

    /// TOP-4: unsubscribes up to 1000 instances.
    public func unsubscribe(
        _ tokens: [String], fromTopic topic: String
    ) async throws -> TopicResult {
        try await change(.unsubscribe, tokens, topic)
    }

    private func change(
        _ operation: TopicOperation, _ tokens: [String], _ topic: String
    ) async throws -> TopicResult {
        let answer = try await client.request { correlation in
            .changeTopic(
                ChangeTopicRequest(
                    correlation: correlation, operation: operation, topic: topic, tokens: tokens))
        }
        guard case .topicResult(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// REG-3: unregisters an instance. What is stored for it goes, it leaves every topic and group, and
    /// its connection ends.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project, `INVALID_ARGUMENT` for
    ///   a text that is no token.
    public func unregister(_ token: String) async throws {
        let answer = try await client.request { correlation in
            .unregisterToken(UnregisterTokenRequest(correlation: correlation, token: token))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    // MARK: Questions

    /// FAN-8: a page of the project's messages on their way to many instances, and behind them of those
    /// that wait; the cursor is from the page before.
    public func fanouts(cursor: String = "", limit: UInt16 = 1000) async throws -> FanoutPage {
        let answer = try await client.request { correlation in
            .listFanouts(
                ListFanoutsRequest(
                    correlation: correlation, projectID: "", cursor: cursor, limit: limit))
        }
        guard case .fanoutPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// CON-8: how many instances a condition reaches.
    public func audience(of condition: String) async throws -> AudienceResult {
        let answer = try await client.request { correlation in
            .condition(
                ConditionQuestion(kind: .audience, correlation: correlation, condition: condition))
        }
        guard case .audienceResult(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// CON-9: how a condition is understood.
    public func explain(_ condition: String) async throws -> Explanation {
        let answer = try await client.request { correlation in
            .condition(
                ConditionQuestion(kind: .explain, correlation: correlation, condition: condition))
        }
        guard case .explanation(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// QUO-3, QUO-4: what is left of each of the project's quotas that is not turned off.
    public func quotas() async throws -> [QuotaList.Entry] {
        let answer = try await client.request { correlation in
            .quotas(QuotasRequest(correlation: correlation))
        }
        guard case .quotaList(let list) = answer else { throw unexpected(answer) }
        return list.quotas
    }

    /// TOP-9: a page of the project's topics, after a name.
    public func topics(after: String = "", limit: UInt16 = 1000) async throws -> TopicPage {
        let answer = try await client.request { correlation in
            .listTopics(ListTopicsRequest(correlation: correlation, after: after, limit: limit))
        }
        guard case .topicPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// TOP-9: a page of a topic's subscribers; the cursor is from the page before.
    public func subscribers(
        ofTopic topic: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let answer = try await client.request { correlation in
            .listSubscribers(
                ListSubscribersRequest(
                    correlation: correlation, topic: topic, cursor: cursor, limit: limit))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// CON-8: a page of the tokens that a condition selects; the cursor is from the page before.
    public func tokens(
        matching condition: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let answer = try await client.request { correlation in
            .listAudience(
                ListAudienceRequest(
                    correlation: correlation, condition: condition, cursor: cursor, limit: limit))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// TOP-9: a page of the topics of one instance.
    public func topics(
        ofToken token: String, after: String = "", limit: UInt16 = 1000
    ) async throws -> TopicPage {
        let answer = try await client.request { correlation in
            .listInstanceTopics(
                ListInstanceTopicsRequest(
                    correlation: correlation, token: token, after: after, limit: limit))
        }
        guard case .topicPage(let page) = answer else { throw unexpected(answer) }
        return page
    }
}

/// An answer that does not belong to the request it names.
func unexpected(_ frame: BrokerFrame) -> MartletError {
    MartletError(.protocolViolation, "The broker answered with an unexpected \(frame.type).")
}
