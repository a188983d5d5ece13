// SPDX-License-Identifier: Apache-2.0
//
// Questions of senders: the audience and the explanation of a condition, and lists of topics and of subscribers (TOP-9). Rests
// on `SenderInterface`.

public import MartletBase

extension SenderInterface {
    /// CON-8: the exact number of instances that a condition selects now. No message is sent.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault.
    public func audience(of condition: String) async throws(Failure) -> AudienceSummary {
        AudienceSummary(try await requests.ask(AudienceRequest(condition: condition)))
    }

    /// CON-9: explains how the broker reads a condition, and how many instances each part selects.
    /// - Throws: `INVALID_ARGUMENT` with the byte offset of the fault.
    public func explain(_ condition: String) async throws(Failure) -> ConditionExplanation {
        ConditionExplanation(try await requests.ask(ExplainRequest(condition: condition)))
    }

    /// CON-8: tokens of the instances selected by a condition, in pages.
    /// - Parameters:
    ///   - condition: the condition.
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `INVALID_ARGUMENT` for the condition, the cursor and the limit.
    public func tokens(
        matching condition: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<String> {
        ListPage(
            try await requests.ask(
                ListAudienceRequest(
                    condition: condition, cursor: after, limit: UInt16(pageLimit: limit))))
    }

    /// Topics of the project with the number of subscribers, in the order of the names (TOP-9).
    /// - Parameters:
    ///   - after: the `next` of the page before.
    ///   - limit: 1 to 1000 entries.
    /// - Throws: `INVALID_ARGUMENT` for the limit.
    public func topics(
        after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<TopicSummary> {
        ListPage(
            try await requests.ask(
                ListTopicsRequest(after: after, limit: UInt16(pageLimit: limit))))
    }

    /// Topics to which an instance is subscribed, in the order of the names (TOP-9).
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project; `INVALID_ARGUMENT` for text that is no
    ///   token, and for a limit outside 1 to 1000.
    public func topics(
        of token: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<TopicSummary> {
        ListPage(
            try await requests.ask(
                ListInstanceTopicsRequest(
                    token: token, after: after, limit: UInt16(pageLimit: limit))))
    }

    /// Tokens of a topic's subscribers, in pages (TOP-9). `topics(after:limit:)` has the number of subscribers. The
    /// list of a topic without subscribers is empty.
    /// - Throws: `INVALID_ARGUMENT` for the name, the cursor, and a limit outside 1 to 1000.
    public func subscribers(
        of topic: String, after: String = "", limit: Int = Limits.pageEntriesMax
    ) async throws(Failure) -> ListPage<String> {
        ListPage(
            try await requests.ask(
                ListSubscribersRequest(
                    topic: topic, cursor: after, limit: UInt16(pageLimit: limit))))
    }
}
