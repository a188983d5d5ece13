// SPDX-License-Identifier: Apache-2.0
//
// SUBSCRIBE and UNSUBSCRIBE of a device, which have one type, and a sender's requests about the subscriptions of up to 1000
// devices. Rests on `SenderInterface`.

public import MartletBase

/// SUBSCRIBE (0x12) and UNSUBSCRIBE (0x13): a device changes its own subscriptions. Answered by TOPIC_RESULT.
public struct DeviceTopicsRequest: WireFrame {
    public var operation: TopicOperation
    public var correlation: UInt32
    /// Topic names, with or without `/topics/`.
    public var topics: [String]

    public init(operation: TopicOperation, correlation: UInt32, topics: [String]) {
        self.operation = operation
        self.correlation = correlation
        self.topics = topics
    }

    package var type: FrameType { operation == .subscribe ? .subscribe : .unsubscribe }

    package init(_ type: FrameType, from reader: inout WireReader) throws(WireError) {
        operation = type == .subscribe ? .subscribe : .unsubscribe
        correlation = try reader.correlation()
        topics = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.strings(topics)
    }
}

/// Result of a change of subscriptions (TOP-4).
public struct TopicChangeSummary: Sendable, Hashable {
    /// A failed token of the request. The other tokens are not affected.
    public struct Failure: Sendable, Hashable {
        /// Position in the request's list of tokens, from 0.
        public var index: Int
        /// Reason for the failure, such as `NOT_FOUND` or `TOO_MANY_TOPICS`.
        public var word: ErrorWord

        package init(index: Int, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    /// Tokens whose subscription is now as requested.
    public var successCount: Int
    /// Failed tokens; empty if every token succeeded.
    public var failures: [Failure]

    package init(_ result: TopicResult) {
        successCount = Int(result.successes)
        failures = result.failures.map { Failure(index: Int($0.index), word: $0.word) }
    }
}

extension SenderInterface {
    /// Subscribes up to 1000 tokens to a topic (TOP-4). The first subscription creates the topic.
    /// - Returns: the number of successes, and the error of each failed token.
    /// - Throws: `INVALID_ARGUMENT` for a bad name or count; `RESOURCE_EXHAUSTED` with a retry delay if the project's
    ///   subscriptions change too often (TOP-6). A refused request changes no subscription.
    public func subscribe(
        _ tokens: [String], to topic: String
    ) async throws(Failure) -> TopicChangeSummary {
        TopicChangeSummary(
            try await requests.ask(
                ChangeTopicRequest(operation: .subscribe, topic: topic, tokens: tokens)))
    }

    /// Unsubscribes up to 1000 tokens from a topic. A token without the subscription counts as a success
    /// (TOP-7).
    /// - Returns: the number of successes, and the error of each failed token.
    /// - Throws: the errors of `subscribe(_:to:)`.
    public func unsubscribe(
        _ tokens: [String], from topic: String
    ) async throws(Failure) -> TopicChangeSummary {
        TopicChangeSummary(
            try await requests.ask(
                ChangeTopicRequest(operation: .unsubscribe, topic: topic, tokens: tokens)))
    }

    /// Deletes an instance with its subscriptions, mailbox and token, and ends the instance's connection (REG-3).
    /// - Throws: `NOT_FOUND` for a token that is not registered in the project, `INVALID_ARGUMENT` for text
    ///   that is no token.
    public func unregister(_ token: String) async throws(Failure) {
        _ = try await requests.ask(UnregisterTokenRequest(token: token))
    }
}
