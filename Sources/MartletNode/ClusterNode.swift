// SPDX-License-Identifier: Apache-2.0
//
// Connects a node's committer to the cluster's log, on the committer's thread (OPS-7). A node either leads or follows.
//
//   leading    A transaction is appended to the log between its last change and its commit. If the log accepts the row, it is
//              committed here, and only then does anybody hear of it. If the log refuses it, another node has taken over, and
//              it is aborted. If we are in doubt, we append it again until the log tells.
//   following  We apply the log's rows in order and tell the loops their events. Commands go to the active node, and are
//              answered once the row with their outcome is applied here.
//
// Rests on ReplicationLog and the store's redo.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import Synchronization

/// Why a transaction is not in the log, or may not be.
enum RowRefusal: Error {
    /// We can't count on our lease any more. Nothing was sent.
    case leaseOver
    /// Another node is active. The log will never have the row.
    case fenced
    /// The log takes nothing now. It will never have the row.
    case away(LogError)
    /// The log may have the row, or get it later. Its next row tells.
    case doubt(LogPosition)
}

/// The commands of a transaction whose row is in doubt.
struct DoubtedBatch {
    var row: LogPosition
    var batch: [Request]
    /// The outcomes, if the log has the row.
    var outcomes: [Outcome]
    /// When the first command came, in milliseconds of the monotonic clock.
    var since: Int64 { batch.lazy.map(\.since).min() ?? .max }
}

/// A row that is in the store, for loops and callers.
struct AppliedRow {
    var position: LogPosition
    var events: [ClusterEvent]
    var outcomes: [LoggedOutcome]
}

/// A node of a cluster. Only the committer's thread uses it.
final class ClusterNode {
    /// Bytes of bodies that a follower applies in one transaction (OPS-7).
    private static let applyBytesMax = 4 << 20
    /// Rows that a follower applies in one transaction (OPS-7).
    private static let applyRowsMax = 128

    let configuration: ClusterConfiguration
    let state: ClusterState
    let links: NodeLinks
    let committer: Committer
    /// nil: the committer's thread is its own.
    let owner: CommitterOwner?
    private let store: Store
    private let logger: Logger
    private let log: any ReplicationLog
    /// The store's last row.
    private(set) var position: LogPosition
    /// The last row's time. No transaction is earlier.
    private(set) var floor = Instant(rawValue: .min)
    /// The epoch in which we are active.
    private(set) var epoch: UInt32 = 0
    /// The runs that are alive after the last row, and the numbers of their processes.
    private(set) var livingRuns: [UInt32: UInt64] = [:]
    /// Other nodes' processes that have a living run.
    var otherProcesses: Set<UInt64> { Set(livingRuns.values).subtracting([state.process]) }
    /// Outcomes of forwarded commands that no row contains yet.
    private var unlogged: [LoggedOutcome] = []
    private var troubleTold = false
    /// Whether the log has had a run of this process.
    private var hasHadRun = false
    /// This process's run, while the transaction that begins it is open.
    var ownRunBegun: UInt32?
    /// The runs that the last transaction has begun and ended.
    var runEvents: [ClusterEvent] = []
    /// Why the log has not taken the last transaction that it refused.
    var lastRefusal = RowRefusal.leaseOver
    /// The store's last row when the transaction began.
    var positionBefore: LogPosition
    /// The last transaction from when we were active, if its row is in doubt.
    var doubted: DoubtedBatch?
    /// Since when the log has answered but taken no row.
    private var refusedSince: Duration?
    /// How often applying rows has failed since we last logged it, and when that was.
    private var unappliedCount = 0
    private var unappliedTold = Duration.zero
    /// When another process last began a run under our name.
    private var nameLost: Duration?
    /// Called with each row once the log has accepted it.
    var onAccepted: (ReplicatedRow) -> Void = { _ in }
    /// When the log was read last, in nanoseconds of the monotonic clock.
    private(set) var lastReading: UInt64 = 0
    /// When the log last failed to answer this thread.
    private var unanswered = Duration.zero
    /// Whether the log failed to answer this thread's last call, and hasn't answered another thread since.
    var isLogAway: Bool { troubleTold && state.withLock { $0.contact } <= unanswered }

