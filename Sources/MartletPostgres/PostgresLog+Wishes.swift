// SPDX-License-Identifier: Apache-2.0
//
// Wishes of operators in PostgreSQL. Rests on PostgresLog and PostgresSchema.

package import MartletCluster

extension PostgresLog {
    private static func kind(_ wish: NodeWish) -> String {
        switch wish.kind {
        case .drain: "drain"
        case .handOver: "handover"
        }
    }

    package func wishes(within limit: Duration) throws(LogError) -> [NodeWish] {
        try read(within: limit) { (connection, deadline) throws(PostgresError) in
            try self.wishes(on: connection, until: deadline)
        }
    }

    /// Notes whether the log has the table of wishes, until it has. A query of a table that is not there would fill the
    /// server's log with errors.
    func lookForWishes(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) {
        guard !hasWishes else { return }
        hasWishes = try connection.run(
            "select to_regclass('martlet_wish') is not null", until: deadline
        ).flag(0, 0)
    }

    private func wishes(
        on connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) -> [NodeWish] {
        try lookForWishes(on: connection, until: deadline)
        guard hasWishes else { return [] }
        let result = try connection.run(
            "select node, kind, successor from martlet_wish order by node, kind", until: deadline)
        return (0..<result.rowCount).compactMap { row in
            Self.wish(of: result.text(row, 0), result.text(row, 1), result.text(row, 2))
        }
    }

    /// nil: a wish of a later version.
    static func wish(of node: String, _ kind: String, _ successor: String) -> NodeWish? {
        guard let node = try? NodeName(validating: node) else { return nil }
        switch kind {
        case "drain": return NodeWish(node: node, kind: .drain)
        case "handover":
            let successor = try? NodeName(validating: successor)
            return successor.map { NodeWish(node: node, kind: .handOver(to: $0)) }
        default: return nil
        }
    }

    package func ask(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        let successor = if case .handOver(let name) = wish.kind { name.text } else { "" }
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try connection.run(PostgresSchema.wishes, until: deadline)
            _ = try connection.run(
                """
                insert into martlet_wish (node, kind, successor) values ($1, $2, $3)
                on conflict (node, kind) do update set successor = excluded.successor
                """, [.text(wish.node.text), .text(Self.kind(wish)), .text(successor)],
                until: deadline)
        }
    }

    package func withdraw(_ wish: NodeWish, within limit: Duration) throws(LogError) {
        try write(within: limit) { (connection, deadline) throws(PostgresError) in
            try lookForWishes(on: connection, until: deadline)
            guard hasWishes else { return }
            _ = try connection.run(
                "delete from martlet_wish where node = $1 and kind = $2",
                [.text(wish.node.text), .text(Self.kind(wish))], until: deadline)
        }
    }
}
