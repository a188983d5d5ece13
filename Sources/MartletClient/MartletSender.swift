// SPDX-License-Identifier: Apache-2.0
//
// An app server's client: sends messages, changes subscriptions and asks questions. Calls may come from any task,
// any number at a time. A refusal is thrown as `MartletError`. Rests on `RequestClient`.

import MartletBase
import MartletWire

/// MSG-6: the broker's answer to an accepted message.
public struct SendResult: Sendable, Hashable {
    /// Message ID: `projects/PROJECT/messages/NUMBER`; nil if the message was only validated.
    public var messageID: String?
    /// Number in the message ID; 0 if the message was only validated.
    public var messageNumber: UInt64
    /// Instances that the message was accepted for; 0 for a scheduled or deferred message.
    public var recipients: UInt64
    /// QUO-1: instances left out of `recipients` because their device had too many messages.
    public var rateLimited: UInt64
    /// STO-2: recipients for which the broker discarded the message at once, because they have not connected for
    /// more than 30 days.
    public var inactive: UInt64
    /// FAN-1: place among the project's deferred messages; nil if the message is not deferred.
    public var deferredPlace: UInt64?
    /// GRP-5: results for a group's members, or for the tokens among several targets; nil for any other target.
    public var tokens: TokenResults?
}

/// MSG-10: the broker's answer to a cancellation.
public struct CancelResult: Sendable, Hashable {
    /// True if the message had not been sent to any recipient.
    public var wasScheduled: Bool
    /// Instances that had got the message before the cancellation.
    public var delivered: UInt64
}

/// A sender of one project.
public final class MartletSender: Sendable {
    /// ID of the project for which the sender sends.
    public let projectID: String
    let client: RequestClient

    init(projectID: String, client: RequestClient) {
        self.projectID = projectID
        self.client = client
    }

    /// Makes a sender. The first request opens the connection.
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

    /// Makes a sender and connects at once, so that a wrong key is reported at once.
    public static func connect(
        host: String, port: Int = Limits.defaultPort, projectID: String, serverKey: String,
        options: ClientOptions = ClientOptions()
    ) async throws -> MartletSender {
        let sender = MartletSender(
            host: host, port: port, projectID: projectID, serverKey: serverKey, options: options)
        _ = try await sender.connect()
        return sender
    }

    /// Connects unless the connection is open.
    /// - Returns: the broker's WELCOME.
    @discardableResult
    public func connect() async throws -> Welcome { try await client.connect() }

    /// Closes the connection for good. Requests that wait for an answer fail.
    public func close() async { await client.close() }

    // MARK: Messages

    /// Sends a message. When the call returns, the message is on disk, unless its time to live is 0. After
    /// UNAVAILABLE the message may or may not be on disk; with an idempotency key a repeated send does no harm.
    @discardableResult
    public func send(_ outgoing: OutgoingMessage) async throws -> SendResult {
        try await send(encoded: try outgoing.message.encoded(), as: outgoing)
    }

    /// Sends a message with the most common options. See `send(_:)` with an `OutgoingMessage`.
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

    /// Sends a message to the union of the targets; each instance gets the message once. A bad token does not
    /// refuse the message: the result's `tokens` has the failure.
    ///
    /// - Parameter targets: at most 10,000 tokens, and at most 100 topics, conditions and groups.
    @discardableResult
    public func send(_ message: Message, toAll targets: [MessageTarget]) async throws -> SendResult
    {
        try await send(OutgoingMessage(to: .several(targets), message))
    }

    /// MSG-10: withholds a message from every recipient that has not got the message yet.
    ///
    /// - Parameter messageID: the ID from `SendResult`, or only the number.
    /// - Throws: `NOT_FOUND` if there is no such message, or no part of the message is left to cancel.
    @discardableResult
    public func cancel(_ messageID: String) async throws -> CancelResult {
        let number = try MessageID.number(messageID, projectID: projectID)
        let answer = try await client.request { correlation in
            .cancel(CancelRequest(correlation: correlation, messageNumber: number))
        }
        guard case .cancelled(let cancelled) = answer else { throw unexpected(answer) }
        return CancelResult(wasScheduled: cancelled.wasScheduled, delivered: cancelled.delivered)
    }

    /// RCP-1: receipts of the messages sent with `wantsReceipts`, from the oldest receipt that no sender has taken.
    /// Asking for the next receipt marks the previous receipt as taken; receipts not taken come again. Each
    /// iteration has its own connection and connects again after a loss. Two iterations at a time both get all
    /// receipts. An iteration throws an error that another attempt cannot change.
    public var receipts: Receipts { Receipts(projectID: projectID, client: client) }

