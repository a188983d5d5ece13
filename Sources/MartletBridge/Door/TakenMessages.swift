// SPDX-License-Identifier: Apache-2.0
//
// The stored messages of an instance at a door: which of them the door has, and which have ended at the push service or
// the user agent. The broker gives a message again after a new attachment, as long as its acknowledgement is not on disk;
// the door hands the message over once. An ended message is acknowledged cumulatively if all messages before it have
// ended, and singly otherwise. A late message, which came after a higher stream ID, is acknowledged singly too: a
// cumulative acknowledgement counts for what came before the message that it names (TTL-4). Pure.

package import MartletWire

/// The stored messages of an instance in the door.
package struct TakenMessages {
    /// What becomes of a message that the broker gives.
    package enum Treatment: Hashable {
        /// The message is new, and is to be handed over.
        case handOver
        /// The door has the message.
        case wait
        /// The message has ended; the acknowledgement goes to the broker again.
        case acknowledge(Acknowledge)
    }

    private struct Arrival {
        let streamID: UInt64
        /// Whether the message came after a higher stream ID.
        let isLate: Bool
    }

    /// The messages of the present attachment in the order of coming, without the ended ones at the beginning.
    private var arrivals: [Arrival] = []
    /// The highest stream ID of the present attachment.
    private var highest: UInt64 = 0
    /// Messages in the door: of `arrivals`, or of an earlier attachment.
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
        arrivals = []
        highest = 0
        return ended
    }

    /// Notes a stored message that the broker gives.
    package mutating func came(_ streamID: UInt64) -> Treatment {
        arrivals.append(Arrival(streamID: streamID, isLate: streamID < highest))
        highest = max(highest, streamID)
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
        guard arrivals.contains(where: { $0.streamID == streamID }) else { return nil }
        return acknowledgement(of: streamID)
    }

    /// Forgets a message that is not to be acknowledged.
    package mutating func drop(_ streamID: UInt64) { open.remove(streamID) }

    private mutating func acknowledgement(of streamID: UInt64) -> Acknowledge {
        let single = Acknowledge(through: 0, streamIDs: [streamID])
        guard arrivals.first?.streamID == streamID else { return single }
        let done = arrivals.prefix { !open.contains($0.streamID) }
        arrivals.removeFirst(done.count)
        // A message that is not late is above all before it, so naming it covers them. The late ones behind it have been
        // acknowledged singly already.
        guard let last = done.last(where: { !$0.isLate }) else { return single }
        return Acknowledge(through: last.streamID)
    }

    /// Notes that every message up to `through` is acknowledged on disk.
    package mutating func confirmed(_ through: UInt64) { ended.removeAll { $0 <= through } }
}
