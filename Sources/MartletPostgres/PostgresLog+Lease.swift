// SPDX-License-Identifier: Apache-2.0
//
// The lease of a log in PostgreSQL, by the clock of the server. Rests on PostgresLog.

package import MartletCluster
package import MartletRows

extension PostgresLog {
    private static func lease(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> Lease {
        let result = try connection.run(
            """
            select epoch, node, address,
                   (extract(epoch from expires - clock_timestamp()) * 1000000)::bigint
              from martlet_lease
            """, until: deadline)
        guard result.rowCount == 1 else { throw .lost("the log has no lease") }
        let holder = result.isNull(0, 1) ? nil : try? NodeName(validating: result.text(0, 1))
        return Lease(
            epoch: UInt32(result.integer(0, 0)), holder: holder, address: result.text(0, 2),
            remaining: .microseconds(result.integer(0, 3)))
    }

    package func lease(within limit: Duration) throws(LogError) -> Lease {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            try Self.lease(on: connection, until: deadline)
        }
    }

    private static func microseconds(_ life: Duration) -> PostgresValue {
        let (seconds, attoseconds) = life.components
        return .integer(seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
    }

    package func takeOver(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        within limit: Duration
    ) -> TakeoverOutcome {
        let connection: PostgresConnection
        let deadline: PostgresDeadline
        do throws(LogError) {
            (connection, deadline) = try open(within: limit)
            try requireIdentity(of: predecessor)
        } catch {
            return .failed(error)
        }
        do throws(PostgresError) {
            let count = try on(connection) { (connection) throws(PostgresError) in
                try claimLease(row, after: predecessor, as: claim, on: connection, until: deadline)
            }
            if let warning = connection.warning { return .inDoubt(.unconfirmed(warning)) }
            if count == 1 { return .taken }
        } catch {
            switch error {
            case .server(PostgresCode.uniqueViolation, _): break
            case .server(PostgresCode.checkViolation, _):
                do throws(LogError) {
                    try makeRoom(through: row.position.row, within: limit)
                    return .behind
                } catch {
                    return .failed(error)
                }
            case .server: return .failed(error.logError)
            case .late, .lost, .unreachable: return .inDoubt(error.logError)
            }
        }
        return settle(row, after: predecessor, as: claim, on: connection, until: deadline)
    }

    /// Takes the lease and inserts the row in one statement, both or neither.
    private func claimLease(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> Int {
        try connection.run(
            """
            with taken as (
              update martlet_lease set epoch = $2, node = $6, address = $7,
                     expires = clock_timestamp() + $8 * interval '1 microsecond'
               where epoch = $2 - 1 and (expires < clock_timestamp() or $9)
                 and exists (
                  select 1 from martlet_log where seq = $1 - 1 and epoch = $10 and chain = $5)
               returning 1)
            insert into martlet_log (seq, epoch, chain, body) select $1, $2, $3, $4 from taken
            """,
            [
                .integer(Int64(row.position.row)), .number(Int32(row.position.epoch)),
                .bytes(row.position.chain), .bytes(row.body), .bytes(predecessor.chain),
                .text(claim.node.text), .text(claim.address), Self.microseconds(claim.life),
                .flag(claim.isEarly), .number(Int32(predecessor.epoch)),
            ], until: deadline
        ).changedCount
    }

    /// The outcome of a takeover without a change now.
    private func settle(
        _ row: ReplicatedRow, after predecessor: LogPosition, as claim: LeaseClaim,
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) -> TakeoverOutcome {
        do throws(PostgresError) {
            return try on(connection) { (connection) throws(PostgresError) in
                // An attempt before this one: the lease begins anew, and its commit confirms the row.
                let renewed = try connection.run(
                    """
                    update martlet_lease
                       set expires = clock_timestamp() + $5 * interval '1 microsecond'
                     where epoch = $2 and node = $4 and exists (
                      select 1 from martlet_log where seq = $1 and epoch = $2 and chain = $3)
                    """,
                    [
                        .integer(Int64(row.position.row)), .number(Int32(row.position.epoch)),
                        .bytes(row.position.chain), .text(claim.node.text),
                        Self.microseconds(claim.life),
                    ], until: deadline)
                if let warning = connection.warning { return .inDoubt(.unconfirmed(warning)) }
                if renewed.changedCount == 1 { return .taken }
                let next = try connection.run(
                    """
                    select exists (select 1 from martlet_log
                                    where seq = $1 - 1 and epoch = $2 and chain = $3)
                       and not exists (select 1 from martlet_log where seq = $1)
                    """,
                    [
                        .integer(Int64(row.position.row)), .number(Int32(predecessor.epoch)),
                        .bytes(predecessor.chain),
                    ], until: deadline)
                guard next.flag(0, 0) else { return .behind }
                return .held(try Self.lease(on: connection, until: deadline))
            }
        } catch {
            return .inDoubt(error.logError)
        }
    }

    /// A lease that was handed over has the successor's name, and a renewal that comes late does not prolong it.
    package func renewLease(
        epoch: UInt32, life: Duration, within limit: Duration
    ) throws(LogError) -> Bool {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try connection.run(
                """
                update martlet_lease
                   set expires = clock_timestamp() + $2 * interval '1 microsecond'
                 where epoch = $1 and node = $3
                """,
                [.number(Int32(epoch)), Self.microseconds(life), .text(node.name.text)],
                as: "martlet_renew", until: deadline
            ).changedCount == 1
        }
    }

    package func releaseLease(
        epoch: UInt32, within limit: Duration
    ) throws(LogError) -> Bool {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try connection.run(
                """
                update martlet_lease set expires = clock_timestamp() - interval '1 microsecond'
                 where epoch = $1
                """, [.number(Int32(epoch))], until: deadline
            ).changedCount == 1
        }
    }

    package func handLease(
        epoch: UInt32, to successor: NodeReport, within limit: Duration
    ) throws(LogError) -> Bool {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try connection.run(
                """
                update martlet_lease set node = $2, address = $3,
                       expires = clock_timestamp() - interval '1 microsecond'
                 where epoch = $1
                """,
                [.number(Int32(epoch)), .text(successor.name.text), .text(successor.address)],
                until: deadline
            ).changedCount == 1
        }
    }
}
