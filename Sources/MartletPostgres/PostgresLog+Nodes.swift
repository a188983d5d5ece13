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

    /// The commit of the report comes after the readings, and confirms them.
    package func exchange(
        _ node: NodeReport, within limit: Duration
    ) throws(LogError) -> NodeNews {
        self.node = node
        return try write(within: limit) { (connection, deadline) throws(PostgresError) in
            let wishes = try Self.wishes(on: connection, until: deadline)
            let others = try Self.nodes(on: connection, until: deadline)
                .filter { $0.report.name != node.name }
            let clock = try Self.clock(on: connection, until: deadline)
            try Self.report(node, on: connection, until: deadline)
            let all = others + [NodeSighting(report: node, age: .zero)]
            return NodeNews(
                nodes: all.sorted { $0.report.name < $1.report.name }, wishes: wishes,
                clock: clock)
        }
    }

    /// A look at the server's clock. The server looked at some moment of the question's time.
    private static func clock(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> LogClock {
        func monotonic() -> Duration {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        }
        let began = monotonic()
        let result = try connection.run(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint", until: deadline)
        let ended = monotonic()
        return LogClock(
            lead: .microseconds(result.integer(0, 0)) - (began + ended) / 2,
            error: (ended - began) / 2)
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
        return (0..<result.rowCount).compactMap { row in
            guard let name = try? NodeName(validating: result.text(row, 0)) else { return nil }
            let report = NodeReport(
                name: name, run: UInt32(result.integer(row, 1)), address: result.text(row, 2),
                formats: Int(result.integer(row, 3))...Int(result.integer(row, 4)),
                applied: UInt64(result.integer(row, 5)))
            return NodeSighting(report: report, age: .microseconds(result.integer(row, 6)))
        }
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
