// SPDX-License-Identifier: Apache-2.0
//
// The messages of an instance in the door: which of them the door has, and which have ended at the push service. The broker
// gives a message again after a new attachment, as long as its acknowledgement is not on disk; the door hands the message
// over once. An ended message is acknowledged cumulatively if all messages before it have ended, and singly otherwise.
// Pure.

package import MartletWire

/// The stored messages of an instance in the door.
package struct TakenMessages {
    /// What becomes of a message that the broker gives.
    package enum Treatment {
        /// The message is new, and is to be handed over.
        case handOver
        /// The door has the message.
        case wait
        /// The message has ended; the acknowledgement goes to the broker again.
        case acknowledge(Acknowledge)
    }

    /// The messages of the present attachment, in the order of coming, up to those that are acknowledged.
    private var order: [UInt64] = []
    /// Messages in the door: of `order`, or of an earlier attachment.
    private var open: Set<UInt64> = []
    /// Ended messages whose acknowledgement is not on disk, as far as known; the oldest first.
    private var ended: [UInt64] = []

    /// Most ended messages that HELLO can list.
    private let endedMax: Int

    package init(endedMax: Int) { self.endedMax = endedMax }

    var isEmpty: Bool { open.isEmpty }

    /// Begins a new attachment.
    /// - Returns: ended messages that the broker may not know to be ended.
    package mutating func reattach() -> [UInt64] {
        order = []
        return ended
    }

    /// Notes a stored message that the broker gives.
    package mutating func came(_ streamID: UInt64) -> Treatment {
        order.append(streamID)
        if ended.contains(streamID) { return .acknowledge(acknowledgement(of: streamID)) }
        return open.insert(streamID).inserted ? .handOver : .wait
    }

    /// Notes the end of a message.
    /// - Returns: the acknowledgement for the broker; nil if the broker has to give the message first.
    package mutating func end(_ streamID: UInt64) -> Acknowledge? {
        guard open.remove(streamID) != nil else { return nil }
        if ended.count >= endedMax { ended.removeFirst() }
        ended.append(streamID)
        // A message of an earlier attachment is acknowledged when the broker gives it again.
        guard order.contains(streamID) else { return nil }
        return acknowledgement(of: streamID)
    }

    /// Forgets a message that is not to be acknowledged.
    package mutating func drop(_ streamID: UInt64) { open.remove(streamID) }

    private mutating func acknowledgement(of streamID: UInt64) -> Acknowledge {
        let isFirst = order.first == streamID
        guard isFirst else { return Acknowledge(through: 0, streamIDs: [streamID]) }
        let done = order.prefix { !open.contains($0) }
        order.removeFirst(done.count)
        return Acknowledge(through: done.max() ?? 0)
    }

    /// Notes that every message up to `through` is acknowledged on disk.
    package mutating func confirmed(_ through: UInt64) { ended.removeAll { $0 <= through } }
}
