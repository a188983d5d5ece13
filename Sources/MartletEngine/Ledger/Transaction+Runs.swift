// SPDX-License-Identifier: Apache-2.0
//
// Connections that were lost with the run of the broker that had them. They ended where their project
// was when the next run began, which is written down once for a project: so a broker begins in no time,
// however many there were. Each is ended as if it had said so when its instance is looked at, and all of
// them by a walk in bounded steps. Rests on Schema.

public import MartletBase
public import MartletRows

extension Transaction {
    borrowing func run() throws(StorageError) -> RunRow {
        guard let found = try raw.get(.meta, RunRow.key) else { return RunRow() }
        return try RunRow(found)
    }

    borrowing func connection(_ key: Key) throws(StorageError) -> ConnectionRow? {
        guard let found = try raw.get(.connections, key) else { return nil }
        return try ConnectionRow(found)
    }

    /// Whether an instance has a connection to the broker as it runs now.
    borrowing func isConnected(
        _ ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> Bool {
        guard let connection = try connection(.ordinal(ordinal, in: project)) else { return false }
        return try connection.run == run().number
    }

    borrowing func put(_ connection: ConnectionRow, _ key: Key) throws(StorageError) {
        try raw.put(.connections, key, connection.bytes)
    }

    /// The broker begins: the connections that there still are ended when the last one did. That is
    /// written down for each when its instance is looked at again,
    public borrowing func beginRun(now: Instant) throws(StorageError) {
        var run = try run()
        run.number += 1
        run.position = nil
        var next: UInt32? = 0
        while let from = next, let first = try firstConnection(from: ProjectNumber(from)) {
            let last = try project(first)?.lastSequence ?? .none
            try raw.put(
                .runs, Self.ending(run.number, in: first),
                EndingRow(position: last, at: now).bytes)
            if run.position == nil { run.position = (first, Ordinal(0)) }
            next = first.rawValue < .max ? first.rawValue + 1 : nil
        }
        try raw.put(.meta, RunRow.key, run.bytes)
    }

    /// Writes a row as it is: the transaction has something to commit.
    public borrowing func touch() throws(StorageError) {
        try raw.put(.meta, RunRow.key, try run().bytes)
    }

    /// and for all of them in bounded steps.
    /// - Returns: whether there may be more.
    public borrowing func endLostConnections(
        now: Instant, limits: MailboxLimits, rowsMax: Int
    ) throws(StorageError) -> Bool {
        var run = try run()
        guard let start = run.position else { return false }
        let (lost, end) = try lostConnections(
            from: .ordinal(start.ordinal, in: start.project), of: run.number, rowsMax: rowsMax)
        run.position = end
        var rows = rowsMax
        for one in lost {
            guard rows > 0 else {
                run.position = one
                break
            }
            rows -= 1
            try endLostConnection(of: one.ordinal, in: one.project, now: now)
        }
        if run.position == nil { try removeEndings() }
        try raw.put(.meta, RunRow.key, run.bytes)
        return run.position != nil
    }

    /// Ends the connection that an instance had when the broker ended without a word, if it had one.
    /// - Returns: whether it had one.
    @discardableResult
    borrowing func endLostConnection(
        of ordinal: Ordinal, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> Bool {
        let key = Key.ordinal(ordinal, in: project)
        guard var connection = try connection(key), case let number = try run().number,
            connection.run != number
        else { return false }
        let end = try ending(after: connection.run, in: project, now: now)
        // From here on it is known where it ends.
        connection.run = number
        try put(connection, key)
        try leave(ordinal, in: project, position: end.position)
        try see(ordinal, in: project, at: end.at)
        return true
    }

    // MARK: Rows

    private static func ending(_ run: UInt32, in project: ProjectNumber) -> Key {
        var key = Key(project)
        key.append(run)
        return key
    }

    /// Where the connections of a run ended that there still were in the next.
    private borrowing func ending(
        after run: UInt32, in project: ProjectNumber, now: Instant
    ) throws(StorageError) -> EndingRow {
        let cursor = try Cursor(raw, .runs)
        if let found = try cursor.seek(Self.ending(run + 1, in: project)),
            Key(project).isPrefix(of: found.key)
        {
            return try EndingRow(found.value)
        }
        return EndingRow(position: try self.project(project)?.lastSequence ?? .none, at: now)
    }

    private borrowing func removeEndings() throws(StorageError) {
        var keys: [Key] = []
        do {
            let cursor = try Cursor(raw, .runs)
            var found = try cursor.seek(Key(ProjectNumber(0)))
            while let entry = found {
                keys.append(Key(bytes: Array(entry.key)))
                found = try cursor.next()
            }
        }
        for key in keys { try raw.delete(.runs, key) }
    }

    /// The first project not before one that an instance of has a connection.
    private borrowing func firstConnection(
        from project: ProjectNumber
    ) throws(StorageError) -> ProjectNumber? {
        let cursor = try Cursor(raw, .connections)
        guard let found = try cursor.seek(Key(project)) else { return nil }
        return try Self.place(found.key).project
    }

    /// - Returns: those of earlier runs among the next rows, and where to go on.
    private borrowing func lostConnections(
        from start: Key, of run: UInt32, rowsMax: Int
    ) throws(StorageError) -> (
        lost: [(project: ProjectNumber, ordinal: Ordinal)],
        next: (project: ProjectNumber, ordinal: Ordinal)?
    ) {
        let cursor = try Cursor(raw, .connections)
        var found = try cursor.seek(start)
        var lost: [(project: ProjectNumber, ordinal: Ordinal)] = []
        var looked = 0
        while let entry = found {
            let place = try Self.place(entry.key)
            guard looked < rowsMax else { return (lost, place) }
            looked += 1
            if try ConnectionRow(entry.value).run != run { lost.append(place) }
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
