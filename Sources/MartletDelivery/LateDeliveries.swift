// SPDX-License-Identifier: Apache-2.0
//
// Late messages: messages that a device receives after messages with higher stream IDs, because a doze or the
// throttle had held them back. A device may send a cumulative acknowledgement before a late message arrives.
// So the acknowledgement counts for the messages that arrived before the named message (TTL-4). Rests on Lane.

import MartletBase
import MartletEngine

/// The late messages of one connection. An episode ends with the first acknowledgement that names a message above
/// its barrier.
struct LateDeliveries {
    /// Late messages of one lane behind the same message. Delivery keeps the order of a lane, so a later
    /// episode of a lane has the higher stream IDs.
    private struct Episode {
        let lane: Lane
        /// The highest stream ID on the connection before the episode.
        var barrier: UInt64
        /// The last stream ID of the lane before the episode.
        let cap: UInt64
    }

    /// The most episodes of one lane. Further late messages join the last episode. The price is a second delivery
    /// of some messages after a reconnect.
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

    /// - Returns: the last stream ID of a lane that a cumulative acknowledgement counts for.
    func cap(of through: UInt64, in lane: Lane) -> UInt64 {
        let first = episodes.first { $0.lane == lane && $0.barrier >= through }
        return min(through, first?.cap ?? .max)
    }

    /// Ends the episodes that an acknowledgement counts for.
    mutating func acknowledged(_ through: UInt64) {
        episodes.removeAll { $0.barrier < through }
    }
}
