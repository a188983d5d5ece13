// SPDX-License-Identifier: Apache-2.0
//
// What senders (and, for its own topics, a device) may ask: the audience and the explanation of a
// condition, and the lists of TOP-9. The answers are in `Answers.swift` and `Pages.swift`. Rests on
// `WireReader` and `WireWriter`.

/// 0x24 and 0x26: a question about a condition.
public struct ConditionQuestion: WireFrame {
    public enum Kind: Sendable, Hashable {
        /// CON-8: how many instances match. Answered by AUDIENCE_RESULT.
        case audience
        /// CON-9: how it is understood and evaluated. Answered by EXPLANATION.
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

    public var type: FrameType { kind == .audience ? .audience : .explain }

    public init(kind: Kind, from reader: inout WireReader) throws(WireError) {
        self.kind = kind
        correlation = try reader.correlation()
        condition = try reader.string()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
    }
}

/// 0x28: the project's topics after a name, in order.
public struct ListTopicsRequest: WireFrame {
    public var correlation: UInt32
    public var after: String
    public var limit: UInt16

    public init(correlation: UInt32, after: String, limit: UInt16) {
        self.correlation = correlation
        self.after = after
        self.limit = limit
    }

    public var type: FrameType { .listTopics }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        after = try reader.string()
        limit = try reader.u16()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(after)
        writer.u16(limit)
    }
}

/// 0x2A: the tokens subscribed to a topic.
public struct ListSubscribersRequest: WireFrame {
    public var correlation: UInt32
    public var topic: String
    /// From the page before, or empty.
    public var cursor: String
    public var limit: UInt16

    public init(correlation: UInt32, topic: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.topic = topic
        self.cursor = cursor
        self.limit = limit
    }

    public var type: FrameType { .listSubscribers }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        topic = try reader.string()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(topic)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// 0x2E: the tokens of the instances that a condition selects (CON-8).
public struct ListAudienceRequest: WireFrame {
    public var correlation: UInt32
    public var condition: String
    /// From the page before, or empty.
    public var cursor: String
    public var limit: UInt16

    public init(correlation: UInt32, condition: String, cursor: String, limit: UInt16) {
        self.correlation = correlation
        self.condition = condition
        self.cursor = cursor
        self.limit = limit
    }

    public var type: FrameType { .listAudience }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        condition = try reader.string()
        cursor = try reader.string()
        limit = try reader.u16()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(condition)
        writer.string(cursor)
        writer.u16(limit)
    }
}

/// 0x2C: the topics of one instance.
public struct ListInstanceTopicsRequest: WireFrame {
    public var correlation: UInt32
    /// Empty: the asking device itself.
    public var token: String
    public var after: String
    public var limit: UInt16

    public init(correlation: UInt32, token: String, after: String, limit: UInt16) {
        self.correlation = correlation
        self.token = token
        self.after = after
        self.limit = limit
    }

    public var type: FrameType { .listInstanceTopics }

    public init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        token = try reader.string()
        after = try reader.string()
        limit = try reader.u16()
    }

    public func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(token)
        writer.string(after)
        writer.u16(limit)
    }
}
