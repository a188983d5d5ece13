// SPDX-License-Identifier: Apache-2.0
//
// What came to a device behind messages with higher stream IDs: a doze or the throttle had held it back. A
// cumulative acknowledgement may have been sent before it arrived, and is for what came before the message
// that it names (TTL-4). Rests on Lane.

import MartletBase

/// Of one connection: what no acknowledgement has named a message behind yet.
struct LateDeliveries {
    /// Messages of a lane that came behind the same one. A lane is delivered in order, so of two episodes
    /// of it the later one has the higher numbers.
    private struct Episode {
        let lane: Lane
        /// The highest stream ID before them.
        var barrier: UInt64
        /// What of the lane came before them.
        let cap: UInt64
    }

    /// Of one lane. What comes late after more of them is acknowledged as if it had come with the last,
    /// which may cost another delivery.
    private static let episodesPerLaneMax = 8
    private var episodes: [Episode] = []

    var isEmpty: Bool { episodes.isEmpty }

    mutating func note(_ sequence: UInt64, in lane: Lane, behind highest: UInt64) {
        let last = episodes.lastIndex { $0.lane == lane }
        if let last, episodes[last].barrier == highest { return }
        if let last, episodes.count(where: { $0.lane == lane }) >= Self.episodesPerLaneMax {
            episodes[last].barrier = highest
        } else {
            episodes.append(Episode(lane: lane, barrier: highest, cap: sequence - 1))
        }
    }

    /// - Returns: how far a cumulative acknowledgement reaches in a lane.
    func cap(of through: UInt64, in lane: Lane) -> UInt64 {
        let first = episodes.first { $0.lane == lane && $0.barrier >= through }
        return min(through, first?.cap ?? .max)
    }

    /// What came before the message that was named has been acknowledged with it.
    mutating func acknowledged(_ through: UInt64) {
        episodes.removeAll { $0.barrier < through }
    }
}
