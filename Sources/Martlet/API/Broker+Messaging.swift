// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions, sends, and questions about subscriptions and messages. A question is answered on the caller's thread.
// Rests on Broker and ServedRequest.

import MartletCommitter
import MartletEngine
public import MartletWire

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
        TopicChangeSummary(
            try await perform(
                ChangeTopicRequest(operation: operation, topic: topic, tokens: tokens),
                in: project))
    }

    /// Topics of a project with the number of subscribers, in the order of the names (TOP-9).
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `NOT_FOUND` for the project, `INVALID_ARGUMENT` for the limit.
    public func topics(
        in project: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<TopicSummary> {
        ListPage(
            try answer(
                ListTopicsRequest(after: after, limit: UInt16(clamping: limit)), in: project))
    }

    /// Topics to which an instance is subscribed, in the order of the names (TOP-9).
    /// - Throws: `NOT_FOUND` for the project, and for a token that is not registered in the project;
    ///   `INVALID_ARGUMENT` for text that is no token, and for a limit outside 1 to 1000.
    public func topics(
        of token: String, in project: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<TopicSummary> {
        ListPage(
            try answer(
                ListInstanceTopicsRequest(
                    token: token, after: after, limit: UInt16(clamping: limit)), in: project))
    }

    /// Tokens of a topic's subscribers, in pages (TOP-9). `topics(in:after:limit:)` has the number of
    /// subscribers. The list of a topic without subscribers is empty.
    /// - Parameter after: the `next` of the page before.
    /// - Throws: `NOT_FOUND` for the project; `INVALID_ARGUMENT` for the name, the cursor, and a limit outside 1 to
    ///   1000.
    public func subscribers(
        of topic: String, in project: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<String> {
        ListPage(
            try answer(
                ListSubscribersRequest(
                    topic: topic, cursor: after, limit: UInt16(clamping: limit)), in: project))
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
        let number = try await number(of: project)
        var command = try counting(in: number) { () throws(MartletError) in
            try SendCommand(message, projectID: project)
        }
        command.attempt = attempt
        let now = clock()
        let outcome =
            NowOrNeverSender.takes(command, at: now) && committer.sendsNowOrNever
            ? try committer.sendNowOrNever(command, in: number, now: now)
            : try await perform(.send(project: number, message: command))
        guard case .accepted(let acceptance, _) = outcome else { throw .unexpected }
        return SendReceipt(
            acceptance.accepted(), tokens: TokenResults(acceptance.named, of: message.target),
            projectID: project)
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
        CancelSummary(
            try await perform(
                CancelRequest(
                    messageNumber: try MessageID.number(messageID, projectID: project)),
                in: project))
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
    public func quotas(in project: String) throws(MartletError) -> [QuotaSummary] {
        try answer(QuotasRequest(), in: project).quotas
    }

    // MARK: Conditions

    /// CON-8: the exact number of instances that a condition selects now. No message is sent.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project.
    public func audience(
        of condition: String, in project: String
    ) throws(MartletError) -> AudienceSummary {
        AudienceSummary(try answer(AudienceRequest(condition: condition), in: project))
    }

    /// CON-8: tokens of the instances selected by a condition, in pages.
    /// - Parameter after: the `next` of the page before.
    /// - Throws: `NOT_FOUND` for the project; `INVALID_ARGUMENT` for the condition, the cursor, and a limit outside
    ///   1 to 1000.
    public func tokens(
        matching condition: String, in project: String, after: String = "",
        limit: Int = Limits.pageEntriesMax
    ) throws(MartletError) -> ListPage<String> {
        ListPage(
            try answer(
                ListAudienceRequest(
                    condition: condition, cursor: after, limit: UInt16(clamping: limit)),
                in: project))
    }

    /// CON-9: explains how the broker reads a condition, and how many instances each part selects.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault, `NOT_FOUND` for the project.
    public func explain(
        _ condition: String, in project: String
    ) throws(MartletError) -> ConditionExplanation {
        ConditionExplanation(try answer(ExplainRequest(condition: condition), in: project))
    }
}