    init(
        _ place: NodePlace, _ committer: Committer
    ) {
        configuration = place.configuration
        state = place.state
        links = place.links
        owner = place.owner
        self.committer = committer
        store = committer.store
        logger = committer.logger
        position = state.applied
        positionBefore = state.applied
        log = configuration.connect(configuration.report(state), .rows)
    }

    // MARK: Leading

    /// Takes a doubted row's commands that came before a time, so that they are refused. The log may still have the row.
    func takeDoubted(before time: Int64 = .max) -> [Request] {
        guard let doubted, doubted.since < time else { return [] }
        self.doubted = nil
        return doubted.batch
    }

    /// Appends an open transaction's row.
    /// - Returns: its place; nil if there is nothing to log.
    func append(
        _ operations: [UInt8], _ events: [ClusterEvent], _ outcomes: [LoggedOutcome],
        at now: Instant
    ) throws(RowRefusal) -> LogPosition? {
        guard let hold = state.hold, hold.epoch == epoch, hold.isValid(at: ClusterState.now) else {
            throw .leaseOver
        }
        let outcomes = unlogged + outcomes
        // If the log takes no rows, try it again with an empty one: while everybody is refused, nobody may send anything.
        guard
            !operations.isEmpty || !events.isEmpty || !outcomes.isEmpty || refusedSince != nil
        else { return nil }
        let redo = Redo(
            time: now, operations: operations, events: ClusterEvent.bytes(of: events),
            outcomes: LoggedOutcome.bytes(of: outcomes))
        let row = ReplicatedRow(
            after: position, epoch: epoch, body: redo.body(packing: configuration.packing))
        try append(row)
        unlogged = []
        floor = max(floor, now)
        learn(events)
        return row.position
    }

    private func append(_ row: ReplicatedRow) throws(RowRefusal) {
        let began = ClusterState.now
        // Followers may read the row from the log before we have committed.
        state.isAppending.store(true, ordering: .releasing)
        var isInDoubt = false
        while true {
            // Shorten the last call, so that the doubt ends in time even if it is slow.
            let left = max(
                ClusterLimits.doubt - (ClusterState.now - began), ClusterLimits.doubtLeast)
            switch attempt({ log.append(row, after: position, within: min($0, left)) }) {
            case .accepted:
                position = row.position
                let took = ClusterState.now - began
                state.withLock { state in
                    state.appendCount += 1
                    state.appendBytes += UInt64(row.body.count)
                    state.appendNanoseconds += UInt64(took / .nanoseconds(1))
                    state.applied = row.position
                    state.contact = ClusterState.now
                }
                noteTaken()
                onAccepted(row)
                return
            case .refused(.failed(let error)): throw .away(error)
            case .refused: throw .fenced
            case .inDoubt(let error):
                if !isInDoubt {
                    isInDoubt = true
                    state.withLock { $0.doubtCount += 1 }
                    logger.warning(
                        "a row is in doubt",
                        metadata: ["row": "\(row.position.row)", "error": "\(error)"])
                }
                guard ClusterState.now - began < ClusterLimits.doubt else {
                    throw .doubt(row.position)
                }
                SystemClock.pause(microseconds: 20_000)
            }
        }
    }

    /// The log has answered but not taken a row.
    /// - Returns: whether it has been like that for some seconds.
    func isRefusedForLong(_ error: LogError) -> Bool {
        let now = ClusterState.now
        guard let refusedSince else {
            refusedSince = now
            logger.error("the log takes no rows", metadata: ["error": "\(error)"])
            return false
        }
        guard now - refusedSince >= ClusterLimits.refusing else { return false }
        state.withLock { $0.appendTrouble = "\(error)" }
        return true
    }

