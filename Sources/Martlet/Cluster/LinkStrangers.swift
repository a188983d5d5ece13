// SPDX-License-Identifier: Apache-2.0
//
// Peers at the node address that have not yet proved to be nodes (OPS-7). Their number is bounded. A peer beyond the bound
// takes the place of the oldest peer of the address that has most, so peers of one address cannot keep other nodes out. Pure.

import MartletCluster

/// The peers of a node's address that have not proved to be nodes.
package struct LinkStrangers {
    /// The peers, in the order of coming.
    private var peers: [(id: ObjectIdentifier, origin: String)] = []
    /// Peers that have ended without a proof since the last report.
    private var failures = 0
    private var told: Duration?

    /// Pause between two reports.
    private static let pause = Duration.seconds(60)

    package var count: Int { peers.count }

    package init() {}

    /// Adds a peer.
    /// - Parameter origin: the peer's IP address.
    /// - Returns: the peer whose place it takes; nil: there was room.
    package mutating func add(_ id: ObjectIdentifier, from origin: String) -> ObjectIdentifier? {
        defer { peers.append((id, origin)) }
        guard peers.count >= ClusterLimits.strangersMax else { return nil }
        var counts: [String: Int] = [origin: 1]
        for peer in peers { counts[peer.origin, default: 0] += 1 }
        let most = counts.values.max() ?? 0
        let place = peers.firstIndex { counts[$0.origin] == most } ?? 0
        return peers.remove(at: place).id
    }

    /// Removes a peer that has ended, or has proved to be a node.
    package mutating func remove(_ id: ObjectIdentifier) { peers.removeAll { $0.id == id } }

    /// Counts a peer that has ended without a proof.
    /// - Returns: the number of such peers if it is to be reported now.
    package mutating func failed(at now: Duration) -> Int? {
        failures += 1
        if let told, now - told < Self.pause { return nil }
        told = now
        defer { failures = 0 }
        return failures
    }
}
