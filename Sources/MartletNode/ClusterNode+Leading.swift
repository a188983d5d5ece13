// SPDX-License-Identifier: Apache-2.0
//
// The committer of the active node: what a transaction writes to the log beside its changes, and what happens if the log
// refuses it (OPS-7). Rests on ClusterNode.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletTransport
import Synchronization

extension ClusterNode: CommitLog {
    var hasWork: Bool { state.hasWork }

    func mayBegin(_ transport: inout some Transport & ~Copyable) -> Bool {
        guard isStillActive() else { return false }
        tellFresh(&transport)
        positionBefore = position
        return true
    }

    /// Whether the active node may begin another transaction.
    private func isStillActive() -> Bool {
        var began: UInt64
        var mustHandOver: Bool
        while true {
            began = SystemClock.monotonicNanoseconds()
            let (hold, isFenced, hasFailed, handsOver) = state.withLock {
                ($0.hold, $0.isFenced, $0.hasRenewalFailed, $0.mustHandOver)
            }
            mustHandOver = handsOver
            if isFenced {
                stepDown("another node has the lease")
                return false
            }
            let now = ClusterState.now
            if let hold, hold.isValid(at: now) { break }
            // A renewal is under way and the log is slow. If it succeeds, nobody has taken over.
            guard let hold, !hasFailed, now - hold.end < ClusterLimits.leaseGrace else {
                stepDown("the lease could not be renewed in time")
                return false
            }
            committer.heartbeat.end()
            SystemClock.pause(microseconds: 5000)
        }
        if mustHandOver, !committer.isStopping.load(ordering: .acquiring) {
            release()
            stepDown("the role is handed over")
            // A look at the lease may be under way that began before the handover.
            state.withLock { $0.claimsFrom = ClusterState.now + ClusterLimits.handedOver }
            return false
        }
        // No row is under way, the loops know of all rows, and we were active when the look began.
        state.isChangingRecipients.store(false, ordering: .releasing)
        state.isAppending.store(false, ordering: .releasing)
        state.noteFresh(at: began)
        state.completeAt.store(began, ordering: .relaxed)
        return true
    }

    /// Lets the loops look again at HELLOs that waited for the row under way.
    private func tellFresh(_ transport: inout some Transport & ~Copyable) {
        guard state.waiterCount.load(ordering: .relaxed) > 0 else { return }
        // A link to the former active node may have opened after the takeover. Drop its messages.
        links.nowOrNever.drop()
        committer.tellAll(.fresh, &transport)
    }

    func refusalOfWaiting() -> MartletError? {
        guard case .away(let error) = lastRefusal, isRefusedForLong(error) else { return nil }
        return .noActiveNode("the log takes no rows")
    }

    var heldCount: Int? { doubted?.batch.count }

    func endProcess(_ error: StorageError) -> Never {
        committer.logger.critical(
            "the store cannot take what the cluster's log has; the process ends",
            metadata: ["error": "\(error)"])
        exit(EX_IOERR)
    }

    func published(isLogged: Bool) {
        // Messages of devices that were handed out without a row wait for the word too.
        if isLogged || position != positionBefore { links.committed(position) }
    }

    /// Decides what to do after the log hasn't taken a transaction. All its commands wait again.
    func mayGoOn() -> Bool {
        switch lastRefusal {
        case .leaseOver: return isStillActive()
        case .fenced: stepDown("another node has taken over")
        case .doubt(let row): stepDown("the log does not tell the fate of row \(row.row)")
        case .away:
            // The next transaction tries the commands again, or they are refused. Meanwhile the lease is renewed or runs out.
            SystemClock.pause(microseconds: 20_000)
            return true
        }
        return false
    }

    func append(
        _ operations: [UInt8], of batch: [Request], _ done: Committer.Committed, at now: Instant
    ) throws(LogRefusal) -> LogPosition? {
        owner?.logs(now, done.own, batch, done.outcomes)
        if batch.contains(where: \.command.changesRecipients) {
            state.isChangingRecipients.store(true, ordering: .releasing)
        }
        do throws(RowRefusal) {
            return try append(
                operations, events(of: batch, done), outcomes(of: batch, done), at: now)
        } catch {
            if case .doubt(let row) = error {
                doubted = DoubtedBatch(row: row, batch: batch, outcomes: done.outcomes)
            }
            lastRefusal = error
            throw LogRefusal()
        }
    }

    /// A row's events: the news of runs, and what other nodes' loops hear, in the order in which `publish` tells ours.
    private func events(of batch: [Request], _ done: Committer.Committed) -> [ClusterEvent] {
        var events = runEvents
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
    /// Begins and ends nodes' runs.
    func begin(now: Instant, in transaction: borrowing Transaction) throws(StorageError) {
        ownRunBegun = nil
        runEvents = []
        let (silent, wanted) = state.withLock { ($0.silent, $0.wanted) }
        for node in silent {
            if let run = try transaction.connections.endRun(of: node, now: now) {
                runEvents.append(.runEnded(run))
            }
        }
        for process in wanted {
            let ended = try transaction.connections.livingRuns().first {
                $0.node == process.node && $0.process != process.process
            }
            if let ended { runEvents.append(.runEnded(ended.number)) }
            let number = try transaction.connections.beginRun(
                of: process.node, process: process.process, now: now)
            if process.process == state.process { ownRunBegun = number }
            runEvents.append(
                .runBegan(
                    LivingRunsRow.Run(
                        number: number, process: process.process, node: process.node)))
        }
    }

    /// Forgets the wishes that a committed transaction has met. The row counts as under way until the loops have heard of it:
    /// a store is as new as what the loops know of it (TTL-2).
    func committed() {
        state.withLock { [runEvents] state in
            for event in runEvents {
                guard case .runBegan(let run) = event else { continue }
                state.wanted.removeAll { $0.node == run.node && $0.process == run.process }
            }
            // A named node's run may have ended before, in which case there is no news.
            state.silent = []
        }
        if !runEvents.isEmpty { links.nowOrNever.expect(otherProcesses) }
        owner?.committed()
    }

    /// Drops forwarded commands from earlier epochs and ended runs. Their nodes forward them again.
    func drop(_ batch: inout [Request]) {
        batch.removeAll { mustDrop($0) }
    }

    func refusal(of request: Request) -> MartletError? {
        mustDrop(request) ? .noActiveNode("the command's node has ended") : nil
    }

    private func mustDrop(_ request: Request) -> Bool {
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
    private func outcomes(of batch: [Request], _ done: Committer.Committed) -> [LoggedOutcome] {
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
