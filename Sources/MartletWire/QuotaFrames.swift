// SPDX-License-Identifier: Apache-2.0
//
// The remaining amounts of a project's quotas, for the project's senders (QUO-3, QUO-4). Entries carry the quota's
// name, so a client can also show the quotas of a later broker. Rests on `WireReader` and `WireWriter`.

/// QUOTAS (0x2D): asks for the remaining amount of each quota of the connection's project. Answered by QUOTA_LIST.
public struct QuotasRequest: WireFrame {
    public var correlation: UInt32
    public init(correlation: UInt32) { self.correlation = correlation }
    package var type: FrameType { .quotas }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// QUOTA_LIST (0x2F): all quotas that are not turned off.
public struct QuotaList: WireFrame {
    public struct Entry: Sendable, Hashable {
        /// Name of the quota on the command line, such as `topic-changes-per-second`.
        public var name: String
        public var limit: UInt64
        public var remaining: UInt64
        /// Milliseconds until the quota is full again, if no request uses the quota; nil if the broker cannot know
        /// the time.
        public var untilFullMilliseconds: UInt32?

        public init(
            name: String, limit: UInt64, remaining: UInt64, untilFullMilliseconds: UInt32?
        ) {
            self.name = name
            self.limit = limit
            self.remaining = remaining
            self.untilFullMilliseconds = untilFullMilliseconds
        }
    }

    public var correlation: UInt32
    public var quotas: [Entry]

    public init(correlation: UInt32, quotas: [Entry]) {
        self.correlation = correlation
        self.quotas = quotas
    }

    package var type: FrameType { .quotaList }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        quotas = try reader.list(entryBytesMin: 22) { (reader) throws(WireError) in
            Entry(
                name: try reader.string(), limit: try reader.u64(), remaining: try reader.u64(),
                untilFullMilliseconds: try reader.optionalU32())
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(quotas) { (writer, quota) in
            writer.string(quota.name)
            writer.u64(quota.limit)
            writer.u64(quota.remaining)
            writer.optionalU32(quota.untilFullMilliseconds)
        }
    }
}
