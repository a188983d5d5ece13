// SPDX-License-Identifier: Apache-2.0
//
// Numbers of now-or-never messages (TTL-2). Loops and the committer share the counter, so messages of equal
// milliseconds have different numbers, whichever thread accepted them. Rests on Command.

import MartletBase
import Synchronization

/// The numbers of a broker's now-or-never messages.
package final class NotStoredNumbers: Sendable {
    private let last = Atomic<UInt64>(0)

    /// Makes a counter at zero. A broker has one counter, because numbers from two counters can be equal.
    package init() {}

    /// The instant of a number's creation, in whole milliseconds.
    static func instant(of sequence: MessageSequence) -> Instant {
        let milliseconds = (sequence.rawValue & ~MessageSequence.notStoredBit) >> 21
        return Instant(millisecondsSince1970: Int64(milliseconds))
    }

    /// The next number: 42 bits of milliseconds and 21 bits of the counter. The numbers differ over restarts,
    /// although the counter is not stored.
    func next(_ now: Instant) -> MessageSequence {
        let count = last.add(1, ordering: .relaxed).newValue
        let milliseconds = UInt64(clamping: now.millisecondsSince1970) & (1 << 42 - 1)
        return MessageSequence(
            MessageSequence.notStoredBit | milliseconds << 21 | count & (1 << 21 - 1))
    }
}
