// SPDX-License-Identifier: Apache-2.0
//
// A history: three nodes on a log whose servers and network fail in every way, then a time of peace, and then the
// questions. The answers need no knowledge of the log's workings: everything accepted is there once, nothing refused
// is there, the numbers have no gap, each chain is the digest of the rows before, and all stores are the log. Rests on
// HistoryNode.

import MartletCluster
import MartletRows
import MartletSimulator

struct HistoryOptions: Sendable {
    var database: DatabaseCanary?
    var node: NodeCanary?
    var ignoresLease = false
    /// Whether once in the history a standby is promoted that lacks accepted rows.
    var losesRows = false
}

final class History {
    private static let troubleTime: Int64 = 25_000_000
    private static let peace: Int64 = 20_000_000

    private let agenda = Agenda(clock: SimulatedClock())
    private let database: SimulatedDatabase
    private let options: HistoryOptions
    private let beginning: LogPosition
    private let answers = Answers()
    private var random: Randomness
    private(set) var nodes: [HistoryNode] = []

    init(seed: UInt64, options: HistoryOptions = HistoryOptions()) {
        self.options = options
        var random = Randomness(seed: seed)
        let incarnation = (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        beginning = LogPosition(beginningOf: incarnation)
        var conditions = DatabaseConditions()
        conditions.delayMean = random.one(of: [50, 300, 5000])
        conditions.slowChance = random.one(of: [0, 2, 10])
        conditions.standbyMean = random.one(of: [100, 1000, 10_000])
        conditions.cancelChance = random.one(of: [0, 0, 5, 30])
        conditions.killChance = random.one(of: [0, 0, 5, 30])
        database = SimulatedDatabase(
            agenda: agenda, seed: random.next(), incarnation: incarnation, conditions: conditions,
            canary: options.database)
        self.random = random
        for name in [NodeName.a, .b, .c] {
            nodes.append(
                HistoryNode(
                    name, on: database, beginning: beginning, answers: answers,
                    canary: options.node, ignoresLease: options.ignoresLease))
        }
    }

    var acceptedCount: Int { answers.accepted.count }
    var takeoverCount: Int { nodes.reduce(0) { $0 + $1.takeoverCount } }
    var doubtCount: Int { nodes.reduce(0) { $0 + $1.doubtCount } }

    /// Runs the history.
    /// - Returns: what is wrong in the end.
    func run() -> [String] {
        for node in nodes { planTurn(of: node) }
        planTrouble()
        if options.losesRows {
            agenda.at(Self.troubleTime / 2) { [self] in database.promote(losing: 6) }
        }
        while agenda.doNext(until: Self.troubleTime) {}
        makePeace()
        let beginning = agenda.now
        while agenda.doNext(until: beginning + Self.peace) {}
        for node in nodes { node.isWriting = false }
        while agenda.doNext(until: beginning + 2 * Self.peace) {}
        defer { agenda.clear() }
        return faults()
    }

    private func planTurn(of node: HistoryNode) {
        agenda.after(random.pause(mean: 40_000)) { [self] in
            if !database.isFrozen(node.name) { node.turn() }
            planTurn(of: node)
        }
    }

    // MARK: Troubles

    private var isInTrouble: Bool { agenda.now < Self.troubleTime }

    /// Does something to the servers later, as long as there is trouble.
    private func later(_ mean: Int64, _ action: @escaping () -> Void) {
        agenda.after(random.pause(mean: mean)) { [self] in if isInTrouble { action() } }
    }

    private func planTrouble() {
        agenda.after(random.pause(mean: 700_000)) { [self] in
            guard isInTrouble else { return }
            makeTrouble()
            planTrouble()
        }
    }

    private func makeTrouble() {
        // Most troubles of a node meet the active one.
        let active = nodes.first { $0.isActive }
        let name = (random.chance(700) ? active : nil)?.name ?? random.one(of: nodes).name
        switch random.number(0...8) {
        case 0:
            database.freeze(name, until: agenda.now + min(random.pause(mean: 3_000_000), 9_000_000))
        case 1:
            database.cut(off: name)
            later(2_000_000) { [self] in database.heal(name) }
        case 2:
            database.detachStandby()
            later(700_000) { [self] in database.attachStandby() }
        case 3:
            database.stop()
            later(400_000) { [self] in database.start() }
        case 4: database.promote()
        case 5: database.breakWait(isKilled: random.chance(500))
        case 6:
            // The primary restarts alone, shows what it has, and is lost.
            database.detachStandby()
            later(60_000) { [self] in
                database.stop()
                later(20_000) { [self] in
                    database.start()
                    later(300_000) { [self] in database.promote() }
                }
            }
        default:
            // A wait is broken, and then the primary is lost.
            database.detachStandby()
            later(60_000) { [self] in
                database.breakWait(isKilled: random.chance(300))
                later(300_000) { [self] in database.promote() }
            }
        }
    }

    private func makePeace() {
        database.conditions = DatabaseConditions()
        if !database.isUp { database.start() }
        for node in nodes {
            database.heal(node.name)
            database.freeze(node.name, until: 0)
        }
        database.attachStandby()
    }

    // MARK: Questions

    private func faults() -> [String] {
        var faults: [String] = []
        let rows = database.durableRows.filter { $0.position.row > 0 }
        if let wrong = rows.firstDivergence(after: beginning) {
            faults.append("the log has no history at row \(wrong.position.row)")
        }
        for (index, row) in rows.enumerated() where row.position.row != UInt64(index + 1) {
            faults.append("the log has a gap at row \(index + 1)")
            break
        }
        let bodies = rows.map(\.body)
        if Set(bodies).count != bodies.count { faults.append("a row is in the log twice") }
        let lost = answers.accepted.subtracting(bodies)
        if !lost.isEmpty { faults.append("\(lost.count) accepted rows are lost") }
        let unwanted = answers.refused.intersection(bodies)
        if !unwanted.isEmpty { faults.append("\(unwanted.count) refused rows are in the log") }
        for node in nodes where node.isStopped && !options.losesRows {
            faults.append("\(node.name) has stopped")
        }
        for node in nodes where !node.isStopped && node.store != rows {
            faults.append(
                "the store of \(node.name) has \(node.store.count) rows, the log \(rows.count)")
        }
        return faults
    }
}
