// SPDX-License-Identifier: Apache-2.0
//
// Tells the oracle what the log has. A node shows a transaction before its row goes to the log. The oracle hears of
// the transaction as soon as any node knows the row as accepted, and before the node tells anybody. Rows are told in
// turn, so the oracle sees the history of the log. Rests on Oracle.

import Martlet
import MartletBase
import MartletCluster
import MartletEngine
import MartletRows

/// A transaction that a node has shown.
struct ObservedCommit {
    var now: Instant
    var own: [Outcome]
    var commands: [(command: Command, outcome: Outcome)]

    init(now: Instant, own: [Outcome], commands: [(Command, Outcome)]) {
        self.now = now
        self.own = own
        self.commands = commands.map { (command: $0, outcome: $1) }
    }
}

/// Watches the rows of a log.
final class CommitObserver {
    private let oracle: Oracle
    private var shown: [LogPosition: ObservedCommit] = [:]
    /// The last accepted row.
    private(set) var last: LogPosition
    private(set) var takeoverCount = 0

    init(_ oracle: Oracle, beginning: LogPosition) {
        self.oracle = oracle
        last = beginning
    }

    func show(_ transaction: ObservedCommit, at position: LogPosition) {
        shown[position] = transaction
    }

    /// Tells the oracle a row that a node knows as accepted.
    func accepted(_ position: LogPosition) {
        guard position.row > last.row else {
            if position.row == last.row, position != last {
                oracle.fail("row \(position.row) has two histories")
            }
            return
        }
        guard position.row == last.row + 1 else {
            return oracle.fail("row \(position.row) was accepted after row \(last.row)")
        }
        if position.epoch > last.epoch {
            takeoverCount += 1
            oracle.trace.note("takeover", Int(position.epoch))
            // Quotas begin anew with each active node.
            oracle.restarted()
        }
        last = position
        // Rows of the past are known, and rows of other histories are not asked for.
        if let transaction = shown.removeValue(forKey: position) { tell(transaction) }
        shown = shown.filter { $0.key.row > position.row }
    }

    func tell(_ transaction: ObservedCommit) {
        oracle.moment = transaction.now
        defer { oracle.moment = nil }
        if !transaction.commands.isEmpty {
            oracle.trace.note("committed", transaction.commands.count)
        }
        for outcome in transaction.own { oracle.happened(outcome) }
        for (command, outcome) in transaction.commands { oracle.committed(command, outcome) }
    }
}

/// What a process shows the observer.
final class NodeSight: @unchecked Sendable {
    private let observer: CommitObserver
    let process: SimulatedProcess
    /// The transaction that is open.
    var pending: ObservedCommit?

    init(_ observer: CommitObserver, _ process: SimulatedProcess) {
        self.observer = observer
        self.process = process
    }

    /// Shows the open transaction as a row.
    func sends(_ row: LogPosition) {
        guard let pending else { return }
        self.pending = nil
        observer.show(pending, at: row)
    }

    func hears(of row: LogPosition) { observer.accepted(row) }

    /// Tells a transaction that changed nothing and made no row.
    func committed() {
        guard let pending else { return }
        self.pending = nil
        guard !process.isKilled else { return }
        observer.tell(pending)
    }
}
