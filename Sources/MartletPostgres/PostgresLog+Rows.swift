// SPDX-License-Identifier: Apache-2.0
//
// Rows of a log in PostgreSQL: written after a predecessor, looked for, and read in turn. Rests on PostgresLog.

package import MartletCluster
package import MartletRows

extension PostgresLog {
    package func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, within limit: Duration
    ) -> AppendOutcome {
        let outcome: AppendOutcome
        do throws(LogError) {
            let (connection, deadline) = try open(within: limit)
            try requireIdentity(of: predecessor)
            outcome = append(row, after: predecessor, on: connection, until: deadline)
        } catch {
            outcome = .refused(.failed(error))
        }
        return doubt.judged(outcome, of: row.position)
    }

    private func append(
        _ row: ReplicatedRow, after predecessor: LogPosition, on connection: PostgresConnection,
        until deadline: PostgresDeadline
    ) -> AppendOutcome {
        var hasMadeRoom = false
        while true {
            do throws(PostgresError) {
                let result = try on(connection) { (connection) throws(PostgresError) in
                    try insert(row, after: predecessor, on: connection, until: deadline)
                }
                if let warning = connection.warning { return .inDoubt(.unconfirmed(warning)) }
                if result == 1 { return .accepted }
            } catch {
                switch error {
                case .server(PostgresCode.uniqueViolation, _): break
                case .server(PostgresCode.checkViolation, _) where !hasMadeRoom:
                    hasMadeRoom = true
                    do throws(PostgresError) {
                        try on(connection) { (connection) throws(PostgresError) in
                            try schema.makeRoom(
                                through: row.position.row, on: connection, until: deadline)
                        }
                        continue
                    } catch {
                        return .refused(.failed(error.logError))
                    }
                case .server: return .refused(.failed(error.logError))
                case .late, .lost, .unreachable: return .inDoubt(error.logError)
                }
            }
            break
        }
        return settle(row, on: connection, until: deadline)
    }

    private func insert(
        _ row: ReplicatedRow, after predecessor: LogPosition, on connection: PostgresConnection,
        until deadline: PostgresDeadline
    ) throws(PostgresError) -> Int {
        try connection.run(
            """
            insert into martlet_log (seq, epoch, chain, body) select $1, $2, $3, $4
             where exists (
              select 1 from martlet_log where seq = $1 - 1 and epoch = $2 and chain = $5)
            """,
            [
                .integer(Int64(row.position.row)), .number(Int32(row.position.epoch)),
                .bytes(row.position.chain), .bytes(row.body), .bytes(predecessor.chain),
            ], as: "martlet_append", until: deadline
        ).changedCount
    }

    /// The outcome of a row after an INSERT without effect: an earlier attempt may have inserted the row.
    private func settle(
        _ row: ReplicatedRow, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) -> AppendOutcome {
        do throws(LogError) {
            let found = try look(for: row.position, on: connection, until: deadline)
            guard let found else { return .refused(.predecessor) }
            try confirm(connection, until: deadline)
            return found == row.position ? .accepted : .refused(.taken(epoch: found.epoch))
        } catch {
            return .inDoubt(error)
        }
    }

    /// The row in the log with the number of `row`.
    private func look(
        for row: LogPosition, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(LogError) -> LogPosition? {
        do throws(PostgresError) {
            return try on(connection) { (connection) throws(PostgresError) in
                let result = try connection.run(
                    "select epoch, chain from martlet_log where seq = $1",
                    [.integer(Int64(row.row))], until: deadline)
                guard result.rowCount > 0 else { return nil }
                var found = row
                found.epoch = UInt32(result.integer(0, 0))
                found.chain = result.bytes(0, 1)
                return found
            }
        } catch {
            throw error.logError
        }
    }

    package func fate(
        of row: LogPosition, within limit: Duration
    ) throws(LogError) -> RowFate {
        let (connection, deadline) = try open(within: limit)
        try requireIdentity(of: row)
        let found = try look(for: row, on: connection, until: deadline)
        let first = found == nil ? try firstRow(on: connection, until: deadline) : 0
        try confirm(connection, until: deadline)
        guard let found else {
            guard row.row >= first else { throw .trimmed(first: first) }
            return .absent
        }
        return found == row ? .accepted : .refused(epoch: found.epoch)
    }

    private func firstRow(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(LogError) -> UInt64 {
        do throws(PostgresError) {
            return try on(connection) { (connection) throws(PostgresError) in
                let result = try connection.run(
                    "select min(seq) from martlet_log", until: deadline)
                return UInt64(result.integer(0, 0))
            }
        } catch {
            throw error.logError
        }
    }

    package func rows(
        after position: LogPosition, bytesMax: Int, within limit: Duration
    ) throws(LogError) -> [ReplicatedRow] {
        let (connection, deadline) = try open(within: limit)
        try requireIdentity(of: position)
        let read = try rowsWithPosition(
            position, bytesMax: bytesMax, on: connection, until: deadline)
        guard read.first?.position == position else {
            let first = try firstRow(on: connection, until: deadline)
            // A server behind the others does not confirm.
            try confirm(connection, until: deadline)
            guard position.row >= first else { throw .trimmed(first: first) }
            throw .diverged(row: position.row)
        }
        if read.count > 1 { try confirm(connection, until: deadline) }
        return Array(read.dropFirst())
    }

    /// Reads the row of a place without the body, and the rows after the place. PostgreSQL knows the lengths of bodies
    /// without reading the bodies.
    private func rowsWithPosition(
        _ position: LogPosition, bytesMax: Int, on connection: PostgresConnection,
        until deadline: PostgresDeadline
    ) throws(LogError) -> [ReplicatedRow] {
        do throws(PostgresError) {
            return try on(connection) { (connection) throws(PostgresError) in
                let result = try connection.run(
                    """
                    select seq, epoch, chain, case when seq = $1 then ''::bytea else body end
                      from (
                        select seq, epoch, chain, body, sum(
                          case when seq = $1 then 0 else octet_length(body) end
                        ) over (order by seq) as bytes
                        from martlet_log where seq between $1 and $1 + $3
                      ) numbered
                     where bytes <= $2 or seq = $1 + 1 order by seq
                    """,
                    [
                        .integer(Int64(position.row)), .integer(Int64(bytesMax)),
                        .integer(Int64(ClusterLimits.readRowsMax)),
                    ], until: deadline)
                return (0..<result.rowCount).map { row in
                    ReplicatedRow(
                        read: Self.position(result, row, in: position.incarnation),
                        body: result.bytes(row, 3))
                }
            }
        } catch {
            throw error.logError
        }
    }

    /// The place in the columns seq, epoch and chain.
    private static func position(
        _ result: PostgresResult, _ row: Int, in incarnation: [UInt8]
    ) -> LogPosition {
        var position = LogPosition(beginningOf: incarnation)
        position.row = UInt64(result.integer(row, 0))
        position.epoch = UInt32(result.integer(row, 1))
        position.chain = result.bytes(row, 2)
        return position
    }

    package func tail(within limit: Duration) throws(LogError) -> LogPosition {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            let result = try connection.run(
                "select seq, epoch, chain from martlet_log order by seq desc limit 1",
                until: deadline)
            guard result.rowCount == 1, let found else { throw .lost("the log has no rows") }
            return Self.position(result, 0, in: found.incarnation)
        }
    }
}