    private func noteTaken() {
        guard refusedSince != nil else { return }
        refusedSince = nil
        state.withLock { $0.appendTrouble = nil }
        logger.notice("the log takes rows again")
    }

    private func attempt(_ append: (_ limit: Duration) -> AppendOutcome) -> AppendOutcome {
        func isAnswered(_ outcome: AppendOutcome) -> Bool {
            switch outcome {
            case .accepted, .refused(.taken), .refused(.predecessor): true
            case .refused(.failed), .inDoubt: false
            }
        }
        do throws(LogError) {
            return try state.call(isAnswered: isAnswered, { append($0) })
        } catch {
            // `append` throws nothing else.
            return .inDoubt(error)
        }
    }

    /// Keeps a forwarded command's outcome that its transaction didn't log. The next row will contain it.
    func keep(_ outcome: LoggedOutcome) { unlogged.append(outcome) }

    /// Another process has our name. It may be gone already: its HELLO may have lain unread while the active node was frozen.
    /// So we ask for a new run once more. If two processes with one name are alive, both ask, and the first to lose the name
    /// twice stops.
    private func loseName() {
        let now = ClusterState.now
        if let nameLost {
            // An active node that was frozen reads all of an ended process's links at once.
            guard now - nameLost >= ClusterLimits.nameLostOnce else { return }
            if now - nameLost < ClusterLimits.nameLostAgain {
                stop(NodeNameTaken(name: configuration.node))
            }
        }
        nameLost = now
    }

    /// Takes in what a row says about runs. For another node's row, after its outcomes.
    /// - Returns: whether the row ends this process's run.
    @discardableResult
    func learn(_ events: [ClusterEvent]) -> Bool {
        var isOwnEnd = false
        for event in events {
            switch event {
            case .runBegan(let run):
                livingRuns[run.number] = run.process
                if run.process == state.process {
                    hasHadRun = true
                    state.withLock { $0.run = run.number }
                } else if run.node == configuration.node.text, hasHadRun {
                    loseName()
                }
            case .tookOver(let name): state.withLock { $0.leader = name }
            case .runEnded(let run):
                livingRuns[run] = nil
                let isOwn = state.withLock { state in
                    defer { if state.run == run { state.run = nil } }
                    return state.run == run
                }
                if isOwn { isOwnEnd = true }
            default: break
            }
        }
        return isOwnEnd
    }

    /// Follows again, because the log says so or the lease is over.
    func stepDown(_ reason: String) {
        unlogged = []
        state.withLock { state in
            state.hold = nil
            state.isFenced = false
            state.mustHandOver = false
            // Nobody uses this epoch's lease any more, so nobody need wait for its end.
            state.goneEpoch = epoch
            state.appendTrouble = nil
        }
        refusedSince = nil
        logger.warning("this node is no longer active", metadata: ["reason": "\(reason)"])
    }

    /// Ends the lease for a successor. Append nothing afterwards.
    func release() {
        let (hadHold, successor) = state.withLock { state in
            defer { state.hold = nil }
            return (state.hold != nil, state.successor)
        }
        guard hadHold else { return }
        do throws(LogError) {
            _ = try state.call { (limit) throws(LogError) in
                guard let successor else {
                    return try log.releaseLease(epoch: epoch, within: limit)
                }
                return try log.handLease(epoch: epoch, to: successor, within: limit)
            }
        } catch {
            // The lease will run out anyway.
            note(error)
        }
    }

    /// Makes room for rows before they are appended.
    func makeRoom() {
        do throws(LogError) {
            try state.call { (limit) throws(LogError) in
                try log.makeRoom(
                    through: position.row + ClusterLimits.partitionRows, within: limit)
            }
        } catch {
            note(error)
        }
    }

    // MARK: Following

