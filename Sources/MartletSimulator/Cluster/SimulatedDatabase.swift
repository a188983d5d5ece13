// SPDX-License-Identifier: Apache-2.0
//
// The servers of a cluster's log in memory: a primary that waits at each commit for its standby. The parts of
// PostgreSQL that endanger rows are here as they are there:
//
//   - A transaction waits for the standby before others see it, and holds its rows meanwhile.
//   - A server finishes the statement of a client that waits no longer. So a statement may take effect late.
//   - A broken wait shows a transaction that the standby does not have: the wait is cancelled (the client gets a
//     warning), or the session is ended (the client's connection is lost).
//   - A restarted primary shows everything in its own files. A promoted standby has what it has, and the rest is gone.
//
// A database is deterministic: its times and troubles come from the agenda and from a seed. Rests on Agenda,
// Randomness and MartletCluster.

package import MartletCluster
import MartletRows

/// The chances of a database's troubles. Times are microseconds, chances are per thousand.
package struct DatabaseConditions {
    /// Mean of a message's way from a node to the primary, and back.
    package var delayMean: Int64 = 300
    /// Chance of a message that takes three hundred times as long.
    package var slowChance = 0
    /// Mean of the time until the standby has a transaction.
    package var standbyMean: Int64 = 400
    /// Time that the standby takes for a transaction in any case.
    package var standbyLeast: Int64 = 0
    /// Chance of a cancelled wait for the standby.
    package var cancelChance = 0
    /// Chance of a session that is ended as its transaction waits.
    package var killChance = 0

    package init() {}
}

/// A guard that a database gives up on purpose: a test without the guard must fail.
package enum DatabaseCanary: Sendable {
    /// Any row is taken at the end of the log.
    case fence
    /// A reading is believed without a commit after it.
    case confirmation
    /// A cancelled wait is answered as a commit.
    case warning
    /// A takeover may follow any row, and later rows are dropped. Two of three readings show no rows.
    case blindTakeover
    /// A row in doubt counts as accepted.
    case doubt
    /// A renewal of a lease succeeds without the log.
    case lease
    /// A row counts as accepted before the log has answered.
    case answer
    /// Two of three readings show no rows.
    case reading
}

