// SPDX-License-Identifier: Apache-2.0
//
// What was counted of a message, or of a day, as bytes (REP-1). Counts are short: each is seven bits a
// byte, the lowest first, with the eighth bit set in all but the last (Source: LEB128, DWARF 5, 7.6).
// Rests on RecordBytes.

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

    /// The report of a stored message for one instance, of which nothing was counted yet.
    package init(of record: MessageRecord, _ sequence: MessageSequence) {
        self.init(
            accepted: record.accepted, number: sequence.rawValue, counts: Self.oneTargeted)
    }

    /// Of a message for one instance, before anything became of it.
    package static let oneTargeted: ReportCounts = {
        var counts = ReportCounts()
        counts[.targeted] = 1
        return counts
    }()

    package var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.bytes.reserveCapacity(48)
        writer.append(accepted.millisecondsSince1970)
        writer.append(number)
        writer.append(counts)
        return writer.bytes
    }
}

extension RecordWriter {
    /// In the order of the events; what follows the last that is not 0 is left out.
    package mutating func append(_ counts: ReportCounts) {
        guard let last = ReportEvent.allCases.last(where: { counts[$0] != 0 }) else { return }
        for event in ReportEvent.allCases where event.rawValue <= last.rawValue {
            var rest = counts[event]
            while rest >= 0x80 {
                append(UInt8(truncatingIfNeeded: rest) | 0x80)
                rest >>= 7
            }
            append(UInt8(rest))
        }
    }
}

extension RecordReader {
    /// To the record's end.
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
