// SPDX-License-Identifier: Apache-2.0
//
// The counts of a message or of a day, as bytes (REP-1). A count has seven bits per byte, the lowest first. The
// eighth bit is set in all bytes but the last (Source: LEB128, DWARF 5, 7.6), so small counts are short. Rests on
// RecordBytes.

package import MartletBase

/// The row of a message in `reports`: i64 accepted ‖ u64 message number ‖ counts.
package struct ReportRow {
    package var accepted: Instant
    package var number: UInt64
    package var counts = ReportCounts()

    package init(accepted: Instant, number: UInt64, counts: ReportCounts = ReportCounts()) {
        self.accepted = accepted
        self.number = number
        self.counts = counts
    }

    package init(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        var reader = RecordReader(bytes, of: .reports)
        accepted = Instant(millisecondsSince1970: try reader.read(Int64.self))
        number = try reader.read(UInt64.self)
        counts = try reader.counts()
    }

    /// The report of a message that is stored for one instance, before the first counted event.
    package init(of record: MessageRecord, _ sequence: MessageSequence) {
        self.init(
            accepted: record.accepted, number: sequence.rawValue, counts: Self.oneTargeted)
    }

    /// The counts of a message to one instance at acceptance.
    package static let oneTargeted: ReportCounts = {
        var counts = ReportCounts()
        counts[.targeted] = 1
        return counts
    }()

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.bytes.reserveCapacity(48)
        invariant(number > 0, "The numbers of messages begin at 1.")
        writer.append(accepted.millisecondsSince1970)
        writer.append(number)
        writer.append(counts)
        return writer.bytes
    }
}

extension RecordWriter {
    /// Appends the counts in the order of the events. Zeros behind the last other count are left out.
    package mutating func append(_ counts: ReportCounts) {
        // Of one count: ten bytes of seven bits.
        withUnsafeTemporaryAllocation(byteCount: 10 * ReportCounts.laneCount, alignment: 1) {
            (encoded) in
            var laneEnd = ReportCounts.laneCount
            while laneEnd > 0, counts[lane: laneEnd - 1] == 0 { laneEnd -= 1 }
            var end = 0
            for lane in 0..<laneEnd {
                var rest = counts[lane: lane]
                while rest >= 0x80 {
                    encoded[end] = UInt8(truncatingIfNeeded: rest) | 0x80
                    rest >>= 7
                    end += 1
                }
                encoded[end] = UInt8(rest)
                end += 1
            }
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: encoded[..<end]))
        }
    }
}

extension RecordReader {
    /// Reads counts up to the record's end.
    package mutating func counts() throws(StorageError) -> ReportCounts {
        var counts = ReportCounts()
        for event in ReportEvent.allCases where !isAtEnd {
            var value: UInt64 = 0
            var shift: UInt64 = 0
            while true {
                let byte = try read(UInt8.self)
                guard shift < 63 || byte <= 1 else { throw damaged() }
                value |= UInt64(byte & 0x7F) << shift
                shift += 7
                guard byte & 0x80 != 0 else { break }
            }
            counts[event] = value
        }
        guard isAtEnd else { throw damaged() }
        return counts
    }
}
