// SPDX-License-Identifier: Apache-2.0
//
// The committer of the active node: what a transaction adds to the log beside its changes, and what happens when the log
// refuses it (OPS-7). Rests on ClusterNode.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletEngine
import MartletForwarding
import MartletRows
import MartletStore
import MartletTransport
import Synchronization

extension Committer {
    /// Writes a transaction: to the store alone, or to the log of the cluster before its commit.
    func write(
        _ body: (borrowing Transaction) throws(StorageError) -> Committed,
        log: (_ operations: [UInt8], _ done: Committed) throws(LogRefusal) -> LogPosition?
    ) throws(LoggedWriteError<LogRefusal>) -> Committed {
        guard cluster == nil else { return try store.write(body, log: log) }
        do throws(StorageError) { return try store.write(body) } catch { throw .store(error) }
    }

    /// Ends the process: the log has a row that the store cannot have. The next process reads the row from the log.
    func endProcess(_ error: StorageError) -> Never {
        logger.critical(
            "the store cannot take what the cluster's log has; the process ends",
            metadata: ["error": "\(error)"])
        exit(EX_IOERR)
    }

    /// Whether the active node may begin another transaction.
    func goesOn(leading node: ClusterNode) -> Bool {
        guard let cluster else { return true }
        var began: UInt64
        var mustHandOver: Bool
        while true {
            began = SystemClock.monotonicNanoseconds()
            let (hold, isFenced, hasFailed, handsOver) = cluster.withLock {
                ($0.hold, $0.isFenced, $0.hasRenewalFailed, $0.mustHandOver)
            }
            mustHandOver = handsOver
            if isFenced {
                node.stepDown("another node has the lease")
                return false
            }
            let now = ClusterState.now
            if let hold, hold.isValid(at: now) { break }
            // A renewal of a slow log is under way. If the renewal succeeds, no other node has taken over.
            guard let hold, !hasFailed, now - hold.end < ClusterLimits.leaseGrace else {
                node.stepDown("the lease could not be renewed in time")
                return false
            }
            heartbeat.end()
            usleep(5000)
        }
        if mustHandOver, !isStopping.load(ordering: .acquiring) {
            node.release()
            node.stepDown("the role is handed over")
            // The look at the lease that is under way may have begun before the handover.
            cluster.withLock { $0.claimsFrom = ClusterState.now + ClusterLimits.handedOver }
            return false
        }
        // No row is under way here, the loops are told of all rows, and at the beginning of the look the node was
        // active.
        cluster.isChangingRecipients.store(false, ordering: .releasing)
        cluster.isAppending.store(false, ordering: .releasing)
        cluster.noteFresh(at: began)
        cluster.completeAt.store(began, ordering: .relaxed)
        return true
    }

    /// Has the loops look again at HELLOs that waited for the row under way.
    func tellFresh(_ transport: inout some Transport & ~Copyable) {
        guard let cluster, cluster.waiterCount.load(ordering: .relaxed) > 0 else { return }
        // A link to the former active node may have opened after the takeover. Its messages are dropped.
        links?.live.drop()
        let loops = allLoops
        tell([[LoopMessage]](repeating: [.fresh], count: loops.count), loops, &transport)
    }

    /// Decides about the node's role after a transaction that the log has not taken. All its commands wait again.
    /// - Returns: whether the node is still active.
    func goesOn(leading node: ClusterNode, after refusal: LogRefusal) -> Bool {
        switch refusal {
        case .leaseOver: return goesOn(leading: node)
        case .fenced: node.stepDown("another node has taken over")
        case .doubt(let row):
            node.stepDown("the log does not tell the fate of row \(row.row)")
        case .away:
            // The commands are tried again with the next transaction, or are refused. Meanwhile the lease is renewed or ends.
            usleep(20_000)
            return true
        }
        return false
    }

    /// What the loops of other nodes are told of a transaction, in the order in which `publish` tells this node's.
    func events(of batch: [Request], _ done: Committed) -> [ClusterEvent] {
        var events: [ClusterEvent] = []
        func begin(_ fanouts: [Fanout]) { events += fanouts.map { .fanout($0) } }
        for outcome in done.own {
            switch outcome {
            case .accepted(_, let fanouts): begin(fanouts)
            case .unregistered(let project, let ordinal, let holder):
                events.append(.disconnect(project, ordinal, holder))
            default: break
            }
        }
        for (request, outcome) in zip(batch, done.outcomes) {
            if let keyID = request.command.revokedKeyID, !outcome.isRefused,
                !outcome.isUnfinished
            {
                events.append(.revoked(keyID: keyID))
            }
            if let connected = ClusterEvent(connected: request.command, outcome) {
                events.append(connected)
            }
            switch outcome {
            case .accepted(_, let fanouts), .upstreamAccepted(_, let fanouts): begin(fanouts)
            case .project(let project):
                events.append(.weight(project.number, project.weight))
            case .unregistered(let project, let ordinal, let holder):
                events.append(.disconnect(project, ordinal, holder))
            case .cancelled(let project, _, let sequence?):
                events.append(.cancel(project, sequence))
            case .receiptKept(let project?): events.append(.receipts(project))
            default: break
            }
            if case .node(let run, let number, _) = request.reply, !outcome.isUnfinished {
                events.append(.answered(run: run, number: number))
            }
        }
        return events
    }
}

