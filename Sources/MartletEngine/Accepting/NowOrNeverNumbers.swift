// SPDX-License-Identifier: Apache-2.0
//
// Numbers for now-or-never messages (TTL-2). Loops and committer share the counter, so messages of the same millisecond get
// different numbers, whichever thread accepted them. Rests on Command.

import MartletBase
import Synchronization

/// The numbers of a broker's now-or-never messages.
package final class NowOrNeverNumbers: Sendable {
    private let last = Atomic<UInt64>(0)

    /// A counter at zero. Use only one per broker: two could give the same number.
    package init() {}

    /// When a number was made, in whole milliseconds.
    static func instant(of sequence: MessageSequence) -> Instant {
        let milliseconds = (sequence.rawValue & ~MessageSequence.nowOrNeverBit) >> 21
        return Instant(millisecondsSince1970: Int64(milliseconds))
    }

    /// The next number: 42 bits of milliseconds and 21 bits of the counter. So numbers differ across restarts, although the
    /// counter isn't stored.
    func next(_ now: Instant) -> MessageSequence {
        let count = last.add(1, ordering: .relaxed).newValue
        let milliseconds = UInt64(clamping: now.millisecondsSince1970) & (1 << 42 - 1)
        return MessageSequence(
            MessageSequence.nowOrNeverBit | milliseconds << 21 | count & (1 << 21 - 1))
    }
}