/// The primary and the standby of a log.
package final class SimulatedDatabase {
    /// A row of a table. A transaction that has written the row holds it until the transaction is visible.
    enum Key: Hashable {
        case row(UInt64)
        case lease
        case node(NodeName)
        case beginning
    }

    /// The lease as a row of a table.
    struct LeaseRow {
        var epoch: UInt32 = 0
        var holder: NodeName?
        var address = ""
        /// Microseconds.
        var end: Int64 = -1
    }

    enum Change {
        case row(ReplicatedRow)
        case lease(LeaseRow)
        case report(NodeReport, seen: Int64)
        case removed(NodeName)
        case trimmed(below: UInt64)
        /// Rows that a takeover without a look at them replaces.
        case dropped(after: UInt64)
        /// A write that changes no value.
        case touched(NodeName)

        var key: Key {
            switch self {
            case .row(let row): .row(row.position.row)
            case .lease: .lease
            case .report(let report, _): .node(report.name)
            case .removed(let name), .touched(let name): .node(name)
            case .trimmed, .dropped: .beginning
            }
        }
    }

    /// The tables, as far as they are visible.
    struct Tables {
        var rows: [UInt64: ReplicatedRow] = [:]
        var first: UInt64 = 0
        var last: UInt64 = 0
        var lease = LeaseRow()
        var nodes: [NodeName: (report: NodeReport, seen: Int64)] = [:]

        mutating func apply(_ changes: [Change]) {
            for change in changes {
                switch change {
                case .row(let row):
                    rows[row.position.row] = row
                    last = max(last, row.position.row)
                case .lease(let row): lease = row
                case .report(let report, let seen): nodes[report.name] = (report, seen)
                case .removed(let name): nodes[name] = nil
                case .trimmed(let below):
                    for number in first..<max(first, below) { rows[number] = nil }
                    first = max(first, below)
                case .dropped(let row):
                    for number in row + 1..<max(row, last) + 1 { rows[number] = nil }
                    last = min(last, row)
                case .touched: break
                }
            }
        }
    }

    /// A statement on its way, waiting, or answered.
    final class Request {
        let generation: Int
        let node: NodeName
        let keys: [Key]
        /// Reads the tables and returns the statement's changes; nil if it changes nothing.
        let run: (SimulatedDatabase) -> [Change]?
        /// Called when the answer has reached the client.
        let answer: (_ isBroken: Bool) -> Void
        /// Called when the client has noticed that the connection is lost.
        let lose: () -> Void
        var isAnswered = false

        init(
            generation: Int, node: NodeName, keys: [Key],
            run: @escaping (SimulatedDatabase) -> [Change]?, answer: @escaping (Bool) -> Void,
            lose: @escaping () -> Void
        ) {
            self.generation = generation
            self.node = node
            self.keys = keys
            self.run = run
            self.answer = answer
            self.lose = lose
        }
    }

    private struct Waiting {
        let place: Int
        let request: Request
        let changes: [Change]
    }

    package let agenda: Agenda
    package var conditions: DatabaseConditions
    package let canary: DatabaseCanary?
    let identity: LogIdentity
    var random: Randomness

    /// All transactions that the primary has, in the order of their commits.
    private var transactions: [[Change]] = []
    /// Transactions that the standby has too.
    private var replicated = 0
    private(set) var tables = Tables()
    private var waiting: [Waiting] = []
    private var blocked: [Request] = []
    private var outstanding: [Request] = []

    /// Sessions of an earlier generation are gone.
    private(set) var generation = 0
    package private(set) var isUp = true
    private(set) var isStandbyAway = false
    private var cutOff: Set<NodeName> = []
    private var thaws: [NodeName: Int64] = [:]

    package init(
        agenda: Agenda, seed: UInt64, incarnation: [UInt8],
        conditions: DatabaseConditions = DatabaseConditions(), canary: DatabaseCanary? = nil
    ) {
        self.agenda = agenda
        self.conditions = conditions
        self.canary = canary
        identity = LogIdentity(incarnation: incarnation, redoFormat: 1)
        random = Randomness(seed: seed)
        let beginning = ReplicatedRow(read: LogPosition(beginningOf: incarnation), body: [])
        transactions = [[.row(beginning)]]
        replicated = 1
        tables.apply(transactions[0])
    }

    // MARK: What a test sees

    /// The rows that both servers have, in turn.
    package var durableRows: [ReplicatedRow] {
        var durable = Tables()
        for changes in transactions.prefix(replicated) { durable.apply(changes) }
        return durable.rows.values.sorted { $0.position.row < $1.position.row }
    }

    /// Whether the primary shows a row.
    package func shows(_ row: UInt64) -> Bool { tables.rows[row] != nil }

    // MARK: Troubles

    package func cut(off node: NodeName) { cutOff.insert(node) }

    package func heal(_ node: NodeName) { cutOff.remove(node) }

    /// Stops a node's process: a call of the node returns when the time has come.
    package func freeze(_ node: NodeName, until time: Int64) { thaws[node] = time }

    func isCutOff(_ node: NodeName) -> Bool { cutOff.contains(node) }

    package func isFrozen(_ node: NodeName) -> Bool { agenda.now < thaws[node] ?? 0 }

    func thaw(of node: NodeName) -> Int64 { thaws[node] ?? 0 }

    /// The standby gets nothing more.
    package func detachStandby() { isStandbyAway = true }

    package func attachStandby() {
        isStandbyAway = false
        replicate(through: transactions.count)
    }

    /// The primary ends without warning. The standby stays as it is.
    package func stop() {
        isUp = false
        endSessions()
    }

    /// The stopped primary comes back, with everything that was in its files.
    package func start() {
        guard !isUp else { return }
        isUp = true
        tables = Tables()
        for changes in transactions { tables.apply(changes) }
        if !isStandbyAway { replicate(through: transactions.count) }
    }

    /// The standby becomes the primary, and has a standby of its own.
    /// - Parameter lost: transactions that the standby lacks although they were acknowledged: the operator has promoted
    ///   a standby that was behind.
    package func promote(losing lost: Int = 0) {
        endSessions()
        isUp = true
        isStandbyAway = false
        replicated = max(1, replicated - lost)
        transactions.removeLast(transactions.count - replicated)
        tables = Tables()
        for changes in transactions { tables.apply(changes) }
    }

    /// Breaks the wait of the oldest waiting transaction.
    /// - Parameter isKilled: whether the session ends too.
    package func breakWait(isKilled: Bool) {
        guard let first = waiting.first else { return }
        breakWait(of: first.request, isKilled: isKilled)
    }

    private func endSessions() {
        generation += 1
        waiting = []
        blocked = []
        let lost = outstanding
        outstanding = []
        for request in lost { lose(request) }
    }

    private func lose(_ request: Request) {
        request.isAnswered = true
        agenda.after(delay()) { request.lose() }
    }

    // MARK: Statements

    func delay() -> Int64 {
        let mean =
            random.chance(conditions.slowChance)
            ? conditions.delayMean * 300 : conditions.delayMean
        return random.pause(mean: mean)
    }

    /// Sends a statement on a session.
    func send(_ request: Request) {
        outstanding.append(request)
        travel(request, attempts: 6)
    }

    /// A message to a server that cannot be reached is sent again for some time, also after its client has given up.
    private func travel(_ request: Request, attempts: Int) {
        agenda.after(delay()) { [self] in
            guard request.generation == generation, attempts > 0 else { return }
            guard !isCutOff(request.node) else {
                return agenda.after(500_000) { [self] in
                    travel(request, attempts: attempts - 1)
                }
            }
            execute(request)
        }
    }

    private func execute(_ request: Request) {
        let held = Set(waiting.flatMap { $0.changes.map(\.key) })
        guard held.isDisjoint(with: request.keys) else { return blocked.append(request) }
        guard let changes = request.run(self) else { return answer(request, isBroken: false) }
        transactions.append(changes)
        let place = transactions.count
        waiting.append(Waiting(place: place, request: request, changes: changes))
        if random.chance(conditions.cancelChance) {
            agenda.after(random.pause(mean: 200)) { [self] in
                breakWait(of: request, isKilled: false)
            }
        } else if random.chance(conditions.killChance) {
            agenda.after(random.pause(mean: 200)) { [self] in
                breakWait(of: request, isKilled: true)
            }
        }
        if !isStandbyAway { replicate(through: place) }
    }

    private func replicate(through place: Int) {
        let time = conditions.standbyLeast + random.pause(mean: conditions.standbyMean)
        agenda.after(time) { [self, generation] in
            guard generation == self.generation, isUp, !isStandbyAway else { return }
            replicated = max(replicated, place)
            let confirmed = waiting.filter { $0.place <= replicated }
            waiting.removeAll { $0.place <= replicated }
            for done in confirmed {
                tables.apply(done.changes)
                answer(done.request, isBroken: false)
            }
            retryBlocked()
        }
    }

    private func breakWait(of request: Request, isKilled: Bool) {
        guard let index = waiting.firstIndex(where: { $0.request === request }) else { return }
        let broken = waiting.remove(at: index)
        tables.apply(broken.changes)
        if isKilled {
            outstanding.removeAll { $0 === request }
            lose(request)
        } else {
            answer(request, isBroken: canary != .warning)
        }
        retryBlocked()
    }

    private func retryBlocked() {
        let requests = blocked
        blocked = []
        for request in requests { execute(request) }
    }

    private func answer(_ request: Request, isBroken: Bool) {
        agenda.after(delay()) { [self] in
            // The connection's end, or the cut, has come first.
            guard !request.isAnswered, !isCutOff(request.node) else { return }
            outstanding.removeAll { $0 === request }
            request.isAnswered = true
            request.answer(isBroken)
        }
    }
}
