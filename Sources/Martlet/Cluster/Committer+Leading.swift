// SPDX-License-Identifier: Apache-2.0
//
// The committer of the active node: what a transaction writes to the log beside its changes, and what happens if the log
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
    /// Writes a transaction: to the store only, or first to the cluster's log.
    func write(
        _ body: (borrowing Transaction) throws(StorageError) -> Committed,
        log: (_ operations: [UInt8], _ done: Committed) throws(LogRefusal) -> LogPosition?
    ) throws(LoggedWriteError<LogRefusal>) -> Committed {
        guard cluster == nil else { return try store.write(body, log: log) }
        do throws(StorageError) { return try store.write(body) } catch { throw .store(error) }
    }

    /// Ends the process, because the log has a row that our store can't take. The next process reads it from the log.
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
            // A renewal is under way and the log is slow. If it succeeds, nobody has taken over.
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
            // A look at the lease may be under way that began before the handover.
            cluster.withLock { $0.claimsFrom = ClusterState.now + ClusterLimits.handedOver }
            return false
        }
        // No row is under way, the loops know of all rows, and we were active when the look began.
        cluster.isChangingRecipients.store(false, ordering: .releasing)
        cluster.isAppending.store(false, ordering: .releasing)
        cluster.noteFresh(at: began)
        cluster.completeAt.store(began, ordering: .relaxed)
        return true
    }

    /// Lets the loops look again at HELLOs that waited for the row under way.
    func tellFresh(_ transport: inout some Transport & ~Copyable) {
        guard let cluster, cluster.waiterCount.load(ordering: .relaxed) > 0 else { return }
        // A link to the former active node may have opened after the takeover. Drop its messages.
        links?.live.drop()
        let loops = allLoops
        tell([[LoopMessage]](repeating: [.fresh], count: loops.count), loops, &transport)
    }

    /// Decides what to do after the log hasn't taken a transaction. All its commands wait again.
    /// - Returns: whether we are still active.
    func goesOn(leading node: ClusterNode, after refusal: LogRefusal) -> Bool {
        switch refusal {
        case .leaseOver: return goesOn(leading: node)
        case .fenced: node.stepDown("another node has taken over")
        case .doubt(let row):
            node.stepDown("the log does not tell the fate of row \(row.row)")
        case .away:
            // The next transaction tries the commands again, or they are refused. Meanwhile the lease is renewed or runs out.
            usleep(20_000)
            return true
        }
        return false
    }

    /// What other nodes' loops hear of a transaction, in the order in which `publish` tells ours.
    func events(of batch: [Request], _ done: Committed) -> [ClusterEvent] {
        var events: [ClusterEvent] = []
        func tell(_ outcome: Outcome, of command: Command? = nil) {
            var told = OutcomeNews()
            told.add(outcome, of: command)
            for news in told.loops { events.append(.news(news)) }
        }
        for outcome in done.own { tell(outcome) }
        for (request, outcome) in zip(batch, done.outcomes) {
            tell(outcome, of: request.command)
            if case .node(let run, let number, _) = request.reply, !outcome.isUnfinished {
                events.append(.answered(run: run, number: number))
            }
        }
        return events
    }
}

extension Command {
    /// Whether a message that is sent afterwards may have other recipients, or be refused (TTL-2).
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

extension ClusterState {
    /// Whether there is work without a command: runs must begin or end, or we must give up the role.
    var hasWork: Bool {
        withLock { state in
            state.hold != nil
                && (!state.wanted.isEmpty || !state.silent.isEmpty || state.isFenced
                    || state.mustHandOver)
        }
    }
}

extension ClusterNode {
    /// Begins and ends nodes' runs, as a transaction's first change.
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

    /// Forgets the wishes that a committed transaction has met. The row counts as under way until the loops have heard of it:
    /// a store is as new as what the loops know of it (TTL-2).
    func committed(_ news: [ClusterEvent]) {
        state.withLock { state in
            for event in news {
                guard case .runBegan(let run) = event else { continue }
                state.wanted.removeAll { $0.node == run.node && $0.process == run.process }
            }
            // A named node's run may have ended before, in which case there is no news.
            state.silent = []
        }
    }

    /// Drops forwarded commands from earlier epochs and ended runs. Their nodes forward them again.
    func drop(_ batch: inout [Request]) {
        batch.removeAll { mustDrop($0) }
    }

    func mustDrop(_ request: Request) -> Bool {
        guard case .node(let run, _, let epoch) = request.reply else { return false }
        return epoch != self.epoch || livingRuns[run] == nil
    }

    /// The runs that commands come from.
    func runs(of batch: ArraySlice<Request>) -> [UInt32] {
        let own = ownRunBegun ?? state.run ?? 0
        return batch.map { request in
            if case .node(let run, _, _) = request.reply { run } else { own }
        }
    }

    /// Forwarded commands' outcomes, for their transaction's row.
    func outcomes(of batch: [Request], _ done: Committer.Committed) -> [LoggedOutcome] {
        zip(batch, done.outcomes).compactMap { request, outcome in
            outcome.isUnfinished ? nil : LoggedOutcome(request, outcome)
        }
    }

    /// Keeps a forwarded command's outcome for the next row.
    func answer(_ request: Request, _ outcome: Outcome) {
        guard let outcome = LoggedOutcome(request, outcome) else { return }
        keep(outcome)
    }
}

extension LoggedOutcome {
    /// nil for one of our own commands.
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
