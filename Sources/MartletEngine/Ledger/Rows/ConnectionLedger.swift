// SPDX-License-Identifier: Apache-2.0
//
// Ends lost connections, those whose end the broker didn't live to write down. A lost connection counts as ended when the
// broker's next run began, at the project's last sequence of that time. The run writes this down once per project, so
// a broker starts quickly however many connections were lost. Each is ended when its instance is looked at; a walk in bounded
// steps ends the others.
//
// Of several nodes each process has a run, and several are alive (OPS-7). A run's end is written under the next number, so
// that each lost connection finds the end of its own run. The row `run` of `meta` has the last number of any run; a run that
// ends raises it if it was its own, because a number without a process belongs to no connection. Rests on MailboxLedger and
// ProjectLedger.

package import MartletBase
package import MartletRows

/// The runs of the broker, and the connections that a run lost.
package struct ConnectionLedger: Ledger {
    package let context: LedgerContext
    private var mailboxes: MailboxLedger { MailboxLedger(context) }
    private var projects: ProjectLedger { ProjectLedger(context) }

    package init(_ context: LedgerContext) { self.context = context }

    /// Begins a run of the broker. All connections in the store are lost: writes an ending for each project that has
    /// some. `endLost` and `endAllLost` end them later.
    package func beginRun(now: Instant) throws(StorageError) {
        var run = try mailboxes.run()
        run.number += 1
        run.position = try writeEndings(under: run.number, now: now)
        try raw.put(.meta, RunRow.key, run.bytes)
    }

    /// Writes an ending for each project that has connections.
    /// - Returns: the first place with a connection.
    private func writeEndings(
        under number: UInt32, now: Instant
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal)? {
        var position: (project: ProjectNumber, ordinal: Ordinal)?
        var next: UInt32? = 0
        while let from = next, let first = try firstConnection(from: ProjectNumber(from)) {
            let last = try projects.project(first)?.lastSequence ?? .none
            try raw.put(
                .runs, Self.ending(number, in: first),
                EndingRow(position: last, at: now).bytes)
            if position == nil { position = (first, Ordinal(0)) }
            next = first.rawValue < .max ? first.rawValue + 1 : nil
        }
        return position
    }

    // MARK: Runs of several nodes

    /// Begins the run of a node's process, and ends the node's earlier run. A process has a single run.
    /// - Returns: the process's run.
    package func beginRun(
        of node: String, process: UInt64, now: Instant
    ) throws(StorageError) -> UInt32 {
        let living = try mailboxes.livingRuns()
        if let own = living?.runs.first(where: { $0.node == node && $0.process == process }) {
            return own.number
        }
        // Connections from before there were several are lost.
        if living == nil { try beginRun(now: now) }
        try endRun(of: node, now: now)
        var run = try mailboxes.run()
        run.number += 1
        try raw.put(.meta, RunRow.key, run.bytes)
        var row = try mailboxes.livingRuns() ?? LivingRunsRow()
        row.runs.append(LivingRunsRow.Run(number: run.number, process: process, node: node))
        try raw.put(.meta, LivingRunsRow.key, row.bytes)
        return run.number
    }

    /// Ends a node's run. Its connections are lost.
    /// - Returns: the run that ended; nil if the node has none.
    @discardableResult
    package func endRun(of node: String, now: Instant) throws(StorageError) -> UInt32? {
        guard var row = try mailboxes.livingRuns(),
            let index = row.runs.firstIndex(where: { $0.node == node })
        else { return nil }
        let ended = row.runs.remove(at: index).number
        try raw.put(.meta, LivingRunsRow.key, row.bytes)
        var run = try mailboxes.run()
        if run.number == ended { run.number += 1 }
        // If a walk is in progress it begins anew, and so meets the lost connections of both runs.
        run.position = try writeEndings(under: ended + 1, now: now)
        try raw.put(.meta, RunRow.key, run.bytes)
        return ended
    }

    /// The runs of nodes that are alive.
    package func livingRuns() throws(StorageError) -> [LivingRunsRow.Run] {
        try mailboxes.livingRuns()?.runs ?? []
    }

    /// Whether an instance has a connection of a living run.
    /// - Parameters:
    ///   - number: connections up to this number don't count.
    ///   - own: connections of this run don't count.
    package func isOpen(
        _ ordinal: Ordinal, in project: ProjectNumber, above number: UInt64, besides own: UInt32?
    ) throws(StorageError) -> Bool {
        guard let connection = try mailboxes.connection(.ordinal(ordinal, in: project)),
            connection.start.number > number, connection.run != own
        else { return false }
        return try mailboxes.isLiving(connection.run)
    }

    /// Writes a row unchanged, to give the transaction something to commit.
    package func touch() throws(StorageError) {
        try raw.put(.meta, RunRow.key, try mailboxes.run().bytes)
    }

    /// Ends those of the next `rowsMax` connections that are lost.
    /// - Returns: whether there may be more.
    package func endAllLost(now: Instant, rowsMax: Int) throws(StorageError) -> Bool {
        var run = try mailboxes.run()
        guard let start = run.position else { return false }
        let (lost, end) = try lostConnections(
            from: .ordinal(start.ordinal, in: start.project), rowsMax: rowsMax)
        run.position = end
        var rows = rowsMax
        for one in lost {
            guard rows > 0 else {
                run.position = one
                break
            }
            rows -= 1
            try endLost(of: one.ordinal, in: one.project, now: now)
        }
        invariant(
            run.position.map { ($0.project, $0.ordinal) >= (start.project, start.ordinal) } ?? true,
            "The walk over lost connections goes forward.")
        if run.position == nil { try removeEndings() }
        try raw.put(.meta, RunRow.key, run.bytes)
        return run.position != nil
    }

    /// Ends an instance's connection from an earlier run of the broker.
    /// - Returns: whether it had a lost connection.
    @discardableResult
    func endLost(
        of ordinal: Ordinal, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> Bool {
        let key = Key.ordinal(ordinal, in: project)
        guard var connection = try mailboxes.connection(key),
            try !mailboxes.isLiving(connection.run)
        else { return false }
        let end = try ending(after: connection.run, in: project, now: now)
        // Its end is known now, so it isn't lost any more.
        connection.run = try mailboxes.run().number
        try mailboxes.put(connection, key)
        try mailboxes.leave(ordinal, in: project, position: end.position)
        try mailboxes.see(ordinal, in: project, at: end.at)
        return true
    }

    private static func ending(_ run: UInt32, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(run)
        return key
    }

    /// Where a run's connections ended that were still open when the next one began.
    private func ending(
        after run: UInt32, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> EndingRow {
        let cursor = try Cursor(raw, .runs)
        if let found = try cursor.seek(Self.ending(run + 1, in: project)),
            Key(project).isPrefix(of: found.key)
        {
            return try EndingRow(found.value)
        }
        return EndingRow(position: try projects.project(project)?.lastSequence ?? .none, at: now)
    }

    private func removeEndings() throws(StorageError) {
        var keys: [Key] = []
        do {
            let cursor = try Cursor(raw, .runs)
            var found = try cursor.seek(Key(ProjectNumber(0)))
            while let entry = found {
                keys.append(Key(bytes: Array(entry.key)))
                found = try cursor.next()
            }
        }
        for key in keys { try raw.deleteFound(.runs, key) }
    }

    /// The first project from `project` on that has a connection.
    private func firstConnection(
        from project: ProjectNumber
    ) throws(StorageError) -> ProjectNumber? {
        let cursor = try Cursor(raw, .connections)
        guard let found = try cursor.seek(Key(project)) else { return nil }
        return try Self.place(found.key).project
    }

    /// - Returns: the lost ones among the next `rowsMax` connections, and where to go on.
    private func lostConnections(
        from start: Key, rowsMax: Int
    ) throws(StorageError) -> (
        lost: [(project: ProjectNumber, ordinal: Ordinal)],
        next: (project: ProjectNumber, ordinal: Ordinal)?
    ) {
        var living = Set(try livingRuns().map(\.number))
        living.insert(try mailboxes.run().number)
        let cursor = try Cursor(raw, .connections)
        var found = try cursor.seek(start)
        var lost: [(project: ProjectNumber, ordinal: Ordinal)] = []
        var looked = 0
        while let entry = found {
            let place = try Self.place(entry.key)
            guard looked < rowsMax else { return (lost, place) }
            looked += 1
            if try !living.contains(ConnectionRow(entry.value).run) { lost.append(place) }
            found = try cursor.next()
        }
        return (lost, nil)
    }

    private static func place(
        _ key: RowKey
    ) throws(StorageError) -> (project: ProjectNumber, ordinal: Ordinal) {
        guard key.count == 8 else { throw RecordReader(key.bytes, of: .connections).damaged() }
        return (key.project, key.ordinal)
    }
}
