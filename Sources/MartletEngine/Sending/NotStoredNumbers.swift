// SPDX-License-Identifier: Apache-2.0
//
// Numbers of messages that are not stored (TTL-2). A loop gives them out as well as the committer, so
// the counter in them is the broker's: two messages of one millisecond differ wherever they were
// accepted. Rests on Command.

import MartletBase
import Synchronization

/// One value per broker.
public final class NotStoredNumbers: Sendable {
    private let last = Atomic<UInt64>(0)

    public init() {}

    /// When a number was given.
    static func instant(of sequence: MessageSequence) -> Instant {
        let milliseconds = (sequence.rawValue & ~MessageSequence.notStoredBit) >> 21
        return Instant(millisecondsSince1970: Int64(milliseconds))
    }

    /// 42 bits of milliseconds and 21 of a counter: distinct over restarts without being stored.
    func next(_ now: Instant) -> MessageSequence {
        let count = last.add(1, ordering: .relaxed).newValue
        let milliseconds = UInt64(clamping: now.millisecondsSince1970) & (1 << 42 - 1)
        return MessageSequence(
            MessageSequence.notStoredBit | milliseconds << 21 | count & (1 << 21 - 1))
    }
}
