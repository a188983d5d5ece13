// SPDX-License-Identifier: Apache-2.0
//
// Questions of senders: the audience and the explanation of a condition, and the lists of TOP-9. A device may ask
// for its own topics. `Answers.swift` and `Pages.swift` have the answers. Rests on `WireReader` and `WireWriter`.

/// AUDIENCE (0x24) and EXPLAIN (0x26): questions about a condition.
public struct ConditionQuestion: WireFrame {
    public enum Kind: Sendable, Hashable {
        /// CON-8: count of the matching instances. Answered by AUDIENCE_RESULT.
        case audience
        /// CON-9: how the broker understands and evaluates the condition. Answered by EXPLANATION.
        case explain
    }

    public var kind: Kind
    public var correlation: UInt32
    public var condition: String

    public init(kind: Kind, correlation: UInt32, condition: String) {
        self.kind = kind
        self.correlation = correlation
        self.condition = condition
    }

    package var type: FrameType { kind == .audience ? .audience : .explain }

    package init(kind: Kind, from reader: inout WireReader) throws(WireError) {
        self.kind = kind
        correlation = try reader.correlation()
        condition = try reader.string()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
    }
}

/// LIST_TOPICS (0x28): asks for the project's topics in order of name. Answered by TOPIC_PAGE.
public struct ListTopicsRequest: WireFrame {
    public var correlation: UInt32
    /// Topic name after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    package var type: FrameType { .listTopics }

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
public struct ListSubscribersRequest: WireFrame {
    public var correlation: UInt32
    public var topic: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32, topic: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.topic = topic
        self.cursor = cursor
        self.limit = limit
    }

    package var type: FrameType { .listSubscribers }

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
public struct ListAudienceRequest: WireFrame {
    public var correlation: UInt32
    public var condition: String
    /// `nextCursor` of the previous page; empty for the first page.
    public var cursor: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32, condition: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.condition = condition
        self.cursor = cursor
        self.limit = limit
    }

    package var type: FrameType { .listAudience }

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
public struct ListInstanceTopicsRequest: WireFrame {
    public var correlation: UInt32
    /// Token of the instance; empty means the asking device.
    public var token: String
    /// Topic name after which the page begins; empty for the first page.
    public var after: String
    /// Most entries in the page, 1 to 1000.
    public var limit: UInt16

    public init(correlation: UInt32, token: String, after: String, limit: UInt16) {
        self.correlation = correlation
        self.token = token
        self.after = after
        self.limit = limit
    }

    package var type: FrameType { .listInstanceTopics }

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
