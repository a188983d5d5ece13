// SPDX-License-Identifier: Apache-2.0
//
// The remaining amounts of a project's quotas, for the project's senders (QUO-3, QUO-4). Entries carry the quota's
// name, so a client can also show the quotas of a later broker. Rests on `WireReader` and `WireWriter`.

public import MartletBase

/// QUOTAS (0x2D): asks for the remaining amount of each quota of the connection's project. Answered by QUOTA_LIST.
public struct QuotasRequest: WireRequest {
    package typealias Answer = QuotaList

    public var correlation: UInt32
    public init(correlation: UInt32 = 0) { self.correlation = correlation }
    package static var type: FrameType { .quotas }
    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
    }
    package func encodeBody(into writer: inout WireWriter) { writer.u32(correlation) }
}

/// QUOTA_LIST (0x2F): all quotas that are not turned off.
public struct QuotaList: WireAnswer {
    public var correlation: UInt32
    public var quotas: [QuotaSummary]

    public init(correlation: UInt32 = 0, quotas: [QuotaSummary]) {
        self.correlation = correlation
        self.quotas = quotas
    }

    package static var type: FrameType { .quotaList }

    package init(from reader: inout WireReader) throws(WireError) {
        correlation = try reader.correlation()
        quotas = try reader.list(entryBytesMin: 22) { (reader) throws(WireError) in
            QuotaSummary(
                name: try reader.string(), limit: try reader.u64(), remaining: try reader.u64(),
                untilFullMilliseconds: try reader.optionalU32().map { UInt64($0) })
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.u32(correlation)
        writer.list(quotas) { (writer, quota) in
            writer.string(quota.name)
            writer.u64(quota.limit)
            writer.u64(quota.remaining)
            // The largest value means "not known" on the wire. A longer time is cut to some 49 days.
            writer.optionalU32(
                quota.untilFullMilliseconds.map { UInt32(min($0, UInt64(UInt32.max - 1))) })
        }
    }
}

extension SenderInterface {
    /// The remaining part of each quota of the project (QUO-3, QUO-4, QUO-5). Quotas without a limit are left out.
    public func quotas() async throws(Failure) -> [QuotaSummary] {
        try await requests.ask(QuotasRequest()).quotas
    }
}
