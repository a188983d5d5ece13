// SPDX-License-Identifier: Apache-2.0
//
// The answers to questions about conditions: counts (CON-8) and explanations (CON-9). Rests on
// `WireReader` and `WireWriter`.

import MartletBase

/// AUDIENCE_RESULT (0x25): exact counts of the instances that match a condition.
public struct AudienceResult: WireAnswer {
    public var correlation: UInt32
    /// Matching instances on all platforms. `android`, `apple` and `web` are the counts by platform.
    public var total: UInt64
    public var android: UInt64
    public var apple: UInt64
    public var web: UInt64
    /// Counts by app.
    public var apps: [AudienceSummary.AppCount]

    public init(
        correlation: UInt32 = 0, total: UInt64, android: UInt64, apple: UInt64, web: UInt64,
        apps: [AudienceSummary.AppCount]
    ) {
        self.correlation = correlation
        self.total = total
        self.android = android
        self.apple = apple
        self.web = web
        self.apps = apps
    }

    package static var type: FrameType { .audienceResult }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        total = try reader.u64()
        android = try reader.u64()
        apple = try reader.u64()
        web = try reader.u64()
        apps = try reader.list(entryBytesMin: 11) { (reader) throws(WireError) in
            AudienceSummary.AppCount(
                app: try reader.string(), platform: try reader.choice("platform"),
                count: try reader.u64())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.u64(total)
        writer.u64(android)
        writer.u64(apple)
        writer.u64(web)
        writer.list(apps) { (writer, app) in
            writer.string(app.app)
            writer.u8(app.platform.rawValue)
            writer.u64(app.count)
        }
    }
}

/// EXPLANATION (0x27): how the broker understands and evaluates a condition.
public struct Explanation: WireAnswer {
    /// A sub-expression of the condition: a byte range in the condition's text and the count of matching instances.
    public struct Part: Sendable, Hashable {
        public var start: UInt32
        public var end: UInt32
        public var count: UInt64

        public init(start: UInt32, end: UInt32, count: UInt64) {
            self.start = start
            self.end = end
            self.count = count
        }
    }

    /// Advice about a place in the condition: the text is allowed there, but the sender probably meant another
    /// condition.
    public struct Advice: Sendable, Hashable {
        public var byteOffset: UInt32
        public var text: String

        public init(byteOffset: UInt32, text: String) {
            self.byteOffset = byteOffset
            self.text = text
        }
    }

    public var correlation: UInt32
    /// The parsed condition, a line for each sub-expression with the count of matching instances.
    public var tree: String
    /// The compiled condition, one instruction a line.
    public var bytecode: String
    /// The sub-expressions, in the order of the lines of `tree`.
    public var parts: [Part]
    public var advice: [Advice]

    public init(
        correlation: UInt32 = 0, tree: String, bytecode: String, parts: [Part], advice: [Advice]
    ) {
        self.correlation = correlation
        self.tree = tree
        self.bytecode = bytecode
        self.parts = parts
        self.advice = advice
    }

    package static var type: FrameType { .explanation }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        tree = try reader.string()
        bytecode = try reader.string()
        parts = try reader.list(entryBytesMin: 16) { (reader) throws(WireError) in
            Part(start: try reader.u32(), end: try reader.u32(), count: try reader.u64())
        }
        advice = try reader.list(entryBytesMin: 6) { (reader) throws(WireError) in
            Advice(byteOffset: try reader.u32(), text: try reader.string())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.string(tree)
        writer.string(bytecode)
        writer.list(parts) { (writer, part) in
            writer.u32(part.start)
            writer.u32(part.end)
            writer.u64(part.count)
        }
        writer.list(advice) { (writer, advice) in
            writer.u32(advice.byteOffset)
            writer.string(advice.text)
        }
    }
}
