// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions, sends, and questions about subscriptions and messages. Rests on Broker.

import MartletEngine
import MartletRows

extension Broker {
    // MARK: Topics

    /// Subscribes up to 1000 tokens to a topic (TOP-4). The first subscription creates the topic.
    /// - Returns: the number of successes, and the error of each failed token.
    /// - Throws: `INVALID_ARGUMENT` for a bad name or count; `NOT_FOUND` for the project; `RESOURCE_EXHAUSTED`
    ///   with a retry delay if the project's subscriptions change too often (TOP-6). A refused request changes
    ///   no subscription.
    public func subscribe(
        _ tokens: [String], to topic: String, in project: String
    ) async throws(MartletError) -> TopicChangeSummary {
        try await change(.subscribe, tokens, topic, project)
    }

    /// Unsubscribes up to 1000 tokens from a topic. A token without the subscription counts as a success
    /// (TOP-7).
    /// - Returns: the number of successes, and the error of each failed token.
    /// - Throws: the errors of `subscribe(_:to:in:)`.
    public func unsubscribe(
        _ tokens: [String], from topic: String, in project: String
    ) async throws(MartletError) -> TopicChangeSummary {
        try await change(.unsubscribe, tokens, topic, project)
    }

    private func change(
        _ operation: TopicOperation, _ tokens: [String], _ topic: String, _ project: String
    ) async throws(MartletError) -> TopicChangeSummary {
        let number = try number(of: project)
        let outcome = try await perform(
            .changeTopic(project: number, topic: topic, change: operation, tokens: tokens))
        guard case .topicsChanged(let result) = outcome else { throw .unexpected }
        return TopicChangeSummary(
            successCount: result.successCount,
            failures: result.failures.map { .init(index: $0.index, word: $0.word) })
    }

