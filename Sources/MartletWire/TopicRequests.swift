// SPDX-License-Identifier: Apache-2.0
//
// Frames for changing subscriptions, from the device itself or from a sender for up to 1000 devices, and the common
// answer. The codec accepts as many entries as a frame holds; the broker checks the allowed number. Rests on
// `WireReader` and `WireWriter`.

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

    package init(operation: TopicOperation, from reader: inout WireReader) throws(WireError) {
        self.operation = operation
        correlation = try reader.correlation()
        topics = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.strings(topics)
    }
}

/// UNREGISTER (0x14): the device's token becomes invalid. Answered by DONE; then the connection closes.
public struct UnregisterRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package var type: FrameType { .unregister }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// UNREGISTER_TOKEN (0x45): REG-3, a sender unregisters an instance by token. Answered by DONE.
public struct UnregisterTokenRequest: WireRequest {
    package typealias Answer = Done

    public var correlation: UInt32
    public var token: String

    public init(correlation: UInt32 = 0, token: String) {
        self.correlation = correlation
        self.token = token
    }

    package static var type: FrameType { .unregisterToken }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(token)
    }
}

/// CHANGE_TOPIC (0x22): TOP-4, a sender changes the subscriptions of many devices to a topic. Answered by
/// TOPIC_RESULT.
public struct ChangeTopicRequest: WireRequest {
    package typealias Answer = TopicResult

    public var correlation: UInt32
    public var operation: TopicOperation
    public var topic: String
    public var tokens: [String]

    public init(
        correlation: UInt32 = 0, operation: TopicOperation, topic: String, tokens: [String]
    ) {
        self.correlation = correlation
        self.operation = operation
        self.topic = topic
        self.tokens = tokens
    }

    package static var type: FrameType { .changeTopic }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        operation = try reader.choice("operation")
        topic = try reader.string()
        tokens = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u8(operation.rawValue)
        writer.string(topic)
        writer.strings(tokens)
    }
}

/// TOPIC_RESULT (0x23): the count of successful entries of a request, and the reason for each refused entry.
public struct TopicResult: WireAnswer {
    /// A refused entry of the request's list.
    public struct Failure: Sendable, Hashable {
        /// Index of the entry in the request's list.
        public var index: UInt16
        public var word: ErrorWord

        public init(index: UInt16, word: ErrorWord) {
            self.index = index
            self.word = word
        }
    }

    public var correlation: UInt32
    public var successes: UInt16
    public var failures: [Failure]

    public init(correlation: UInt32 = 0, successes: UInt16, failures: [Failure] = []) {
        self.correlation = correlation
        self.successes = successes
        self.failures = failures
    }

    package static var type: FrameType { .topicResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        successes = try reader.u16()
        failures = try reader.list(entryBytesMin: 4) { (reader) throws(WireError) in
            Failure(index: try reader.u16(), word: try reader.errorWord())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u16(successes)
        writer.list(failures) { (writer, failure) in
            writer.u16(failure.index)
            writer.u16(failure.word.rawValue)
        }
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
