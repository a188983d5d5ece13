// SPDX-License-Identifier: Apache-2.0
//
// Pages of lists: an instance's topics, a topic's subscribers, a project's topics (TOP-9). A page may hold fewer entries than
// the client asked for: the broker ends a page before the frame exceeds `Limits.brokerFrameBytesMax`. Rests on `WireReader`
// and `WireWriter`.

public import MartletBase

/// TOPIC_PAGE (0x29): topics in order of name, each with the count of subscribers.
public struct TopicPage: WireAnswer {
    public var correlation: UInt32
    /// True if there are topics after the last entry of the page.
    public var hasMore: Bool
    public var topics: [TopicSummary]

    public init(correlation: UInt32 = 0, hasMore: Bool, topics: [TopicSummary]) {
        self.correlation = correlation
        self.hasMore = hasMore
        self.topics = topics
    }

    package static var type: FrameType { .topicPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        hasMore = try reader.flag("more")
        topics = try reader.list(entryBytesMin: 10) { (reader) throws(WireError) in
            TopicSummary(name: try reader.string(), subscriberCount: try reader.u64())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(hasMore)
        writer.list(topics) { (writer, topic) in
            writer.string(topic.name)
            writer.u64(topic.subscriberCount)
        }
    }
}

/// TOKEN_PAGE (0x2B): tokens of a topic's subscribers, of a condition's audience, or of the instances that have not
/// got a message.
public struct TokenPage: WireAnswer {
    public var correlation: UInt32
    /// Length of the whole list; 0 in the answer to LIST_NOT_RECEIVED, because the broker does not count there.
    public var total: UInt64
    /// Cursor for the request of the next page; empty on the last page.
    public var nextCursor: String
    public var tokens: [String]

    public init(correlation: UInt32 = 0, total: UInt64, nextCursor: String, tokens: [String]) {
        self.correlation = correlation
        self.total = total
        self.nextCursor = nextCursor
        self.tokens = tokens
    }

    package static var type: FrameType { .tokenPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        total = try reader.u64()
        nextCursor = try reader.string()
        tokens = try reader.strings()
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(total)
        writer.string(nextCursor)
        writer.strings(tokens)
    }
}

extension ListPage where Element == TopicSummary {
    package init(_ page: TopicPage) {
        self.init(entries: page.topics, next: page.hasMore ? page.topics.last?.name : nil)
    }
}

extension ListPage where Element == String {
    package init(_ page: TokenPage) {
        self.init(entries: page.tokens, nextCursor: page.nextCursor)
    }
}
