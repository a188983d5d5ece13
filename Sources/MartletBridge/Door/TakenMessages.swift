// SPDX-License-Identifier: Apache-2.0
//
// Keeps track of an instance's stored messages at a door: which ones the door has, and which are done at the push service or
// user agent. After a new attachment the broker repeats whatever isn't acknowledged on disk, but the door hands each message
// over only once.
//
// A message is acknowledged cumulatively if everything before it is done, otherwise singly. A late message, one that came
// after a higher stream ID, is always acknowledged singly: a cumulative acknowledgement covers what came before the message
// that it names (TTL-4). Pure.

package import MartletWire

/// An instance's stored messages, in the door.
package struct TakenMessages {
    /// What to do with a message from the broker.
    package enum Treatment: Hashable {
        /// It is new: hand it over.
        case handOver
        /// The door has it already.
        case wait
        /// It is done: acknowledge it again.
        case acknowledge(Acknowledge)
    }

    private struct Arrival {
        let streamID: UInt64
        /// Whether it came after a higher stream ID.
        let isLate: Bool
    }

    /// What came over this attachment, in order, without the messages at the front that are done.
    private var arrivals: [Arrival] = []
    /// The highest stream ID of this attachment.
    private var highest: UInt64 = 0
    /// Messages that the door has, from `arrivals` or an earlier attachment.
    private var open: Set<UInt64> = []
    /// Done, but as far as we know the acknowledgement isn't on disk. The oldest first.
    private var ended: [UInt64] = []

    /// How many of them HELLO can list.
    private let endedMax: Int

    package init(endedMax: Int) { self.endedMax = endedMax }

    var isEmpty: Bool { open.isEmpty }

    /// Begins a new attachment.
    /// - Returns: messages that are done, which the broker may not have heard.
    package mutating func reattach() -> [UInt64] {
        arrivals = []
        highest = 0
        return ended
    }

    /// A stored message has come from the broker.
    package mutating func came(_ streamID: UInt64) -> Treatment {
        arrivals.append(Arrival(streamID: streamID, isLate: streamID < highest))
        highest = max(highest, streamID)
        if ended.contains(streamID) { return .acknowledge(acknowledgement(of: streamID)) }
        return open.insert(streamID).inserted ? .handOver : .wait
    }

    /// A message is done.
    /// - Returns: the acknowledgement for the broker; nil if the broker has to repeat the message first.
    package mutating func end(_ streamID: UInt64) -> Acknowledge? {
        guard open.remove(streamID) != nil else { return nil }
        if ended.count >= endedMax { ended.removeFirst() }
        ended.append(streamID)
        // It came over an earlier attachment. We acknowledge it when the broker repeats it.
        guard arrivals.contains(where: { $0.streamID == streamID }) else { return nil }
        return acknowledgement(of: streamID)
    }

    /// Forgets a message without acknowledging it.
    package mutating func drop(_ streamID: UInt64) { open.remove(streamID) }

    private mutating func acknowledgement(of streamID: UInt64) -> Acknowledge {
        let single = Acknowledge(through: 0, streamIDs: [streamID])
        guard arrivals.first?.streamID == streamID else { return single }
        let done = arrivals.prefix { !open.contains($0.streamID) }
        arrivals.removeFirst(done.count)
        // A message that isn't late has a higher ID than all before it, so naming it covers them. The late ones after it were
        // acknowledged singly.
        guard let last = done.last(where: { !$0.isLate }) else { return single }
        return Acknowledge(through: last.streamID)
    }

    /// The acknowledgements up to `through` are on disk.
    package mutating func confirmed(_ through: UInt64) { ended.removeAll { $0 <= through } }
}
