// SPDX-License-Identifier: Apache-2.0
//
// Keeps a fanout in progress until the loops of every node have done their part (FAN-1). For the active node each linked
// follower is a part of the fanout. A follower reports how far its loops are (`FanoutReports`), and names each fanout in
// progress once a second. If it hasn't named one for some seconds its part ends, so neither a frozen node nor a lost report
// holds up a fanout. Rests on FanoutProgress and NodeEnded.

package import MartletBase
import MartletCluster
package import MartletEngine
import MartletRows
package import MartletWire
import Synchronization

/// A fanout, on all nodes.
struct FanoutKey: Hashable {
    var project: ProjectNumber
    var number: UInt64
}

/// Followers' parts in the active node's fanouts.
package final class FanoutParts: Sendable {
    private struct Part {
        var progress: FanoutProgress
        var heard: Duration
    }

    private struct Early {
        var delivered: UInt64 = 0
        var blocks = 0
        var isEnded = false
    }

    private struct Peer {
        let link: LinkOutbox
        var open: [FanoutKey: Part] = [:]
        /// Reports of fanouts that we haven't begun to count.
        var early: [FanoutKey: Early] = [:]
        var checked = Duration.zero
    }

    private let peers = Mutex<[Peer]>([])

    package init() {}

    /// A follower that sends reports has said hello.
    package func join(_ link: LinkOutbox) {
        peers.withLock { $0.append(Peer(link: link)) }
    }

    /// Begins a fanout, with a part for each follower, before the loops hear of it.
    /// - Parameter clock: the monotonic clock, here and below.
    package func begin(_ progress: FanoutProgress, loops: Int, at now: Instant, clock: Duration) {
        let key = FanoutKey(project: progress.project, number: progress.number)
        peers.withLock { peers in
            var nodes = 0
            for index in peers.indices {
                if let early = peers[index].early.removeValue(forKey: key) {
                    progress.addRemote(delivered: early.delivered, blocks: early.blocks)
                    if early.isEnded { continue }
                }
                peers[index].open[key] = Part(progress: progress, heard: clock)
                nodes += 1
            }
            progress.begin(loops: loops, nodes: nodes, at: now)
        }
    }

    /// Takes a follower's report.
    package func take(
        _ report: NodeEnded, from link: LinkOutbox, at now: Instant, clock: Duration
    ) {
        peers.withLock { peers in
            guard let index = peers.firstIndex(where: { $0.link === link }) else { return }
            for entry in report.entries {
                let key = FanoutKey(project: entry.project, number: entry.messageNumber)
                // A faulty report must not crash us with an overflow.
                let delivered = min(entry.delivered, UInt64(UInt32.max))
                let blocks = Int(entry.blocks)
                guard let progress = peers[index].open[key]?.progress else {
                    // If we drop parts here, they end when nobody has named them for a while.
                    if peers[index].early.count >= ClusterLimits.earlyFanoutsMax {
                        peers[index].early = [:]
                    }
                    var early = peers[index].early[key] ?? Early()
                    early.delivered += delivered
                    early.blocks += blocks
                    early.isEnded = entry.isEnded
                    peers[index].early[key] = early
                    continue
                }
                progress.addRemote(delivered: delivered, blocks: blocks)
                if entry.isEnded {
                    peers[index].open[key] = nil
                    progress.endPart(at: now)
                } else {
                    peers[index].open[key]?.heard = clock
                }
            }
        }
    }

    /// Ends the parts that a follower hasn't named for long.
    package func check(_ link: LinkOutbox, at now: Instant, clock: Duration) {
        peers.withLock { peers in
            guard let index = peers.firstIndex(where: { $0.link === link }),
                clock - peers[index].checked >= ClusterLimits.partCheck
            else { return }
            peers[index].checked = clock
            let silent = peers[index].open.filter {
                clock - $0.value.heard > ClusterLimits.partSilence
            }
            for (key, part) in silent {
                peers[index].open[key] = nil
                part.progress.endPart(at: now)
            }
        }
    }

    /// A link has ended, and with it its follower's parts.
    package func leave(_ link: LinkOutbox, at now: Instant) {
        peers.withLock { peers in
            guard let index = peers.firstIndex(where: { $0.link === link }) else { return }
            for part in peers.remove(at: index).open.values { part.progress.endPart(at: now) }
        }
    }
}