    /// UPS-1: messages of the project's devices, from the oldest message that no sender has taken. The broker gives
    /// a message to one sender at a time. Asking for the next message marks the previous message as taken. A
    /// message that is not taken when the connection ends, or within 60 seconds, goes to another sender or comes
    /// again. Each iteration has its own connection, connects again after a loss, and remembers at least the last
    /// 1000 numbers to drop repeated messages. An iteration throws an error that another attempt cannot change.
    public var upstreamMessages: UpstreamMessages { UpstreamMessages(client: client) }

    /// Sends an encoded message. Useful for sending equal bytes often.
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

    /// Sends the bytes with the options of `options`, whose own message is ignored.
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

    /// TOP-4: subscribes up to 1000 instances. The result has the refused tokens by index.
    public func subscribe(_ tokens: [String], toTopic topic: String) async throws -> TopicResult {
        try await change(.subscribe, tokens, topic)
    }

    /// TOP-4: unsubscribes up to 1000 instances. The result has the refused tokens by index.
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

    /// REG-3: unregisters an instance. The instance loses its stored messages, leaves every topic and group, and
    /// its connection ends.
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project, `INVALID_ARGUMENT` for a text that
    ///   is not a token.
    public func unregister(_ token: String) async throws {
        let answer = try await client.request { correlation in
            .unregisterToken(UnregisterTokenRequest(correlation: correlation, token: token))
        }
        guard case .done = answer else { throw unexpected(answer) }
    }

    // MARK: Questions

    /// FAN-8: a page of the project's fanouts in progress, followed by the deferred messages. `cursor` is from the
    /// previous page.
    public func fanouts(cursor: String = "", limit: UInt16 = 1000) async throws -> FanoutPage {
        let answer = try await client.request { correlation in
            .question(
                .listFanouts(
                    ListFanoutsRequest(
                        correlation: correlation, projectID: "", cursor: cursor, limit: limit)))
        }
        guard case .fanoutPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// CON-8: counts of the instances that a condition reaches.
    public func audience(of condition: String) async throws -> AudienceResult {
        let answer = try await client.request { correlation in
            .question(
                .condition(
                    ConditionQuestion(
                        kind: .audience, correlation: correlation, condition: condition)))
        }
        guard case .audienceResult(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// CON-9: how the broker understands and evaluates a condition.
    public func explain(_ condition: String) async throws -> Explanation {
        let answer = try await client.request { correlation in
            .question(
                .condition(
                    ConditionQuestion(
                        kind: .explain, correlation: correlation, condition: condition)))
        }
        guard case .explanation(let result) = answer else { throw unexpected(answer) }
        return result
    }

    /// QUO-3, QUO-4: the remaining amounts of the project's quotas, without quotas that are turned off.
    public func quotas() async throws -> [QuotaList.Entry] {
        let answer = try await client.request { correlation in
            .quotas(QuotasRequest(correlation: correlation))
        }
        guard case .quotaList(let list) = answer else { throw unexpected(answer) }
        return list.quotas
    }

    /// TOP-9: a page of the project's topics in order of name, after the name `after`.
    public func topics(after: String = "", limit: UInt16 = 1000) async throws -> TopicPage {
        let answer = try await client.request { correlation in
            .question(
                .listTopics(ListTopicsRequest(correlation: correlation, after: after, limit: limit))
            )
        }
        guard case .topicPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// TOP-9: a page of the tokens of a topic's subscribers. `cursor` is from the previous page.
    public func subscribers(
        ofTopic topic: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let answer = try await client.request { correlation in
            .question(
                .listSubscribers(
                    ListSubscribersRequest(
                        correlation: correlation, topic: topic, cursor: cursor, limit: limit)))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// CON-8: a page of the tokens that a condition selects. `cursor` is from the previous page.
    public func tokens(
        matching condition: String, cursor: String = "", limit: UInt16 = 1000
    ) async throws -> TokenPage {
        let answer = try await client.request { correlation in
            .question(
                .listAudience(
                    ListAudienceRequest(
                        correlation: correlation, condition: condition, cursor: cursor, limit: limit
                    )))
        }
        guard case .tokenPage(let page) = answer else { throw unexpected(answer) }
        return page
    }

    /// TOP-9: a page of the topics of an instance in order of name, after the name `after`.
    public func topics(
        ofToken token: String, after: String = "", limit: UInt16 = 1000
    ) async throws -> TopicPage {
        let answer = try await client.request { correlation in
            .question(
                .listInstanceTopics(
                    ListInstanceTopicsRequest(
                        correlation: correlation, token: token, after: after, limit: limit)))
        }
        guard case .topicPage(let page) = answer else { throw unexpected(answer) }
        return page
    }
}

/// The error for an answer of a frame type that does not fit the request.
func unexpected(_ frame: BrokerFrame) -> MartletError {
    MartletError(.protocolViolation, "The broker answered with an unexpected \(frame.type).")
}
