// SPDX-License-Identifier: Apache-2.0
//
// The quotas that the active node of a cluster counts, as it tells followers (QUO-4): a follower answers questions about
// quotas with them. Rests on `WireReader` and `WireWriter`.

package import MartletBase

/// NODE_QUOTAS (0xCF): the quotas that are not full, once a second. A quota that the frame does not name is full.
package struct NodeQuotas: WireFrame {
    package struct Entry: Sendable, Hashable {
        package var project: ProjectNumber
        package var quota: CountedQuota
        package var left: QuotaLeft

        package init(project: ProjectNumber, quota: CountedQuota, left: QuotaLeft) {
            self.project = project
            self.quota = quota
            self.left = left
        }
    }

    package var entries: [Entry]

    /// - Parameter entries: at most `NodeLimits.quotaEntriesMax`.
    package init(entries: [Entry]) { self.entries = entries }

    package var type: FrameType { .nodeQuotas }

    init(from reader: inout WireReader) throws(WireError) {
        entries = try reader.list(entryBytesMin: 21) { (reader) throws(WireError) in
            let project = ProjectNumber(try reader.u32())
            let number = try reader.u8()
            guard let quota = CountedQuota(rawValue: number) else {
                throw .unknownValue(field: "quota", value: UInt64(number))
            }
            return Entry(
                project: project, quota: quota,
                left: QuotaLeft(
                    remaining: try reader.u64(), untilFullMilliseconds: try reader.u64()))
        }
    }

    package func encodeBody(into writer: inout WireWriter) {
        writer.list(entries) { (writer, entry) in
            writer.u32(entry.project.rawValue)
            writer.u8(entry.quota.rawValue)
            writer.u64(entry.left.remaining)
            writer.u64(entry.left.untilFullMilliseconds)
        }
    }
}
