// SPDX-License-Identifier: Apache-2.0
//
// A node without a broker: its store is the list of its rows. The node follows the log, takes over when the lease is
// over, and writes rows as long as it counts on its lease. Rests on SimulatedLog.

import MartletCluster
import MartletRows
import MartletSimulator

/// A guard that a node gives up on purpose.
enum NodeCanary: Sendable {
    /// A row in doubt is answered as accepted.
    case doubtIsAcceptance
    /// A row in doubt is answered as refused for certain.
    case doubtIsRefusal
    /// A row is answered before the log has it.
    case earlyAnswer
    /// A row is put into the store before the log has it.
    case earlyStore
    /// Rows are applied without a look at their chains, and a log of another history is no alarm.
    case chain
}

/// What senders were told of rows. A body occurs once.
final class Answers {
    var accepted: Set<[UInt8]> = []
    var refused: Set<[UInt8]> = []
}

final class HistoryNode {
    private enum Role {
        case following
        case active(LeaseHold)
        /// The log has another history than the store.
        case stopped
    }

    private static let life = ClusterLimits.leaseLife
    private static let limit = Duration.milliseconds(800)

    let name: NodeName
    private let log: SimulatedLog
    private let agenda: Agenda
    private let answers: Answers
    private let canary: NodeCanary?
    /// Whether the node writes without a look at its lease.
    private let ignoresLease: Bool
    private let beginning: LogPosition

    private(set) var store: [ReplicatedRow] = []
    private var role = Role.following
    private var renewed = Duration.zero
    /// The row in doubt.
    private var doubted: ReplicatedRow?
    private var rowCount = 0
    private var attemptCount = 0
    private var isBusy = false

    /// Whether the node still writes.
    var isWriting = true
    private(set) var takeoverCount = 0
    private(set) var doubtCount = 0

    init(
        _ name: NodeName, on database: SimulatedDatabase, beginning: LogPosition, answers: Answers,
        canary: NodeCanary?, ignoresLease: Bool
    ) {
        self.name = name
        log = SimulatedLog(database, node: name)
        agenda = database.agenda
        self.beginning = beginning
        self.answers = answers
        self.canary = canary
        self.ignoresLease = ignoresLease
    }

    var position: LogPosition { store.last?.position ?? beginning }
    var isActive: Bool { if case .active = role { true } else { false } }
    var isStopped: Bool { if case .stopped = role { true } else { false } }
    private var now: Duration { .microseconds(agenda.now) }

    func turn() {
        // The turn before waits for the log.
        guard !isBusy else { return }
        isBusy = true
        defer { isBusy = false }
        switch role {
        case .following: follow()
        case .active(let hold): act(hold)
        case .stopped: break
        }
    }

    // MARK: Following

    private func follow() {
        do throws(LogError) {
            while true {
                let rows = try log.rows(after: position, bytesMax: 200, within: Self.limit)
                guard !rows.isEmpty else { break }
                guard canary == .chain || rows.firstDivergence(after: position) == nil else {
                    role = .stopped
                    return
                }
                store += rows
            }
            guard try log.lease(within: Self.limit).isOver else { return }
        } catch {
            if case .diverged = error, canary != .chain { role = .stopped }
            return
        }
        takeOver()
    }

    private func takeOver() {
        attemptCount += 1
        let row = ReplicatedRow(
            after: position, epoch: position.epoch + 1,
            body: Array("\(name) takes over, attempt \(attemptCount)".utf8))
        let start = now
        let claim = LeaseClaim(node: name, address: "", life: Self.life)
        guard log.takeOver(row, after: position, as: claim, within: Self.limit) == .taken else {
            return
        }
        store.append(row)
        takeoverCount += 1
        renewed = start
        role = .active(LeaseHold(epoch: row.position.epoch, from: start, life: Self.life))
    }

    // MARK: Writing

    private func act(_ hold: LeaseHold) {
        guard ignoresLease || hold.isValid(at: now) else { return stepDown() }
        if now - renewed >= ClusterLimits.leaseRenewal {
            let start = now
            switch Result(catching: { () throws(LogError) in
                try log.renewLease(epoch: hold.epoch, life: Self.life, within: Self.limit)
            }) {
            case .success(true):
                renewed = start
                role = .active(LeaseHold(epoch: hold.epoch, from: start, life: Self.life))
            case .success(false): if !ignoresLease || !isWriting { stepDown() }
            case .failure: break
            }
            return
        }
        if let doubted { return settle(doubted) }
        guard isWriting else { return }
        rowCount += 1
        let row = ReplicatedRow(
            after: position, epoch: hold.epoch, body: Array("\(name) row \(rowCount)".utf8))
        if canary == .earlyAnswer { answers.accepted.insert(row.body) }
        if canary == .earlyStore {
            let predecessor = position
            store.append(row)
            guard log.append(row, after: predecessor, within: Self.limit) == .accepted else {
                return stepDown()
            }
            answers.accepted.insert(row.body)
            return
        }
        judge(log.append(row, after: position, within: Self.limit), of: row)
    }

    /// Looks for a row in doubt, and appends it once more if it is not there.
    private func settle(_ row: ReplicatedRow) {
        do throws(LogError) {
            switch try log.fate(of: row.position, within: Self.limit) {
            case .accepted: judge(.accepted, of: row)
            case .refused(let epoch): judge(.refused(.taken(epoch: epoch)), of: row)
            case .absent: judge(log.append(row, after: position, within: Self.limit), of: row)
            }
        } catch {
            // The doubt stays.
        }
    }

    private func judge(_ outcome: AppendOutcome, of row: ReplicatedRow) {
        switch outcome {
        case .accepted:
            doubted = nil
            store.append(row)
            answers.accepted.insert(row.body)
        case .refused(let refusal):
            doubted = nil
            answers.refused.insert(row.body)
            if case .failed = refusal { return }
            stepDown()
        case .inDoubt:
            doubtCount += 1
            switch canary {
            case .doubtIsAcceptance: answers.accepted.insert(row.body)
            case .doubtIsRefusal: answers.refused.insert(row.body)
            default: break
            }
            doubted = row
        }
    }

    /// Follows again. The sender of a row in doubt is told nothing.
    private func stepDown() {
        doubted = nil
        role = .following
    }
}
