// SPDX-License-Identifier: Apache-2.0
//
// Bounds the peers at the node port that have not yet proved to be nodes (OPS-7). When the places are full, a new one replaces
// the oldest of the address that has most, so peers of one address can't keep other nodes out. Pure.

import MartletCluster

/// Peers that have not proved to be nodes.
package struct LinkStrangers {
    /// The peers, in the order in which they came.
    private var peers: [(id: ObjectIdentifier, origin: String)] = []
    /// Peers that have left without a proof since the last report.
    private var failures = 0
    private var told: Duration?

    /// Pause between two reports.
    private static let pause = Duration.seconds(60)

    package var count: Int { peers.count }

    package init() {}

    /// Adds a peer.
    /// - Parameter origin: the peer's IP address.
    /// - Returns: the peer whose place it takes; nil if there was room.
    package mutating func add(_ id: ObjectIdentifier, from origin: String) -> ObjectIdentifier? {
        defer { peers.append((id, origin)) }
        guard peers.count >= ClusterLimits.strangersMax else { return nil }
        var counts: [String: Int] = [origin: 1]
        for peer in peers { counts[peer.origin, default: 0] += 1 }
        let most = counts.values.max() ?? 0
        let place = peers.firstIndex { counts[$0.origin] == most } ?? 0
        return peers.remove(at: place).id
    }

    /// Removes a peer that has left, or has proved to be a node.
    package mutating func remove(_ id: ObjectIdentifier) { peers.removeAll { $0.id == id } }

    /// Counts a peer that has left without a proof.
    /// - Returns: how many there were, if it is time to report them.
    package mutating func failed(at now: Duration) -> Int? {
        failures += 1
        if let told, now - told < Self.pause { return nil }
        told = now
        defer { failures = 0 }
        return failures
    }
}
