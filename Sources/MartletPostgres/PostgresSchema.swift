// SPDX-License-Identifier: Apache-2.0
//
// The tables of a log, and the partitions of the table of rows.
//
//   martlet_cluster  incarnation, redo_format                        a single row
//   martlet_log      seq, epoch, chain, body                         by ranges of seq; row 0 is the beginning
//   martlet_lease    epoch, node, address, expires                   a single row
//   martlet_node     node, run, address, formats, applied, seen      a row for each node
//   martlet_wish     node, kind, successor                           a row for each wish of an operator
//
// A partition has a range of row numbers, known ahead, so the partition is attached before the first row comes, beside
// appends: inserts do not wait for the lock of ATTACH, and would wait for CREATE TABLE ... PARTITION OF. Old rows go
// with the partition. DROP waits for running statements and keeps new statements out meanwhile, so the wait is
// bounded. Rests on PostgresConnection.

package import MartletCluster
import MartletRows

/// The tables of a log in the first schema of a connection's search path.
package struct PostgresSchema: Sendable {
    /// Longest time of appends behind a waiting DROP.
    private static let lockMilliseconds = 100

    /// Rows of a partition, equal on all nodes.
    package let partitionRows: UInt64

    package init(partitionRows: UInt64 = ClusterLimits.partitionRows) {
        self.partitionRows = partitionRows
    }

    // MARK: Tables

    private static let tables = [
        "create table martlet_cluster (incarnation uuid not null, redo_format int not null)",
        "create unique index martlet_cluster_single on martlet_cluster ((true))",
        """
        create table martlet_log (
          seq bigint primary key, epoch int not null, chain bytea not null, body bytea not null
        ) partition by range (seq)
        """,
        // Bodies are packed already.
        "alter table martlet_log alter column body set storage external",
        """
        create table martlet_lease (
          epoch int not null, node text, address text not null, expires timestamptz not null
        )
        """,
        "create unique index martlet_lease_single on martlet_lease ((true))",
        "insert into martlet_lease values (0, null, '', 'epoch')",
        """
        create table martlet_node (
          node text primary key, run bigint not null, address text not null,
          formats int4range not null, applied bigint not null, seen timestamptz not null
        )
        """,
        wishes,
    ]

    /// Logs of earlier versions get the table with the first wish.
    static let wishes = """
        create table if not exists martlet_wish (
          node text not null, kind text not null, successor text not null, primary key (node, kind)
        )
        """

    /// Makes the tables of a new log.
    /// - Throws: `present` if a table exists already.
    package func create(
        _ identity: LogIdentity, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(LogError) {
        let beginning = LogPosition(beginningOf: identity.incarnation)
        do throws(PostgresError) {
            try transaction(on: connection, until: deadline) { () throws(PostgresError) in
                for table in Self.tables { try connection.run(table, until: deadline) }
                try connection.run(
                    "insert into martlet_cluster values ($1, $2)",
                    [.uuid(identity.incarnation), .number(Int32(identity.redoFormat))],
                    until: deadline)
                try attach(0, on: connection, until: deadline)
                try connection.run(
                    "insert into martlet_log values (0, 0, $1, '')", [.bytes(beginning.chain)],
                    until: deadline)
            }
        } catch {
            if case .server(PostgresCode.duplicateTable, _) = error { throw .present }
            throw error.logError
        }
    }

    private func transaction(
        on connection: PostgresConnection, until deadline: PostgresDeadline,
        _ body: () throws(PostgresError) -> Void
    ) throws(PostgresError) {
        try connection.run("begin", until: deadline)
        do throws(PostgresError) { try body() } catch {
            if case .server = error { try connection.run("rollback", until: deadline) }
            throw error
        }
        try connection.run("commit", until: deadline)
    }

    // MARK: Partitions

    package func partition(of row: UInt64) -> UInt64 { row / partitionRows }

    private func table(_ partition: UInt64) -> String { "martlet_log_p\(partition)" }

    /// The numbers of the attached partitions, in order.
    package func partitions(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> [UInt64] {
        let result = try connection.run(
            """
            select substr(c.relname, 14)::bigint from pg_inherits i
              join pg_class c on c.oid = i.inhrelid
             where i.inhparent = 'martlet_log'::regclass order by 1
            """, until: deadline)
        return (0..<result.rowCount).map { UInt64(result.integer($0, 0)) }
    }

    /// The bytes of the attached partitions with indexes, in order.
    package func partitionBytes(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> [(partition: UInt64, bytes: UInt64)] {
        let result = try connection.run(
            """
            select substr(c.relname, 14)::bigint, pg_total_relation_size(c.oid) from pg_inherits i
              join pg_class c on c.oid = i.inhrelid
             where i.inhparent = 'martlet_log'::regclass order by 1
            """, until: deadline)
        return (0..<result.rowCount).map {
            (UInt64(result.integer($0, 0)), UInt64(result.integer($0, 1)))
        }
    }

    /// Attaches the partition of a row, and all partitions between the last one and the row.
    package func makeRoom(
        through row: UInt64, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) {
        let last = try partitions(on: connection, until: deadline).last
        let wanted = partition(of: row)
        guard last ?? 0 < wanted || last == nil else { return }
        for partition in (last.map { $0 + 1 } ?? wanted)...wanted {
            try transaction(on: connection, until: deadline) { () throws(PostgresError) in
                try attach(partition, on: connection, until: deadline)
            }
        }
    }

    /// Two nodes may attach a partition at once. The second node waits for the first, and finds the partition.
    private func attach(
        _ partition: UInt64, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) {
        let table = table(partition)
        try connection.run(
            "select pg_advisory_xact_lock('martlet_log'::regclass::oid::bigint)", until: deadline)
        let found = try connection.run(
            "select to_regclass($1) is not null", [.text(table)], until: deadline)
        guard !found.flag(0, 0) else { return }
        try connection.run(
            "create table \(table) (like martlet_log including all)", until: deadline)
        try connection.run(
            """
            alter table martlet_log attach partition \(table) for values \
            from (\(partition * partitionRows)) to (\((partition + 1) * partitionRows))
            """, until: deadline)
    }

    /// Drops the partitions with rows below `row` only. Stops early if other statements do not end in time.
    /// - Returns: the first row of the log afterwards.
    package func trim(
        below row: UInt64, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> UInt64 {
        let tail = try connection.run("select max(seq) from martlet_log", until: deadline)
        let end = partition(of: min(row, UInt64(tail.integer(0, 0))))
        let partitions = try partitions(on: connection, until: deadline)
        for partition in partitions where partition < end {
            do throws(PostgresError) {
                try transaction(on: connection, until: deadline) { () throws(PostgresError) in
                    try connection.run(
                        "set local lock_timeout = '\(Self.lockMilliseconds)ms'", until: deadline)
                    try connection.run("drop table \(table(partition))", until: deadline)
                }
            } catch {
                guard case .server(PostgresCode.lockNotAvailable, _) = error else { throw error }
                return partition * partitionRows
            }
        }
        return max(end, partitions.first ?? 0) * partitionRows
    }
}