    /// Reads the next rows and applies them.
    /// - Returns: the rows, and whether the log has no more.
    func follow() -> (rows: [AppliedRow], isAtEnd: Bool) {
        let began = SystemClock.monotonicNanoseconds()
        lastReading = began
        let mustConfirm = state.waiterCount.load(ordering: .relaxed) > 0
        let read: [ReplicatedRow]
        do throws(LogError) {
            read = try state.call(commits: { !$0.isEmpty }) { (limit) throws(LogError) in
                try log.rows(
                    after: position, bytesMax: ClusterLimits.readBytesMax, within: limit)
            }
            // A server that has lost its standby shows no later rows and doesn't confirm.
            if read.isEmpty, mustConfirm {
                try state.call { (limit) throws(LogError) in try log.confirm(within: limit) }
            }
        } catch {
            note(error)
            return ([], true)
        }
        noteContact()
        if let diverging = read.firstDivergence(after: position) {
            stop(LogError.diverged(row: diverging.position.row))
            return ([], true)
        }
        guard !read.isEmpty else {
            state.completeAt.store(began, ordering: .relaxed)
            if mustConfirm { state.noteFresh(at: began) }
            return ([], true)
        }
        let applied = apply(read)
        let isWhole =
            read.count < ClusterLimits.readRowsMax
            && read.reduce(0) { $0 + $1.body.count } < ClusterLimits.readBytesMax
        if isWhole, applied.count == read.count {
            state.completeAt.store(began, ordering: .relaxed)
        }
        // If the store couldn't take a row, try again after a wait.
        return (applied, applied.count < read.count)
    }

    /// Applies the next rows, in order.
    /// - Returns: those applied; fewer if the store can't take a row.
    func apply(_ rows: [ReplicatedRow]) -> [AppliedRow] {
        var applied: [AppliedRow] = []
        var first = 0
        while first < rows.count {
            var (end, bytes) = (first, 0)
            while end < rows.count, end - first < Self.applyRowsMax,
                bytes < Self.applyBytesMax || end == first
            {
                bytes += rows[end].body.count
                end += 1
            }
            do {
                let redo = try rows[first..<end].map { row in
                    (
                        row.position,
                        try Redo(body: row.body, packing: configuration.packing)
                    )
                }
                let some = try redo.map { position, redo in
                    AppliedRow(
                        position: position, events: try ClusterEvent.events(redo.events),
                        outcomes: try LoggedOutcome.outcomes(redo.outcomes))
                }
                try store.apply(
                    redo.map { PlacedRedo(operations: $1.operations, position: $0) })
                position = rows[end - 1].position
                for (_, redo) in redo { floor = max(floor, redo.time) }
                applied += some
            } catch let error as RedoError {
                stop(error)
                break
            } catch {
                noteUnapplied(error)
                break
            }
            first = end
        }
        let position = position
        state.withLock { $0.applied = position }
        return applied
    }

    /// Logs that the store can't take rows, at most once a second.
    private func noteUnapplied(_ error: any Error) {
        unappliedCount += 1
        let now = ClusterState.now
        guard now - unappliedTold >= .seconds(1) else { return }
        logger.error(
            "rows of the log cannot be applied",
            metadata: ["error": "\(error)", "count": "\(unappliedCount)"])
        (unappliedTold, unappliedCount) = (now, 0)
    }

