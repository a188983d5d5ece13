// SPDX-License-Identifier: Apache-2.0
//
// Keeps track of late messages, those that a device gets after higher stream IDs because a doze or the throttle held them
// back. The device may have sent a cumulative acknowledgement before a late message arrived. That is why it covers only
// what arrived before the message that it names (TTL-4). Rests on Lane.

import MartletBase
import MartletEngine

/// One connection's late messages. An episode ends with the first acknowledgement that names a message above its barrier.
struct LateDeliveries {
    /// Late messages of one lane that came after the same message. Delivery keeps each lane in order, so a lane's later
    /// episodes have higher stream IDs.
    private struct Episode {
        let lane: Lane
        /// The connection's highest stream ID before the episode.
        var barrier: UInt64
        /// The lane's last stream ID before the episode.
        let cap: UInt64
    }

    /// Most episodes of a lane. More late messages join the last one. The price: after a reconnect, some messages may be
    /// delivered again.
    private static let episodesPerLaneMax = 8
    private var episodes: [Episode] = []

    var isEmpty: Bool { episodes.isEmpty }

    mutating func note(_ sequence: UInt64, in lane: Lane, behind highest: UInt64) {
        invariant(
            sequence > 0 && sequence < highest, "A late message comes after a higher stream ID.")
        let last = episodes.lastIndex { $0.lane == lane }
        if let last, episodes[last].barrier == highest { return }
        if let last, episodes.count(where: { $0.lane == lane }) >= Self.episodesPerLaneMax {
            episodes[last].barrier = highest
        } else {
            episodes.append(Episode(lane: lane, barrier: highest, cap: sequence - 1))
            invariant(
                episodes.count <= Lane.count * Self.episodesPerLaneMax,
                "The episodes of a connection are bounded.")
        }
    }

    /// - Returns: up to which of a lane's stream IDs a cumulative acknowledgement reaches.
    func cap(of through: UInt64, in lane: Lane) -> UInt64 {
        let first = episodes.first { $0.lane == lane && $0.barrier >= through }
        return min(through, first?.cap ?? .max)
    }

    /// Ends the episodes that an acknowledgement covers.
    mutating func acknowledged(_ through: UInt64) {
        episodes.removeAll { $0.barrier < through }
    }
}
