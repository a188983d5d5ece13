// SPDX-License-Identifier: Apache-2.0
//
// Reports of the nodes, and the room of a log in PostgreSQL. Rests on PostgresLog and PostgresSchema.

import Glibc
package import MartletCluster

extension PostgresLog {
    package func report(_ node: NodeReport, within limit: Duration) throws(LogError) {
        self.node = node
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try Self.report(node, on: connection, until: deadline)
        }
    }

    private static func report(
        _ node: NodeReport, on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) {
        try connection.run(
            """
            insert into martlet_node (node, run, address, formats, applied, seen)
            values ($1, $2, $3, int4range($4, $5, '[]'), $6, clock_timestamp())
            on conflict (node) do update set run = excluded.run, address = excluded.address,
              formats = excluded.formats, applied = excluded.applied, seen = excluded.seen
            """, values(of: node), as: "martlet_report", until: deadline)
    }

    /// One statement, so that a server far away costs one round trip: a node's lease waits behind the exchange. The commit of
    /// the report comes after the readings, and confirms them.
    package func exchange(
        _ node: NodeReport, within limit: Duration
    ) throws(LogError) -> NodeNews {
        self.node = node
        return try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try lookForWishes(on: connection, until: deadline)
            let began = Self.monotonic()
            let result = try connection.run(
                hasWishes ? Self.exchangeWithWishes : Self.exchange, Self.values(of: node),
                as: hasWishes ? "martlet_exchange_wishes" : "martlet_exchange", until: deadline)
            let time = (began, Self.monotonic())
            var news = NodeNews(nodes: [NodeSighting(report: node, age: .zero)])
            for row in 0..<result.rowCount {
                switch result.integer(row, 0) {
                case 0:
                    if let other = Self.sighting(result, row, from: 1) { news.nodes.append(other) }
                case 1: news.clock = Self.clock(.microseconds(result.integer(row, 7)), asked: time)
                default:
                    let wish = Self.wish(
                        of: result.text(row, 1), result.text(row, 3), result.text(row, 8))
                    if let wish { news.wishes.append(wish) }
                }
            }
            news.nodes.sort { $0.report.name < $1.report.name }
            return news
        }
    }

    /// Rows of kind 0: the other nodes, as they were before the report; of kind 1: the server's clock.
    private static let exchange = """
        with report as (
          insert into martlet_node (node, run, address, formats, applied, seen)
          values ($1, $2, $3, int4range($4, $5, '[]'), $6, clock_timestamp())
          on conflict (node) do update set run = excluded.run, address = excluded.address,
            formats = excluded.formats, applied = excluded.applied, seen = excluded.seen)
        select 0, node, run, address, lower(formats), upper(formats) - 1, applied,
               (extract(epoch from clock_timestamp() - seen) * 1000000)::bigint, null
          from martlet_node where node <> $1
        union all
        select 1, null, null, null, null, null, null,
               (extract(epoch from clock_timestamp()) * 1000000)::bigint, null
        """

    /// The same, and the wishes of operators, which are of kind 2.
    private static let exchangeWithWishes =
        exchange + """

            union all
            select 2, node, null, kind, null, null, null, null, successor from martlet_wish
            """

    private static func monotonic() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// A look at the server's clock. The server looked at some moment of the question's time.
    private static func clock(
        _ found: Duration, asked: (began: Duration, ended: Duration)
    ) -> LogClock {
        LogClock(
            lead: found - (asked.began + asked.ended) / 2, error: (asked.ended - asked.began) / 2)
    }

    package func nodes(within limit: Duration) throws(LogError) -> [NodeSighting] {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            try Self.nodes(on: connection, until: deadline)
        }
    }

    private static func nodes(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> [NodeSighting] {
        let result = try connection.run(
            """
            select node, run, address, lower(formats), upper(formats) - 1, applied,
                   (extract(epoch from clock_timestamp() - seen) * 1000000)::bigint
              from martlet_node order by node collate "C"
            """, until: deadline)
        return (0..<result.rowCount).compactMap { sighting(result, $0, from: 0) }
    }

    /// - Parameter column: the column of the node's name.
    private static func sighting(
        _ result: PostgresResult, _ row: Int, from column: Int
    ) -> NodeSighting? {
        guard let name = try? NodeName(validating: result.text(row, column)) else { return nil }
        let report = NodeReport(
            name: name, run: UInt32(result.integer(row, column + 1)),
            address: result.text(row, column + 2),
            formats: Int(result.integer(row, column + 3))...Int(result.integer(row, column + 4)),
            applied: UInt64(result.integer(row, column + 5)))
        return NodeSighting(report: report, age: .microseconds(result.integer(row, column + 6)))
    }

    package func remove(_ node: NodeName, within limit: Duration) throws(LogError) {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            _ = try connection.run(
                "delete from martlet_node where node = $1", [.text(node.text)], until: deadline)
        }
    }

    package func makeRoom(through row: UInt64, within limit: Duration) throws(LogError) {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try schema.makeRoom(through: row, on: connection, until: deadline)
        }
    }

    package func trim(below row: UInt64, within limit: Duration) throws(LogError) -> UInt64 {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try schema.trim(below: row, on: connection, until: deadline)
        }
    }

    /// Sentences about a session in plain text over a network, and about a server without a synchronous standby.
    package func warnings(within limit: Duration) throws(LogError) -> [String] {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            let result = try connection.run(
                """
                select current_setting('synchronous_standby_names') = '',
                       coalesce(not (inet_client_addr() <<= '127.0.0.0/8' or inet_client_addr() = '::1'), false)
                       and not exists (select 1 from pg_stat_ssl
                                        where pid = pg_backend_pid() and ssl)
                       and not exists (select 1 from pg_stat_gssapi
                                        where pid = pg_backend_pid() and encrypted)
                """, until: deadline)
            var warnings: [String] = []
            if result.flag(0, 0) {
                warnings.append(
                    """
                    PostgreSQL has no synchronous standby (synchronous_standby_names is empty): what is accepted is \
                    on one disk of PostgreSQL, unless a managed service copies it otherwise
                    """)
            }
            if result.flag(0, 1) {
                warnings.append(
                    """
                    PostgreSQL is reached in plain text over a network: messages and tokens can be read there; \
                    say sslmode=verify-full in the URI
                    """)
            }
            return warnings
        }
    }

    package func byteCount(within limit: Duration) throws(LogError) -> UInt64? {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            try schema.partitionBytes(on: connection, until: deadline).map(\.bytes).reduce(0, +)
        }
    }

    package func firstRow(
        ofNewest bytesMax: UInt64, within limit: Duration
    ) throws(LogError) -> UInt64? {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            var bytes: UInt64 = 0
            for piece in try schema.partitionBytes(on: connection, until: deadline).reversed() {
                bytes += piece.bytes
                if bytes > bytesMax { return (piece.partition + 1) * schema.partitionRows }
            }
            return nil
        }
    }
}