    /// Takes over if the lease is over and the log ends with the store's last row.
    /// - Returns: whether we are active now.
    func takeOver(at now: Instant) -> Bool {
        let (claimable, gone) = state.withLock { state in
            defer { state.claimable = nil }
            return (state.claimable, state.goneEpoch)
        }
        guard claimable == position.epoch else { return false }
        let isEarly = gone == position.epoch
        // Read this first: if it failed after the takeover, we would be active without acting on it and keep the others
        // waiting. The takeover's row changes no run.
        let runs: [LivingRunsRow.Run]
        do {
            runs = try store.read { (transaction) throws in
                try transaction.connections.livingRuns()
            }
        } catch {
            logger.error("the node cannot take over", metadata: ["error": "\(error)"])
            return false
        }
        let start = ClusterState.now
        let redo = Redo(
            time: max(now, floor), operations: [],
            events: ClusterEvent.bytes(of: [.tookOver(node: configuration.node.text)]),
            outcomes: LoggedOutcome.bytes(of: [
                // No command has run 0, so nobody else writes the same bytes.
                LoggedOutcome(run: 0, number: state.process, bytes: [])
            ]))
        let row = ReplicatedRow(
            after: position, epoch: position.epoch + 1,
            body: redo.body(packing: configuration.packing))
        let claim = LeaseClaim(
            node: configuration.node, address: configuration.address.text,
            life: state.withLock { $0.patience.leaseLife }, isEarly: isEarly)
        switch attempt({ log.takeOver(row, after: self.position, as: claim, within: $0) }) {
        case .taken: break
        case .held, .behind: return false
        case .failed(let error), .inDoubt(let error):
            note(error)
            return false
        }
        do {
            try store.apply([PlacedRedo(operations: [], position: row.position)])
        } catch {
            logger.error(
                "the takeover cannot be stored; the node follows", metadata: ["error": "\(error)"])
            return false
        }
        position = row.position
        livingRuns = Dictionary(
            runs.map { ($0.number, $0.process) }, uniquingKeysWith: { _, last in last })
        epoch = row.position.epoch
        floor = max(floor, redo.time)
        let process = LivingRunsRow.Run(
            number: 0, process: state.process, node: configuration.node.text)
        let (position, epoch) = (position, epoch)
        state.withLock { state in
            state.applied = position
            state.hold = LeaseHold(epoch: epoch, from: start, life: claim.life)
            state.hasRenewalFailed = false
            state.isFenced = false
            state.goneEpoch = nil
            state.takeoverCount += 1
            state.leader = process.node
            state.silent = []
            state.wanted = [process]
        }
        logger.notice(
            "this node is active", metadata: ["epoch": "\(epoch)", "row": "\(position.row)"])
        return true
    }

    private func attempt(_ takeOver: (_ limit: Duration) -> TakeoverOutcome) -> TakeoverOutcome {
        func isAnswered(_ outcome: TakeoverOutcome) -> Bool {
            switch outcome {
            case .taken, .held, .behind: true
            case .failed, .inDoubt: false
            }
        }
        do throws(LogError) {
            return try state.call(
                commits: { $0 == .taken }, isAnswered: isAnswered, { takeOver($0) })
        } catch {
            // `takeOver` throws nothing else.
            return .inDoubt(error)
        }
    }

    /// The outcome of a command that we have forwarded.
    func outcome(_ logged: LoggedOutcome) -> Outcome {
        do throws(ForwardingError) { return try Outcome(forwarded: logged.bytes) } catch {
            logger.error("an outcome cannot be read", metadata: ["error": "\(error)"])
            return .refused(
                MartletError(
                    .internal, "The command was applied, but its answer cannot be read (\(error)).")
            )
        }
    }

    // MARK: Trouble

    private func note(_ error: LogError) {
        switch error {
        case .diverged, .foreign, .trimmed, .missing: return stop(error)
        case .unavailable, .late, .unconfirmed, .present, .server, .setting: break
        }
        state.withLock { $0.trouble = "\(error)" }
        unanswered = ClusterState.now
        guard !troubleTold else { return }
        troubleTold = true
        logger.error("the cluster's log does not answer", metadata: ["error": "\(error)"])
    }

    private func noteContact() {
        state.withLock { state in
            state.contact = ClusterState.now
            state.trouble = nil
        }
        guard troubleTold else { return }
        troubleTold = false
        logger.notice("the cluster's log answers again")
    }

    /// Stops following for good: store and log don't belong together, or we can't understand the rows.
    private func stop(_ error: some Error) {
        let isNew = state.withLock { state in
            defer { state.stopped = "\(error)" }
            return state.stopped == nil
        }
        if isNew {
            logger.critical("this node has stopped following", metadata: ["error": "\(error)"])
        }
    }

    var isStopped: Bool { state.withLock { $0.stopped != nil } }
}
