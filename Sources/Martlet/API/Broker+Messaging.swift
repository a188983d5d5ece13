// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions, sends, and questions about both. Rests on Broker.

import MartletEngine
import MartletRows

extension Broker {
    // MARK: Topics

    /// Subscribes up to 1000 tokens to a topic (TOP-4). The topic exists from then on.
    /// - Throws: `INVALID_ARGUMENT` for a bad name or count, `NOT_FOUND` for the project; what is
    ///   wrong with single tokens is in the result. `RESOURCE_EXHAUSTED` with a retry delay if the
    ///   project's subscriptions change too often (TOP-6); then none of these did.
    public func subscribe(
        _ tokens: [String], to topic: String, in project: String
    ) async throws(MartletError) -> TopicChangeSummary {
        try await change(.subscribe, tokens, topic, project)
    }

    /// The reverse. A token that is not subscribed counts as a success (TOP-7).
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

    /// A project's topics with their subscribers' counts, in the order of their names (TOP-9).
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    public func topics(
        in project: String, after: String = "", limit: Int = 100
    ) throws(MartletError) -> ListPage<TopicSummary> {
        let number = try number(of: project)
        return ListPage(
            try ask { try Listing.topics(in: number, after: after, limit: limit, $0) })
    }

    /// The topics that one instance is subscribed to, in the order of their names (TOP-9).
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

    /// Tokens of a topic's subscribers, in pages (TOP-9). How many there are in all is in `topics`.
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

    /// Accepts a message: on return it is on disk, and on its way to whoever is connected (MSG-6). One
    /// with a time to live of 0 is only on its way (TTL-2), one with `sendAt` waits for that instant
    /// (MSG-10). Repeated with the same `idempotencyKey` within 24 hours it is not sent twice, and the
    /// first answer comes again (MSG-9).
    /// - Throws: `INVALID_ARGUMENT` naming the field (such as `message.android.ttl`), `UNREGISTERED`,
    ///   `SENDER_ID_MISMATCH`, `NOT_FOUND` for the project, `QUOTA_EXCEEDED` with a retry delay for a
    ///   token whose device had too many messages (QUO-1), `RESOURCE_EXHAUSTED` for too many scheduled
    ///   messages, and with a retry delay for too many in progress and deferred (FAN-1), `UNAVAILABLE`
    ///   with a retry delay.
    public func send(
        _ message: OutgoingMessage, in project: String
    ) async throws(MartletError) -> SendReceipt {
        try await send(message, as: nil, in: project)
    }

    /// GW-8: the same. Repeated with the same attempt the message is not sent twice, unless it is now or
    /// never (TTL-2): nothing is kept of such a message.
    /// - Parameter attempt: in place of an idempotency key.
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

    /// One message to the instances that any of the targets means, each once. A token that is not good
    /// does not refuse the message: it is in the answer's `tokens`.
    /// - Parameter targets: at most 10,000 tokens and 100 topics, conditions and groups.
    public func send(
        _ message: Message, toAll targets: [MessageTarget], in project: String
    ) async throws(MartletError) -> SendReceipt {
        try await send(OutgoingMessage(to: .several(targets), message), in: project)
    }

    /// MSG-10: whoever has not got the message does not get it.
    /// - Parameter messageID: as `SendReceipt` has it, or its number alone.
    /// - Throws: `NOT_FOUND` for the project, and if there is nothing to cancel: no such message, or
    ///   everybody has it, or it expired; `INVALID_ARGUMENT` for text that is no message ID.
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

    /// RCP-1: what became of messages that were sent with `wantsReceipts`, in the order in which it was
    /// told, from the oldest that nobody has taken. A receipt is taken when the next one is asked for;
    /// what is not taken comes again, to the next iteration or to a sender that listens. Ends when the
    /// task is cancelled.
    public func receipts(in project: String) -> ReceiptSequence {
        ReceiptSequence(broker: self, project: project)
    }

    // MARK: Quotas

    /// What is left of each of the project's quotas that is not turned off (QUO-3, QUO-4, QUO-5).
    /// - Throws: `NOT_FOUND` for the project.
    public func quotas(project: String) throws(MartletError) -> [QuotaSummary] {
        quotas.amounts(of: try number(of: project), at: clock(), book: committer.book)
            .map { QuotaSummary($0) }
    }

    // MARK: Conditions

    /// CON-8: exactly how many instances a condition selects now, without a send.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project.
    public func audience(
        of condition: String, in project: String
    ) throws(MartletError) -> AudienceSummary {
        let number = try number(of: project)
        return AudienceSummary(
            try ask { try Audience(of: condition, in: number, committer.programs, $0) })
    }

    /// CON-8: tokens of the instances that a condition selects, in pages.
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

    /// CON-9: how a condition is read and what each part of it selects.
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
    /// Where a list of tokens goes on; empty at its beginning.
    init(cursor: String) throws(MartletError) {
        guard let value = cursor.isEmpty ? 0 : UInt32(cursor) else {
            throw MartletError(
                .invalidArgument, "The cursor is not one that a page ended with.", field: "cursor")
        }
        self.init(value)
    }
}
