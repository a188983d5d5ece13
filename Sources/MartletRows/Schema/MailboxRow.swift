// SPDX-License-Identifier: Apache-2.0
//
// The state of a mailbox, as bytes. Mostly all lanes have the same mark and the other fields are empty: then 16 bytes
// suffice. Rests on RecordBytes.
//
//   short, 16 bytes: u64 mark of every lane ‖ i64 seen
//   long, 72 bytes:  4 × u64 mark, lane by lane ‖ i64 seen ‖ u64 away from ‖ i64 throttle full ‖
//                    u64 discarded through ‖ u64 discarded count
//   80 bytes:        the long form ‖ u64 stream ID of the notice
//
// The beginning of a connection is in the table `connections`, with a row per connection, because a new run of the
// broker looks through all connections.

import MartletBase

package enum MailboxRow {
    package static let nowhere = MailboxState(
        acknowledged: LaneMarks(.none), awayFrom: .none,
        throttleFull: Instant(millisecondsSince1970: 0), seen: Instant(millisecondsSince1970: 0))

    package static func state(_ bytes: UnsafeRawBufferPointer) throws(StorageError) -> MailboxState
    {
        func word(_ index: Int) -> UInt64 { bytes.loadLittleEndian(UInt64.self, at: index * 8) }
        func instant(_ index: Int) -> Instant {
            Instant(millisecondsSince1970: bytes.loadLittleEndian(Int64.self, at: index * 8))
        }
        var state = nowhere
        switch bytes.count {
        case 16:
            state.acknowledged = LaneMarks(MessageSequence(word(0)))
            state.seen = instant(1)
        case 72, 80:
            for lane in 0..<Lane.count {
                state.acknowledged[Lane(rawValue: UInt8(lane))] = MessageSequence(word(lane))
            }
            state.seen = instant(4)
            state.awayFrom = MessageSequence(word(5))
            state.throttleFull = instant(6)
            state.discardedThrough = MessageSequence(word(7))
            state.discardedCount = word(8)
            if bytes.count == 80 { state.noticeStreamID = MessageSequence(word(9)) }
        default: throw RecordReader(bytes, of: .mailboxes).damaged()
        }
        return state
    }

    package static func bytes(_ state: MailboxState) -> [UInt8] {
        invariant(
            state.discardedCount == 0 || state.discardedThrough > .none,
            "Discarded messages of a mailbox have a last one.")
        // An absence below the marks, and a throttle that was full when the instance was last seen, change nothing:
        // they are not kept.
        let lowest = state.acknowledged.lowest
        let awayFrom = state.awayFrom > lowest ? state.awayFrom : .none
        let isThrottled = state.throttleFull > state.seen
        // Marks acknowledge messages, but no notice of discards. So the count stays until the device acknowledges the
        // notice, even if the marks are higher.
        let isDiscarded = state.discardedThrough > lowest || state.discardedCount > 0
        var writer = RecordWriter()
        writer.bytes.reserveCapacity(80)
        guard state.acknowledged.isEven, awayFrom == .none, !isThrottled, !isDiscarded else {
            for lane in 0..<Lane.count {
                writer.append(state.acknowledged[Lane(rawValue: UInt8(lane))].rawValue)
            }
            writer.append(state.seen.millisecondsSince1970)
            writer.append(awayFrom.rawValue)
            writer.append(isThrottled ? state.throttleFull.millisecondsSince1970 : 0)
            writer.append(isDiscarded ? state.discardedThrough.rawValue : 0)
            writer.append(isDiscarded ? state.discardedCount : 0)
            if state.discardedCount > 0, state.noticeStreamID > .none {
                writer.append(state.noticeStreamID.rawValue)
            }
            return writer.bytes
        }
        writer.append(lowest.rawValue)
        writer.append(state.seen.millisecondsSince1970)
        return writer.bytes
    }
}
