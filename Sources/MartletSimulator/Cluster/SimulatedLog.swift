// SPDX-License-Identifier: Apache-2.0
//
// A log in memory, with a seed and a simulated clock. A call blocks its caller and not the world: other nodes act, and
// servers stop and come back, while the call waits. Rests on SimulatedDatabase.

package import MartletCluster
package import MartletRows

/// The process that uses a connection to a log, on a thread of its own.
package protocol LogUser: AnyObject {
    /// Waits until a time, or until `isOver`. `signal` tells when to look again.
    func wait(until end: Int64, or isOver: () -> Bool)
    func signal()
    /// Whether the process has been killed, and hears nothing more.
    var isKilled: Bool { get }
    /// Called before a row is sent.
    func sends(_ row: LogPosition)
    /// Called when the process is told that the log has the row, before the process knows.
    func hears(of row: LogPosition)
}

/// One connection of one node to a simulated database.
package final class SimulatedLog: ReplicationLog {
    private let database: SimulatedDatabase
    private let node: NodeName
    /// nil: a waiting call lets the world go on by itself.
    private let user: (any LogUser)?
    private var readingCount = 0
    /// The generation of the open session; nil: no session is open.
    private var session: Int?
    private var doubt = OpenDoubt()

    package init(
        _ database: SimulatedDatabase, node: NodeName, user: (any LogUser)? = nil
    ) {
        self.database = database
        self.node = node
        self.user = user
    }

    // MARK: Calls

    /// The end of a statement as the client sees it.
    private enum Arrival<Answer> {
        case answered(Answer)
        /// Answered with a warning: the standby may lack the transaction.
        case broken(Answer)
        case lost
        case late
        /// Nothing was sent.
        case unsent(LogError)
    }

    private final class Box<Answer> {
        var answer: Answer?
        var arrival: Arrival<Answer>?
    }

    /// Microseconds of the world.
    private func end(of limit: Duration) -> Int64 {
        let (seconds, attoseconds) = limit.components
        return database.agenda.now + seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    }

    private func wait(until end: Int64, or isOver: () -> Bool = { false }) {
        if let user { return user.wait(until: end, or: isOver) }
        while !isOver(), database.agenda.doNext(until: end) {}
        // The node's process may have been stopped meanwhile.
        while database.isFrozen(node), database.agenda.doNext(until: database.thaw(of: node)) {}
    }

    private func call<Answer>(
        until end: Int64, locking keys: [SimulatedDatabase.Key] = [],
        _ statement:
            @escaping (SimulatedDatabase) -> (
                changes: [SimulatedDatabase.Change]?, answer: Answer
            )
    ) -> Arrival<Answer> {
        if let error = open(until: end) { return .unsent(error) }
        guard !isKilled else { return .unsent(Self.killed) }
        let arrival = send(until: end, locking: keys, statement)
        return isKilled ? .unsent(Self.killed) : arrival
    }

    /// Opens a session, if none is open.
    private func open(until end: Int64) -> LogError? {
        guard session != database.generation || !database.isUp else { return nil }
        session = nil
        return connect(until: end)
    }

    /// The end of a call. A new session has a limit of its own.
    private func opened(within limit: Duration) throws(LogError) -> Int64 {
        if let error = open(until: end(of: limit)) { throw error }
        return end(of: limit)
    }

    private static var killed: LogError { .unavailable("the process has ended") }
    private var isKilled: Bool { user?.isKilled ?? false }

    private func send<Answer>(
        until end: Int64, locking keys: [SimulatedDatabase.Key],
        _ statement:
            @escaping (SimulatedDatabase) -> (
                changes: [SimulatedDatabase.Change]?, answer: Answer
            )
    ) -> Arrival<Answer> {
        let box = Box<Answer>()
        database.send(
            SimulatedDatabase.Request(
                generation: session ?? database.generation, node: node, keys: keys,
                run: { database in
                    let (changes, answer) = statement(database)
                    box.answer = answer
                    return changes
                },
                answer: { [user] isBroken in
                    guard let answer = box.answer else { return }
                    box.arrival = isBroken ? .broken(answer) : .answered(answer)
                    user?.signal()
                },
                lose: { [user] in
                    box.arrival = .lost
                    user?.signal()
                }))
        wait(until: end) { box.arrival != nil }
        guard let arrival = box.arrival else {
            session = nil
            return .late
        }
        if case .lost = arrival { session = nil }
        return arrival
    }

    /// Opens a session, with one commit first.
    private func connect(until end: Int64) -> LogError? {
        wait(until: min(end, database.agenda.now + database.delay()))
        guard database.isUp else { return .unavailable("no server is up") }
        guard !database.isCutOff(node) else {
            wait(until: end)
            return .unavailable("no server answers")
        }
        session = database.generation
        guard database.canary != .confirmation else { return nil }
        return confirm(until: end)
    }

    private func confirm(until end: Int64) -> LogError? {
        let node = node
        let arrival = send(until: end, locking: [.node(node)]) { _ in ([.touched(node)], ()) }
        switch arrival {
        case .answered: return nil
        case .broken: return .unconfirmed("the wait for the standby was cancelled")
        case .lost: return .unavailable("the connection was lost")
        case .late: return .late
        case .unsent(let error): return error
        }
    }

    /// A statement without changes, and a commit after it.
    private func read<Answer>(
        within limit: Duration, _ body: @escaping (SimulatedDatabase) -> Answer
    ) throws(LogError) -> Answer {
        let end = try opened(within: limit)
        let answer = try Self.answer(of: call(until: end) { (nil, body($0)) })
        if database.canary != .confirmation, let error = confirm(until: end) { throw error }
        return answer
    }

    /// A statement that changes rows.
    private func write<Answer>(
        within limit: Duration, locking keys: [SimulatedDatabase.Key],
        _ statement:
            @escaping (SimulatedDatabase) -> (
                changes: [SimulatedDatabase.Change]?, answer: Answer
            )
    ) throws(LogError) -> Answer {
        let end = try opened(within: limit)
        return try Self.answer(of: call(until: end, locking: keys, statement))
    }

    private static func answer<Answer>(of arrival: Arrival<Answer>) throws(LogError) -> Answer {
        switch arrival {
        case .answered(let answer): return answer
        case .broken: throw .unconfirmed("the wait for the standby was cancelled")
        case .lost: throw .unavailable("the connection was lost")
        case .late: throw .late
        case .unsent(let error): throw error
        }
    }

    package func identity(within limit: Duration) throws(LogError) -> LogIdentity {
        try read(within: limit) { $0.identity }
    }

    package func confirm(within limit: Duration) throws(LogError) {
        let node = node
        try write(within: limit, locking: [.node(node)]) { _ in ([.touched(node)], ()) }
    }

    // MARK: Rows

    private enum Written {
        case written
        case own
        case taken(epoch: UInt32)
        case predecessor
    }

    private static func has(_ position: LogPosition, _ database: SimulatedDatabase) -> Bool {
        database.tables.rows[position.row]?.position == position
    }

    /// The row as a database without a fence takes it: at the end.
    private static func atEnd(_ row: ReplicatedRow, _ database: SimulatedDatabase) -> ReplicatedRow
    {
        var position = row.position
        position.row = database.tables.last + 1
        return ReplicatedRow(read: position, body: row.body)
    }

    package func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome {
        user?.sends(row.position)
        let isEarly = database.canary == .answer
        if isEarly, session != database.generation { _ = connect(until: end(of: limit)) }
        var outcome = attempt(row, after: predecessor, within: isEarly ? .zero : limit)
        if isEarly || database.canary == .doubt, case .inDoubt = outcome { outcome = .accepted }
        // A killed process has no doubts.
        guard !isKilled else { return .refused(.failed(Self.killed)) }
        if outcome == .accepted { user?.hears(of: row.position) }
        return doubt.judged(outcome, of: row.position)
    }

    private func attempt(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome {
        guard predecessor.incarnation == database.identity.incarnation else {
            return .refused(.failed(.foreign))
        }
        let end: Int64
        do throws(LogError) { end = try opened(within: limit) } catch {
            return .refused(.failed(error))
        }
        let arrival = call(until: end, locking: [.row(row.position.row)]) { database in
            if database.canary == .fence {
                return ([.row(Self.atEnd(row, database))], Written.written)
            }
            if let found = database.tables.rows[row.position.row]?.position {
                return (nil, found == row.position ? .own : .taken(epoch: found.epoch))
            }
            guard predecessor.epoch == row.position.epoch, Self.has(predecessor, database) else {
                return (nil, .predecessor)
            }
            return ([.row(row)], .written)
        }
        switch arrival {
        case .answered(.written): return .accepted
        case .answered(.own):
            if let error = confirm(until: end) { return .inDoubt(error) }
            return .accepted
        case .answered(.taken(let epoch)): return .refused(.taken(epoch: epoch))
        case .answered(.predecessor): return .refused(.predecessor)
        case .broken: return .inDoubt(.unconfirmed("the wait for the standby was cancelled"))
        case .lost: return .inDoubt(.unavailable("the connection was lost"))
        case .late: return .inDoubt(.late)
        case .unsent(let error): return .refused(.failed(error))
        }
    }

    package func fate(
        of row: LogPosition, within limit: Duration
    ) throws(LogError) -> RowFate {
        let (found, first) = try read(within: limit) {
            ($0.tables.rows[row.row]?.position, $0.tables.first)
        }
        guard let found else {
            guard row.row >= first else { throw .trimmed(first: first) }
            return .absent
        }
        return found == row ? .accepted : .refused(epoch: found.epoch)
    }

    package func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow] {
        guard position.incarnation == database.identity.incarnation else { throw .foreign }
        let reading = try read(within: limit) { database in
            Result { () throws(LogError) in
                try Self.rows(after: position, bytesMax: bytesMax, of: database.tables)
            }
        }
        let rows = try reading.get()
        readingCount += 1
        let isBlind = database.canary == .blindTakeover || database.canary == .reading
        if isBlind, readingCount % 3 != 0 { return [] }
        for row in rows { user?.hears(of: row.position) }
        return rows
    }

    private static func rows(
        after position: LogPosition, bytesMax: Int, of tables: SimulatedDatabase.Tables
    ) throws(LogError) -> [ReplicatedRow] {
        guard position.row >= tables.first else { throw .trimmed(first: tables.first) }
        guard tables.rows[position.row]?.position == position else {
            throw .diverged(row: position.row)
        }
        var rows: [ReplicatedRow] = []
        var byteCount = 0
        while let row = tables.rows[position.row + UInt64(rows.count) + 1] {
            byteCount += row.body.count
            guard rows.isEmpty || byteCount <= bytesMax, rows.count < ClusterLimits.readRowsMax
            else { break }
            rows.append(row)
        }
        return rows
    }

    package func tail(within limit: Duration) throws(LogError) -> LogPosition {
        let tail = try read(within: limit) { $0.tables.rows[$0.tables.last]?.position }
        guard let tail else { throw .missing }
        return tail
    }

    // MARK: Lease

    private static func lease(_ database: SimulatedDatabase) -> Lease {
        let row = database.tables.lease
        return Lease(
            epoch: row.epoch, holder: row.holder, address: row.address,
            remaining: .microseconds(row.end - database.agenda.now))
    }

    private static func end(of life: Duration, _ database: SimulatedDatabase) -> Int64 {
        let (seconds, attoseconds) = life.components
        return database.agenda.now + seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    }

    package func lease(within limit: Duration) throws(LogError) -> Lease {
        try read(within: limit) { Self.lease($0) }
    }

    private enum Claimed {
        case taken
        case held(Lease)
        case behind
    }

    package func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome {
        guard predecessor.incarnation == database.identity.incarnation else {
            return .failed(.foreign)
        }
        let end: Int64
        do throws(LogError) { end = try opened(within: limit) } catch { return .failed(error) }
        let arrival = call(
            until: end, locking: [.row(row.position.row), .lease]
        ) { database in
            var lease = database.tables.lease
            let isOwn = Self.has(row.position, database)
            if isOwn && (lease.epoch, lease.holder) == (row.position.epoch, claim.node) {
                // An attempt before this one: the lease begins anew, and its commit confirms the row.
                lease.end = Self.end(of: claim.life, database)
                return ([.lease(lease)], Claimed.taken)
            }
            let isTaken = database.tables.rows[row.position.row] != nil
            let isBlind = database.canary == .blindTakeover
            guard
                database.canary == .fence
                    || (Self.has(predecessor, database) && (isBlind || !isTaken))
            else {
                return (nil, .behind)
            }
            guard lease.end < database.agenda.now || claim.isEarly else {
                return (nil, .held(Self.lease(database)))
            }
            lease = SimulatedDatabase.LeaseRow(
                epoch: row.position.epoch, holder: claim.node, address: claim.address,
                end: Self.end(of: claim.life, database))
            let written = database.canary == .fence ? Self.atEnd(row, database) : row
            let dropped: [SimulatedDatabase.Change] =
                isBlind ? [.dropped(after: predecessor.row)] : []
            return ([.lease(lease)] + dropped + [.row(written)], .taken)
        }
        switch arrival {
        case .answered(.taken):
            user?.hears(of: row.position)
            return .taken
        case .answered(.held(let lease)): return .held(lease)
        case .answered(.behind): return .behind
        case .broken: return .inDoubt(.unconfirmed("the wait for the standby was cancelled"))
        case .lost: return .inDoubt(.unavailable("the connection was lost"))
        case .late: return .inDoubt(.late)
        case .unsent(let error): return .failed(error)
        }
    }

    /// Changes the lease of an epoch.
    private func changeLease(
        of epoch: UInt32, within limit: Duration,
        _ end: @escaping (SimulatedDatabase) -> Int64
    ) throws(LogError) -> Bool {
        try write(within: limit, locking: [.lease]) { database in
            var lease = database.tables.lease
            guard lease.epoch == epoch else { return (nil, false) }
            lease.end = end(database)
            return ([.lease(lease)], true)
        }
    }

    package func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool {
        if database.canary == .lease, !isKilled {
            _ = try? changeLease(of: epoch, within: limit) { Self.end(of: life, $0) }
            return true
        }
        return try changeLease(of: epoch, within: limit) { Self.end(of: life, $0) }
    }

    package func releaseLease(
        epoch: UInt32, within limit: Duration
    ) throws(LogError) -> Bool {
        try changeLease(of: epoch, within: limit) { $0.agenda.now - 1 }
    }

    // MARK: Nodes

    package func report(_ node: NodeReport, within limit: Duration) throws(LogError) {
        try write(within: limit, locking: [.node(node.name)]) {
            ([.report(node, seen: $0.agenda.now)], ())
        }
    }

    package func nodes(within limit: Duration) throws(LogError) -> [NodeSighting] {
        try read(within: limit) { database in
            database.tables.nodes.values
                .map { entry in
                    NodeSighting(
                        report: entry.report,
                        age: .microseconds(database.agenda.now - entry.seen))
                }
                .sorted { $0.report.name < $1.report.name }
        }
    }

    package func exchange(
        _ node: NodeReport, within limit: Duration
    ) throws(LogError) -> NodeNews {
        try write(within: limit, locking: [.node(node.name)]) { database in
            let now = database.agenda.now
            var nodes = database.tables.nodes
            nodes[node.name] = (node, now)
            let sightings = nodes.values
                .map { NodeSighting(report: $0.report, age: .microseconds(now - $0.seen)) }
                .sorted { $0.report.name < $1.report.name }
            return ([.report(node, seen: now)], NodeNews(nodes: sightings))
        }
    }

    package func remove(_ node: NodeName, within limit: Duration) throws(LogError) {
        try write(within: limit, locking: [.node(node)]) { _ in ([.removed(node)], ()) }
    }

    // MARK: Room

    /// Memory has room.
    package func makeRoom(through row: UInt64, within limit: Duration) throws(LogError) {}

    package func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64 {
        try write(within: limit, locking: [.beginning]) { database in
            let below = min(row, database.tables.last)
            guard below > database.tables.first else { return (nil, database.tables.first) }
            return ([.trimmed(below: below)], below)
        }
    }
}
