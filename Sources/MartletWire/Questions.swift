// SPDX-License-Identifier: Apache-2.0
//
// Questions of senders: the audience and the explanation of a condition, and lists of topics and of subscribers (TOP-9). A
// device may ask for its own topics. `Answers.swift` and `Pages.swift` have the answers. Rests on `WireReader` and
// `WireWriter`.

public import MartletBase

/// AUDIENCE (0x24): CON-8, asks for the count of the instances that a condition selects. Answered by
/// AUDIENCE_RESULT.
public struct AudienceRequest: WireRequest {
    package typealias Answer = AudienceResult

    public var correlation: UInt32
    public var condition: String

    public init(correlation: UInt32 = 0, condition: String) {
        self.correlation = correlation
        self.condition = condition
    }

    package static var type: FrameType { .audience }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        condition = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
    }
}

/// EXPLAIN (0x26): CON-9, asks how the broker understands and evaluates a condition. Answered by EXPLANATION.
public struct ExplainRequest: WireRequest {
    package typealias Answer = Explanation

    public var correlation: UInt32
    public var condition: String

    public init(correlation: UInt32 = 0, condition: String) {
        self.correlation = correlation
        self.condition = condition
    }

    package static var type: FrameType { .explain }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        condition = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
    }
}

/// LIST_TOPICS (0x28): asks for the project's topics in order of name. Answered by TOPIC_PAGE.
public struct ListTopicsRequest: WireRequest {
    package typealias Answer = TopicPage

    public var correlation: UInt32
    /// Topic name after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    package static var type: FrameType { .listTopics }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        after = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(after)
        writer.u16(limit)
    }
}

/// LIST_SUBSCRIBERS (0x2A): asks for the tokens of a topic's subscribers. Answered by TOKEN_PAGE.
public struct ListSubscribersRequest: WireRequest {
    package typealias Answer = TokenPage

    public var correlation: UInt32
    public var topic: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, topic: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.topic = topic
        self.cursor = cursor
        self.limit = limit
    }

    package static var type: FrameType { .listSubscribers }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        topic = try reader.string()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(topic)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// LIST_AUDIENCE (0x2E): asks for the tokens of the instances that a condition selects (CON-8). Answered by
/// TOKEN_PAGE.
public struct ListAudienceRequest: WireRequest {
    package typealias Answer = TokenPage

    public var correlation: UInt32
    public var condition: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, condition: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.condition = condition
        self.cursor = cursor
        self.limit = limit
    }

    package static var type: FrameType { .listAudience }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        condition = try reader.string()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// LIST_INSTANCE_TOPICS (0x2C): asks for the topics of an instance. Answered by TOPIC_PAGE.
public struct ListInstanceTopicsRequest: WireRequest {
    package typealias Answer = TopicPage

    public var correlation: UInt32
    /// Token of the instance; empty means the asking device.
    public var token: String
    /// Topic name after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32 = 0, token: String, after: String, limit: UInt16) {
        self.correlation = correlation
        self.token = token
        self.after = after
        self.limit = limit
    }

    package static var type: FrameType { .listInstanceTopics }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = try reader.string()
        after = try reader.string()
        limit = try reader.u16()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(token)
        writer.string(after)
        writer.u16(limit)
    }
}

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
