// SPDX-License-Identifier: Apache-2.0
//
// How far an instance is, as bytes. Mostly its lanes are even and nothing else is to be said: 16
// bytes. Rests on RecordBytes.
//
//   short, 16 bytes: u64 mark of every lane ‖ i64 seen
//   long, 72 bytes:  4 × u64 mark, lane by lane ‖ i64 seen ‖ u64 away from ‖ i64 throttle full ‖
//                    u64 discarded through ‖ u64 how many
//
// Where its connection began, if it has one, is in the table `connections`: a row per connection, which
// is what a broker that begins looks through.

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
        case 72:
            for lane in 0..<Lane.count {
                state.acknowledged[Lane(rawValue: UInt8(lane))] = MessageSequence(word(lane))
            }
            state.seen = instant(4)
            state.awayFrom = MessageSequence(word(5))
            state.throttleFull = instant(6)
            state.discardedThrough = MessageSequence(word(7))
            state.discardedCount = word(8)
        default: throw RecordReader(bytes, of: .mailboxes).damaged()
        }
        return state
    }

    package static func bytes(_ state: MailboxState) -> [UInt8] {
        // What is behind the marks, or was over when the instance was last there, says nothing.
        let lowest = state.acknowledged.lowest
        let awayFrom = state.awayFrom > lowest ? state.awayFrom : .none
        let isThrottled = state.throttleFull > state.seen
        // A notice of later discards too is acknowledged later than some messages before it.
        let isDiscarded = state.discardedThrough > lowest || state.discardedCount > 0
        var writer = RecordWriter()
        writer.bytes.reserveCapacity(72)
        guard state.acknowledged.isEven, awayFrom == .none, !isThrottled, !isDiscarded else {
            for lane in 0..<Lane.count {
                writer.append(state.acknowledged[Lane(rawValue: UInt8(lane))].rawValue)
            }
            writer.append(state.seen.millisecondsSince1970)
            writer.append(awayFrom.rawValue)
            writer.append(isThrottled ? state.throttleFull.millisecondsSince1970 : 0)
            writer.append(isDiscarded ? state.discardedThrough.rawValue : 0)
            writer.append(isDiscarded ? state.discardedCount : 0)
            return writer.bytes
        }
        writer.append(lowest.rawValue)
        writer.append(state.seen.millisecondsSince1970)
        return writer.bytes
    }
}
