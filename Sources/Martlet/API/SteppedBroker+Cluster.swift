// SPDX-License-Identifier: Apache-2.0
//
// Runs a stepped broker as a node of a cluster (OPS-7). The committer, the keeper of the lease and the links wait for the log
// and for each other, so the owner gives each of them a thread, and decides when each thread goes on. The functions are those
// of production's threads. Rests on SteppedBroker.

package import MartletCluster
import MartletCommitter
package import MartletEngine
package import MartletNode
package import MartletRows
import MartletStore
import MartletThreads
package import MartletTransport
import Synchronization

/// The place of a stepped broker in a cluster.
package struct SteppedNode: Sendable {
    package var configuration: ClusterConfiguration
    /// The place of the store in the log.
    package var applied: LogPosition
    package var network: any NodeNetwork
    package var owner: CommitterOwner

    package init(
        configuration: ClusterConfiguration, applied: LogPosition, network: any NodeNetwork,
        owner: CommitterOwner
    ) {
        self.configuration = configuration
        self.applied = applied
        self.network = network
        self.owner = owner
    }
}

extension SteppedBroker where Kernel: ~Copyable {
    // MARK: Threads of the node

    /// Follows and leads by turns, until the node ends.
    package func runCommitter(_ transport: inout some Transport & ~Copyable) {
        node?.run(committer, &transport)
    }

    /// Keeps the lease, until the node ends.
    package func runKeeper() { node?.runKeeper(committer) }

    /// Keeps a link to the active node, until the node ends.
    package func runLink() { node?.runLink() }

    /// Serves the link of another node until its end.
    package func serve(_ carrier: some NodeCarrier, _ outbox: LinkOutbox) {
        if let node { node.serve(carrier, outbox) } else { outbox.end() }
    }

    /// Asks the threads to end. Unanswered commands are finished first, and the active role is handed over.
    package func endNode() {
        committer.inbox.close()
        committer.isStopping.store(true, ordering: .releasing)
        committer.wake()
    }

    /// Asks the remaining threads to end, after the committer's.
    package func endThreads() { node?.end() }

    /// Makes the threads end at once, as a kill of the process does. The log must answer nothing any more.
    package func killNode() {
        node?.kill()
        endNode()
        endThreads()
    }

    /// Hands a command of the owner to the committer.
    package func ask(_ command: Command, _ tell: @escaping @Sendable (Outcome) -> Void) {
        _ = committer.inbox.push([Request(command, tell)])
        committer.wake()
    }

    // MARK: Looking

    package var hasQuestions: Bool { inquiry.hasQuestions }

    /// Whether the node counts on the lease.
    package var isActive: Bool { node?.isActive ?? false }

    /// Whether the log has not answered for a while. The log may answer the node's keeper alone.
    package var isAway: Bool { node?.isAway ?? false }

    /// The reason for which the node has stopped following.
    package var stopReason: String? { node?.stopReason }

    // MARK: Tampering

    /// Puts forwarded commands into the inbox a second time, past the guard of the links.
    package func repeatForwarded() {
        let waiting = committer.inbox.drain()
        let forwarded = waiting.filter(\.isForwarded)
        _ = committer.inbox.push(waiting + forwarded, mustFit: true)
    }
}
