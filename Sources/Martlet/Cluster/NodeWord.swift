// SPDX-License-Identifier: Apache-2.0
//
// What a node knows about the others while the log does not answer it (OPS-7). The store of such a node may lack what other
// nodes have answered: a device would get confirmed and cancelled messages, and a revoked key would open a connection. So the
// node opens a connection only on the word of other nodes, given after the HELLO came:
//
//   fed      The active node has answered a PING over the link, and the store has all rows that came before the PONG.
//   shared   No node is active, as far as this node's last news of the log names nodes: each of them says that it is cut off
//            from the log and from an active node too, and has no row that this node lacks. While PostgreSQL is away, the
//            mailboxes of the nodes with the last row stay open.
//
// Without such a word the other nodes may be going on. Rests on NodeLinks.

import MartletBase
import MartletCluster
import MartletRows
import MartletWire
import Synchronization

/// The times, in nanoseconds of the monotonic clock, up to which no other node has answered anything that the store of
/// this node lacks.
struct NodeWord: ~Copyable, Sendable {
    /// OPS-7: pause between the beginnings of two rounds of questions to the other nodes.
    private static let pauseNanoseconds: UInt64 = 250_000_000

    private let fedThrough = Atomic<UInt64>(0)
    private let sharedThrough = Atomic<UInt64>(0)
    /// When the last round began.
    private let asked = Atomic<UInt64>(0)

    func isFed(since nanoseconds: UInt64) -> Bool {
        fedThrough.load(ordering: .acquiring) >= nanoseconds
    }

    func isShared(since nanoseconds: UInt64) -> Bool {
        sharedThrough.load(ordering: .acquiring) >= nanoseconds
    }

    func fed(through nanoseconds: UInt64) { fedThrough.store(nanoseconds, ordering: .releasing) }

    func shared(through nanoseconds: UInt64) {
        sharedThrough.store(nanoseconds, ordering: .releasing)
    }

    /// Whether a round is to begin. Called on the thread of the link.
    /// - Parameter awaited: the last time of which somebody needs to know.
    func mustAsk(for awaited: UInt64, at nanoseconds: UInt64) -> Bool {
        let last = asked.load(ordering: .relaxed)
        guard last < awaited, nanoseconds >= last + Self.pauseNanoseconds else { return false }
        asked.store(nanoseconds, ordering: .relaxed)
        return true
    }
}

extension NodeLinks {
    /// The field of an ERROR by which a node says that it is cut off too.
    static let cutOffField = "log"

    /// Whether this node is cut off: it is not active, the log does not answer it, and it has no link to an active node.
    var isCutOff: Bool {
        guard cluster.hold == nil, !isUp else { return false }
        return committer.withLock { $0 }?.clusterTrouble != nil
    }

    /// The last PONG and the last COMMITTED over the link, before the rows are taken that have come with them.
    var heard: (pong: UInt64, row: UInt64) {
        let pong = live.heard
        return (pong, committedRow)
    }

    /// Notes that the rows that had come over the link are taken.
    /// - Parameters:
    ///   - heard: what was heard before.
    ///   - row: the last applied row. The link does not bring each row.
    func noteApplied(_ heard: (pong: UInt64, row: UInt64), through row: UInt64) {
        guard heard.pong > 0, heard.row <= row, rows.isFed else { return }
        word.fed(through: heard.pong)
    }

    /// Asks all other nodes whether they are cut off too, if somebody waits for their word. Called on the thread of the link.
    func askOthers() {
        guard let awaited = cluster.awaited, isCutOff,
            let others = cluster.withLock({ $0.others })
        else { return }
        let now = SystemClock.monotonicNanoseconds()
        guard word.mustAsk(for: awaited, at: now) else { return }
        for other in others {
            guard isCutOff(other) else { return }
        }
        word.shared(through: now)
        committer.withLock { $0 }?.wake()
    }

    /// Whether another node says that it is cut off too, and has no row that this node lacks.
    private func isCutOff(_ other: NodeReport) -> Bool {
        guard let address = try? NodeAddress(validating: other.address),
            let socket = try? network.connect(to: address)
        else { return false }
        let outbox = network.makeOutbox(limit: ClusterLimits.linkBytesMax)
        let end = ClusterState.now + ClusterLimits.wordPatience
        var hasNothingNewer = false
        var isCutOff = false
        _ = socket.serve(
            secret: secret, isServer: false, outbox,
            opened: { outbox.push(NodeFrame.hello(hello(isActive: false)).bytes) },
            tick: { !isStopping && ClusterState.now < end },
            received: { frame in
                switch frame {
                case .hello(let hello):
                    let own = cluster.applied
                    hasNothingNewer =
                        hello.node == other.name.text && !hello.isActive
                        && hello.position.incarnation == own.incarnation
                        && hello.position.row <= own.row
                    return hasNothingNewer
                case .error(let frame):
                    isCutOff = hasNothingNewer && frame.error.field == Self.cutOffField
                    return false
                default: return false
                }
            })
        outbox.end()
        return isCutOff
    }
}

extension Committer {
    /// OPS-7: whether other nodes have said, since a time, that the store lacks nothing.
    /// - Parameter isLast: whether nobody waits longer for a log that may only be slow.
    func isNewWithoutLog(at nanoseconds: UInt64, isLast: Bool) -> Bool {
        guard let cluster, let links, isLast || clusterTrouble != nil,
            cluster.withLock({ $0.stopped == nil })
        else { return false }
        return links.word.isFed(since: nanoseconds) || links.word.isShared(since: nanoseconds)
    }
}