    /// Topics of a project with the number of subscribers, in the order of the names (TOP-9).
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT` for the limit.
    public func topics(
        in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<TopicSummary> {
        let number = try number(of: project)
        return ListPage(
            try ask { try Listing.topics(in: number, after: after, limit: limit, $0) })
    }

    /// Topics to which an instance is subscribed, in the order of the names (TOP-9).
    /// - Throws: `NOT_FOUND` for the project, and for a token that is not registered in the project;
    ///   `INVALID_ARGUMENT` for text that is no token, and for a limit outside 1 to 1000.
    public func topics(
        of token: String, in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<TopicSummary> {
        let number = try number(of: project)
        return ListPage(
            try ask {
                try Listing.topics(
                    of: try Listing.locate(token, in: number, $0), in: number, after: after,
                    limit: limit, $0)
            })
    }

    /// Tokens of a topic's subscribers, in pages (TOP-9). `topics(in:after:limit:)` has the number of
    /// subscribers. The list of a topic without subscribers is empty.
    /// - Parameter after: the `next` of the page before.
    /// - Throws: `NOT_FOUND` for the project; `INVALID_ARGUMENT` for the name, the cursor, and a limit outside 1 to
    ///   1000.
    public func subscribers(
        of topic: String, in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<String> {
        let number = try number(of: project)
        let name = try TopicName(validating: topic)
        let start = try Ordinal(cursor: after)
        return ListPage(
            try ask {
                try Listing.subscribers(of: name, in: number, from: start, limit: limit, $0)
            })
    }

    // MARK: Sending

    /// Accepts a message (MSG-6). On return the message is on disk, and on its way to connected recipients. A
    /// message with a time to live of 0 is only on its way (TTL-2). A message with `sendAt` waits for the given
    /// instant (MSG-10). If a message comes again with the same `idempotencyKey` within 24 hours, the broker
    /// does not send the message twice and returns the first answer (MSG-9).
    /// - Throws: `INVALID_ARGUMENT` naming the field (such as `message.android.ttl`); `UNREGISTERED`;
    ///   `SENDER_ID_MISMATCH`; `NOT_FOUND` for the project; `QUOTA_EXCEEDED` with a retry delay for a token
    ///   whose device had too many messages (QUO-1); `RESOURCE_EXHAUSTED` for too many scheduled messages, and
    ///   with a retry delay for too many fanouts in progress and deferred (FAN-1); `UNAVAILABLE` with a retry
    ///   delay.
    public func send(
        _ message: OutgoingMessage, in project: String
    ) async throws(MartletError) -> SendReceipt {
        try await send(message, as: nil, in: project)
    }

    /// GW-8: sends a message for an attempt of the gateway. A message repeated with the same attempt is not
    /// sent twice. A now-or-never message (TTL-2) is the exception, because the broker keeps no record of such
    /// a message.
    /// - Parameter attempt: the identity of the attempt, in place of an idempotency key.
    package func send(
        _ message: OutgoingMessage, as attempt: SendAttempt?, in project: String
    ) async throws(MartletError) -> SendReceipt {
        let number = try number(of: project)
        let request = try message.request(
            correlation: 1, message: try message.message.encoded(), projectID: project)
        var command = try SendCommand(request)
        command.attempt = attempt
        let now = clock()
        let outcome =
            LiveSender.takes(command, at: now)
            ? try committer.sendLive(command, in: number, now: now)
            : try await perform(.send(project: number, message: command))
        guard case .accepted(let acceptance, _) = outcome else { throw .unexpected }
        return SendReceipt(
            messageID: message.validateOnly
                ? nil : MessageID.text(acceptance.messageNumber, projectID: project),
            recipientCount: acceptance.recipientCount,
            rateLimitedCount: acceptance.rateLimitedCount,
            inactiveCount: acceptance.inactiveCount,
            deferredPlace: acceptance.deferredPlace == 0
                ? nil : Int(clamping: acceptance.deferredPlace),
            tokens: TokenResults(acceptance.named, of: message.target))
    }

    /// Sends a message to several targets. An instance in more than one target gets the message once. A bad
    /// token does not refuse the message; the `tokens` of the answer list the token with its error.
    /// - Parameter targets: at most 10,000 tokens, and 100 topics, conditions and groups.
    public func send(
        _ message: Message, toAll targets: [MessageTarget], in project: String
    ) async throws(MartletError) -> SendReceipt {
        try await send(OutgoingMessage(to: .several(targets), message), in: project)
    }

    /// MSG-10: cancels a message. Recipients without the message do not get the message any more.
    /// - Parameter messageID: as in `SendReceipt`, or the number alone.
    /// - Throws: `NOT_FOUND` for the project, for an unknown or expired message, and for a message that each
    ///   recipient has already; `INVALID_ARGUMENT` for text that is no message ID.
    @discardableResult
    public func cancel(
        _ messageID: String, in project: String
    ) async throws(MartletError) -> CancelSummary {
        let number = try number(of: project)
        let messageNumber = try MessageID.number(messageID, projectID: project)
        let outcome = try await perform(.cancel(project: number, number: messageNumber))
        guard case .cancelled(_, _, let sequence) = outcome else { throw .unexpected }
        guard sequence != nil else { return CancelSummary(wasScheduled: true, deliveredCount: 0) }
        let delivered = try ask { (transaction) throws in
            try Delivered.count(of: messageNumber, in: number, transaction)
        }
        return CancelSummary(wasScheduled: false, deliveredCount: delivered)
    }

    /// RCP-1: receipts for messages sent with `wantsReceipts`, in the order of their arrival, from the oldest
    /// unconfirmed receipt on. Asking for the next receipt confirms the receipt before. An unconfirmed receipt
    /// comes again, in the next iteration or to a listening sender. The sequence ends when the task is
    /// cancelled.
    public func receipts(in project: String) -> ReceiptSequence {
        ReceiptSequence(broker: self, project: project)
    }

    // MARK: Quotas

    /// The remaining part of each quota of a project (QUO-3, QUO-4, QUO-5). Quotas without a limit are left
    /// out.
    /// - Throws: `NOT_FOUND` for the project.
    public func quotas(project: String) throws(MartletError) -> [QuotaSummary] {
        quotas.amounts(of: try number(of: project), at: clock(), book: committer.book)
            .map { QuotaSummary($0) }
    }

    // MARK: Conditions

    /// CON-8: the exact number of instances that a condition selects now. No message is sent.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project.
    public func audience(
        of condition: String, in project: String
    ) throws(MartletError) -> AudienceSummary {
        let number = try number(of: project)
        return AudienceSummary(
            try ask { try Audience(of: condition, in: number, committer.programs, $0) })
    }

    /// CON-8: tokens of the instances selected by a condition, in pages.
    /// - Parameter after: the `next` of the page before.
    /// - Throws: `NOT_FOUND` for the project; `INVALID_ARGUMENT` for the condition, the cursor, and a limit outside
    ///   1 to 1000.
    public func tokens(
        matching condition: String, in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<String> {
        let number = try number(of: project)
        let start = try Ordinal(cursor: after)
        return ListPage(
            try ask {
                try Listing.audience(
                    of: condition, in: number, from: start, limit: limit, committer.programs, $0)
            })
    }

    /// CON-9: explains how the broker reads a condition, and how many instances each part selects.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project.
    public func explain(
        _ condition: String, in project: String
    ) throws(MartletError) -> ConditionExplanation {
        let number = try number(of: project)
        return ConditionExplanation(
            try ask { try Audience.explain(condition, in: number, committer.programs, $0) })
    }
}

extension ListPage where Element == TopicSummary {
    init(_ page: Listing.Page<Topic>) {
        self.init(
            entries: page.entries.map {
                TopicSummary(name: $0.name.text, subscriberCount: $0.subscriberCount)
            },
            next: page.hasMore ? page.entries.last?.name.text : nil)
    }
}

extension ListPage where Element == String {
    init(_ page: Listing.Tokens) {
        self.init(entries: page.tokens.map(\.text), next: page.next.map { String($0.rawValue) })
    }
}

extension Ordinal {
    /// The ordinal with which a page of tokens begins. An empty cursor stands for the first page.
    init(cursor: String) throws(MartletError) {
        guard let value = cursor.isEmpty ? 0 : UInt32(cursor) else {
            throw MartletError(
                .invalidArgument, "The cursor is not one that a page ended with.", field: "cursor")
        }
        self.init(value)
    }
}
