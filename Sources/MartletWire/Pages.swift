// SPDX-License-Identifier: Apache-2.0
//
// Pages of the lists of TOP-9. A page may hold fewer entries than the client asked for: the broker ends a page
// before the frame exceeds `Limits.brokerFrameBytesMax`. So an entry tells its encoded size (`byteCount`). Rests on
// `WireReader` and `WireWriter`.

/// TOPIC_PAGE (0x29): topics in order of name, each with the count of subscribers.
public struct TopicPage: WireFrame {
    public struct Entry: Sendable, Hashable {
        public var name: String
        public var subscribers: UInt64

        public init(name: String, subscribers: UInt64) {
            self.name = name
            self.subscribers = subscribers
        }

        /// Bytes of the entry in the frame.
        public var byteCount: Int { 10 + name.utf8.count }
    }

    public var correlation: UInt32
    /// True if there are topics after the last entry of the page.
    public var hasMore: Bool
    public var topics: [Entry]

    public init(correlation: UInt32, hasMore: Bool, topics: [Entry]) {
        self.correlation = correlation
        self.hasMore = hasMore
        self.topics = topics
    }

    package var type: FrameType { .topicPage }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        hasMore = try reader.flag("more")
        topics = try reader.list(entryBytesMin: 10) { (reader) throws(WireError) in
            Entry(name: try reader.string(), subscribers: try reader.u64())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.flag(hasMore)
        writer.list(topics) { (writer, topic) in
            writer.string(topic.name)
            writer.u64(topic.subscribers)
        }
    }
}

/// TOKEN_PAGE (0x2B): tokens of a topic's subscribers, of a condition's audience, or of the instances that have not
/// got a message.
public struct TokenPage: WireFrame {
    public var correlation: UInt32
    /// Length of the whole list; 0 in the answer to LIST_NOT_RECEIVED, because the broker does not count there.
    public var total: UInt64
    /// Cursor for the request of the next page; empty on the last page.
    public var nextCursor: String
    public var tokens: [String]

    public init(correlation: UInt32, total: UInt64, nextCursor: String, tokens: [String]) {
        self.correlation = correlation
        self.total = total
        self.nextCursor = nextCursor
        self.tokens = tokens
    }

    package var type: FrameType { .tokenPage }

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
