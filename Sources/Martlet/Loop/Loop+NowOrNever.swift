// SPDX-License-Identifier: Apache-2.0
//
// Sends a now-or-never message from the loop that the sender is connected to, from a snapshot of its own (TTL-2). Connections
// of this loop get the message in the same turn. Other loops, and other nodes, are told once a turn,
// unless each recipient is connected here. Rests on NowOrNeverSender.

import MartletBase
import MartletCommitter
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

/// TTL-2: sends now-or-never messages.
struct NowOrNeverOutbox: ~Copyable {
    var sender: NowOrNeverSender
    /// The fanouts for the other loops, handed over once a turn.
    var forOthers: [Fanout] = []
    /// OPS-7: the bytes of `forOthers`, which bound a frame to other nodes.
    var bytesForOthers = 0
    /// Called for each now-or-never message, if an owner steps the loop.
    var observe: ((Command, Outcome) -> Void)?
}

extension Loop where Kernel: ~Copyable {
    mutating func sendNowOrNever(
        _ message: SendCommand, in project: ProjectNumber, _ correlation: UInt32,
        _ connection: UnsafeMutablePointer<Connection>, _ now: Instant
    ) throws(MartletError) {
        let outcome: Outcome
        do {
            let store = context.store
            let inProgressCount = delivery.nowOrNeverCount(of: project)
            outcome = try store.read { (transaction) throws(StorageError) in
                try nowOrNever.sender.send(
                    message, in: project, inProgressCount: inProgressCount, now: now, transaction)
            }
        } catch {
            throw .unreadable(error)
        }
        nowOrNever.observe?(.send(project: project, message: message), outcome)
        switch outcome {
        case .accepted(let acceptance, let fanouts):
            context.committer.acceptedCount.add(1, ordering: .relaxed)
            begin(nowOrNever: fanouts, now)
            context.committer.watches.sent(message, in: project, outcome)
            send(acceptance.frame(correlation: correlation), to: connection)
        case .refused(let error):
            context.committer.watches.refused(error, in: project)
            throw error
        default: preconditionFailure("A message is accepted or refused.")
        }
    }

    private mutating func begin(nowOrNever fanouts: [Fanout], _ now: Instant) {
        guard let first = fanouts.first else { return }
        let loopCount = context.peers.count
        let hasOthers = loopCount > 1 || context.committer.node != nil
        let isForOthers = hasOthers && !fanouts.allSatisfy { delivery.isConnected(to: $0) }
        context.committer.begin(
            first.progress, loops: isForOthers ? loopCount : 1, isForNodes: isForOthers, at: now)
        for fanout in fanouts { begin(fanout) }
        guard isForOthers else { return }
        nowOrNever.forOthers += fanouts
        guard let node = context.committer.node else { return }
        for fanout in fanouts { nowOrNever.bytesForOthers += fanout.byteCount }
        if nowOrNever.bytesForOthers > node.nowOrNeverFrameBytes { handOverNowOrNever() }
    }

    /// Hands the turn's now-or-never fanouts to the other nodes and loops. A loop with too many waiting messages is left out.
    mutating func handOverNowOrNever() {
        var fanouts: [Fanout] = []
        swap(&fanouts, &nowOrNever.forOthers)
        nowOrNever.bytesForOthers = 0
        context.committer.tellNodes(nowOrNever: fanouts) { tellOtherLoops(fanouts) }
    }

    private mutating func tellOtherLoops(_ fanouts: [Fanout]) {
        for (number, loop) in context.peers.all.enumerated() where number != context.number {
            if loop.inbox.count < NowOrNeverSending.waitingMax,
                case .taken(let mustWake) = loop.inbox.push(fanouts.map { .news(.fanout($0)) })
            {
                if mustWake { transport.wake(loop.address, value: 1) }
                continue
            }
            let now = context.clock()
            for fanout in fanouts { fanout.progress?.endPart(at: now) }
            delivery.drop(fanouts.count)
        }
    }
}