extension Command {
    /// TTL-2: whether a message that is sent afterwards may have other recipients, or be refused.
    var changesRecipients: Bool {
        switch self {
        case .send, .acknowledge, .connected, .cancel, .receipt, .takeReceipts, .upstream,
            .takeUpstream, .touch, .count:
            false
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry, .register, .changeBridge, .unregister,
            .unregisterToken, .changeTopics, .changeTopic, .createGroup, .changeGroup, .rotate:
            true
        }
    }
}

extension Outcome {
    var isUnfinished: Bool { if case .unfinished = self { true } else { false } }
}

extension ClusterEvent {
    /// The event of a device's connection; nil for all other commands.
    init?(connected command: Command, _ outcome: Outcome) {
        guard case .connected(let project, let ordinal, _, let connection) = command,
            case .done = outcome
        else { return nil }
        self = .connected(project, ordinal, connectionNumber: connection.number)
    }
}

extension ClusterState {
    /// Whether the committer has work without a command: runs of nodes are to begin or end, or the node is to give the role
    /// up.
    var hasWork: Bool {
        withLock { state in
            state.hold != nil
                && (!state.wanted.isEmpty || !state.silent.isEmpty || state.isFenced
                    || state.mustHandOver)
        }
    }
}

extension ClusterNode {
    /// Begins and ends runs of nodes, as the first change of a transaction.
    func changeRuns(
        now: Instant, in transaction: borrowing Transaction
    ) throws(StorageError) -> [ClusterEvent] {
        ownRunBegun = nil
        let (silent, wanted) = state.withLock { ($0.silent, $0.wanted) }
        guard !silent.isEmpty || !wanted.isEmpty else { return [] }
        var events: [ClusterEvent] = []
        for node in silent {
            if let run = try transaction.connections.endRun(of: node, now: now) {
                events.append(.runEnded(run))
            }
        }
        for process in wanted {
            let ended = try transaction.connections.livingRuns().first {
                $0.node == process.node && $0.process != process.process
            }
            if let ended { events.append(.runEnded(ended.number)) }
            let number = try transaction.connections.beginRun(
                of: process.node, process: process.process, now: now)
            if process.process == state.process { ownRunBegun = number }
            events.append(
                .runBegan(
                    LivingRunsRow.Run(
                        number: number, process: process.process, node: process.node)))
        }
        return events
    }

    /// Forgets the wishes that a committed transaction has met. The row stays under way until the loops are told of it:
    /// the store of a node counts as new when the loops know what is in it (TTL-2).
    func committed(_ news: [ClusterEvent]) {
        state.withLock { state in
            for event in news {
                guard case .runBegan(let run) = event else { continue }
                state.wanted.removeAll { $0.node == run.node && $0.process == run.process }
            }
            // The run of a named node may have ended before, and then there is no news.
            state.silent = []
        }
    }

    /// Drops forwarded commands of former epochs and of runs that have ended. Their nodes forward them again.
    func drop(_ batch: inout [Request]) {
        batch.removeAll { mustDrop($0) }
    }

    func mustDrop(_ request: Request) -> Bool {
        guard case .node(let run, _, let epoch) = request.reply else { return false }
        return epoch != self.epoch || livingRuns[run] == nil
    }

    /// The runs of the nodes of commands.
    func runs(of batch: ArraySlice<Request>) -> [UInt32] {
        let own = ownRunBegun ?? state.run ?? 0
        return batch.map { request in
            if case .node(let run, _, _) = request.reply { run } else { own }
        }
    }

    /// The outcomes of forwarded commands, for the row of their transaction.
    func outcomes(of batch: [Request], _ done: Committer.Committed) -> [LoggedOutcome] {
        zip(batch, done.outcomes).compactMap { request, outcome in
            outcome.isUnfinished ? nil : LoggedOutcome(request, outcome)
        }
    }

    /// Keeps the outcome of a forwarded command for the next row.
    func answer(_ request: Request, _ outcome: Outcome) {
        guard let outcome = LoggedOutcome(request, outcome) else { return }
        keep(outcome)
    }
}

extension LoggedOutcome {
    /// nil for a command of this node.
    fileprivate init?(_ request: Request, _ outcome: Outcome) {
        guard case .node(let run, let number, _) = request.reply else { return nil }
        self.init(run: run, number: number, bytes: [])
        do throws(ForwardingError) { bytes = try outcome.forwarded() } catch {
            let refusal = MartletError(
                .resourceExhausted, "The answer is longer than a node may tell another (\(error)).")
            bytes = (try? Outcome.refused(refusal).forwarded()) ?? []
        }
    }
}
