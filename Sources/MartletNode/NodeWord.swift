// SPDX-License-Identifier: Apache-2.0
//
// What a node knows about the others while the log doesn't answer it (OPS-7). Its store may lack what other nodes have
// answered: a device could get messages that are confirmed or cancelled, and a revoked key could open a connection. So the
// node opens a connection only if other nodes give their word, after the HELLO came:
//
//   fed      The active node has answered a PING over the link, and our store has all rows that came before the PONG.
//   shared   No node is active. Every node that we last heard of from the log says that it is cut off too, from the log and
//            from an active node, and has no row that we lack. So while PostgreSQL is away, the nodes that have the last row
//            keep their mailboxes open.
//
// Without their word the others may be going on. Rests on NodeLinks.

import MartletBase
import MartletCluster
import MartletCommitter
import MartletRows
import MartletThreads
import MartletWire
import Synchronization

/// Until when, in nanoseconds of the monotonic clock, no other node has answered anything that our store lacks.
struct NodeWord: ~Copyable, Sendable {
    /// Time from one round of questions to the next (OPS-7).
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

    /// Whether to begin a round. Called on the link's thread.
    /// - Parameter awaited: the latest time that somebody needs to know about.
    func mustAsk(for awaited: UInt64, at nanoseconds: UInt64) -> Bool {
        let last = asked.load(ordering: .relaxed)
        guard last < awaited, nanoseconds >= last + Self.pauseNanoseconds else { return false }
        asked.store(nanoseconds, ordering: .relaxed)
        return true
    }
}

extension NodeLinks {
    /// The ERROR field by which a node says that it is cut off too.
    static let cutOffField = "log"

    /// Whether we are cut off: not active, no answer from the log, no link to an active node.
    var isCutOff: Bool {
        guard cluster.hold == nil, !isUp else { return false }
        return cluster.trouble != nil
    }

    /// The link's last PONG and last COMMITTED. Read them before you take the rows that came with them.
    var heard: (pong: UInt64, row: UInt64) {
        let pong = nowOrNever.heard
        return (pong, committedRow)
    }

    /// The rows that had come over the link have been taken.
    /// - Parameters:
    ///   - heard: what `heard` was before.
    ///   - row: the last applied row. Not every row comes over the link.
    func noteApplied(_ heard: (pong: UInt64, row: UInt64), through row: UInt64) {
        guard heard.pong > 0, heard.row <= row, rows.isFed else { return }
        word.fed(through: heard.pong)
    }

    /// Asks all other nodes whether they are cut off too, if somebody waits for that. Called on the link's thread.
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

    /// Whether another node says that it is cut off too, and has no row that we lack.
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
