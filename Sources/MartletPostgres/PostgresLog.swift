// SPDX-License-Identifier: Apache-2.0
//
// A log in PostgreSQL. A row is an INSERT in a transaction by itself, on condition of the predecessor, and the server
// answers when the synchronous standby has the row. The primary key and the predecessor are the fence: the transaction
// of an old active node fails.
//
// Statements are never cancelled and have no timeout on the server: PostgreSQL reports a broken wait for the standby as
// a success with a warning, or ends the session after the commit. Either is a doubt. Other sessions see the row then,
// although the standby may lack the row. So a commit of the connection follows each reading with a row: when the commit
// is answered, the standby has all transactions before the commit. Rests on PostgresConnection and PostgresSchema.

package import MartletCluster
import MartletRows

/// A connection of a node to a log in PostgreSQL.
package final class PostgresLog: ReplicationLog {
    /// The use of a connection. A node has a connection for each, so that a long append does not delay a renewal.
    package enum Purpose: String, Sendable {
        case rows
        case lease
    }

    private let address: PostgresAddress
    private let purpose: Purpose
    let schema: PostgresSchema
    var node: NodeReport

    private var connection: PostgresConnection?
    var found: LogIdentity?
    /// Whether the log is known to have the table of wishes.
    var hasWishes = false
    /// The server to try first.
    private var server = 0
    var doubt = OpenDoubt()

    /// Connects with the first call.
    /// - Parameter node: the report that is written if the log has no report of the node yet.
    package init(
        address: PostgresAddress, node: NodeReport, purpose: Purpose,
        schema: PostgresSchema = PostgresSchema()
    ) {
        self.address = address
        self.node = node
        self.purpose = purpose
        self.schema = schema
    }

    // MARK: Connecting

    /// Connects to a server for the making of the tables, and for commands.
    package static func connect(
        to address: PostgresAddress, as applicationName: String, within limit: Duration
    ) throws(LogError) -> PostgresConnection {
        let deadline = PostgresDeadline(after: limit)
        var problems: [String] = []
        for server in 0..<address.serverCount {
            do throws(PostgresError) {
                return try open(
                    address, server, as: applicationName,
                    until: deadline.earlier(after: ClusterLimits.firstCommit))
            } catch {
                problems.append("\(address.name(ofServer: server)): \(error)")
            }
        }
        throw .unavailable(problems.joined(separator: "; "))
    }

    /// - Parameter first: the first statement. One statement, because each costs a round trip to a server far away.
    private static func open(
        _ address: PostgresAddress, _ server: Int, as applicationName: String,
        first: String = settings, until deadline: PostgresDeadline
    ) throws(PostgresError) -> PostgresConnection {
        let connection = try PostgresConnection.open(
            address.parameters(ofServer: server, applicationName: applicationName),
            until: deadline)
        try connection.run(first, until: deadline)
        return connection
    }

    /// The needs of the log, against other settings of the server and of the role: no timeout, warnings, a commit that
    /// waits for the standby, and a new snapshot for each statement.
    private static let settings = """
        select set_config(name, case name
            when 'synchronous_commit' then
              case setting when 'remote_apply' then setting else 'on' end
            when 'client_min_messages' then 'warning'
            when 'default_transaction_isolation' then 'read committed'
            else '0' end, false)
          from pg_settings where name in (
            'synchronous_commit', 'client_min_messages', 'default_transaction_isolation',
            'statement_timeout', 'lock_timeout', 'transaction_timeout',
            'idle_in_transaction_session_timeout', 'idle_session_timeout')
        """

    /// The settings, and the ends of sessions of earlier connections that still wait for the standby or for each other.
    /// No client waits for their answers, and each holds a place for connections of the server until the standby is back.
    private static let settingsAndEnds = """
        \(settings)
        union all
        select pg_terminate_backend(pid)::text from pg_stat_activity
         where datname = current_database() and usename = current_user
           and application_name = current_setting('application_name')
           and pid <> pg_backend_pid() and state = 'active'
           and (wait_event = 'SyncRep' or wait_event_type = 'Lock')
        """

    /// The open connection, or a new one, and the deadline of a call. A new connection has a limit of its own, because
    /// the connection costs a commit.
    func open(
        within limit: Duration
    ) throws(LogError) -> (PostgresConnection, PostgresDeadline) {
        let connection = try open(until: PostgresDeadline(after: limit))
        return (connection, PostgresDeadline(after: limit))
    }

    /// The open connection, or a new one to the first server that commits in time.
    private func open(until deadline: PostgresDeadline) throws(LogError) -> PostgresConnection {
        if let connection { return connection }
        var problems: [String] = []
        let first = server
        for attempt in 0..<address.serverCount {
            let candidate = (first + attempt) % address.serverCount
            do throws(LogError) {
                // A slow server needs longer, and the caller then gives longer.
                let limit = max(ClusterLimits.firstCommit, deadline.left / 2)
                let opened = try begin(candidate, until: deadline.earlier(after: limit))
                server = candidate
                connection = opened
                return opened
            } catch {
                if error == .missing { throw error }
                problems.append("\(address.name(ofServer: candidate)): \(error)")
                // A server that does not answer takes the whole time, and the next call begins with another.
                server = (candidate + 1) % address.serverCount
                if deadline.isOver { break }
            }
        }
        throw .unavailable(problems.joined(separator: "; "))
    }

    /// Connects, and commits once before anything is believed: a server restarted alone shows rows that no other disk has,
    /// and does not commit.
    private func begin(
        _ server: Int, until deadline: PostgresDeadline
    ) throws(LogError) -> PostgresConnection {
        do throws(PostgresError) {
            let opened = try Self.open(
                address, server, as: "martlet \(purpose.rawValue) \(node.name)",
                first: Self.settingsAndEnds, until: deadline)
            // The commit comes after the reading, and confirms it.
            let identity = try opened.run(
                """
                with touched as (\(Self.touch))
                select incarnation, redo_format from martlet_cluster
                """, Self.values(of: node), until: deadline)
            if let warning = opened.warning { throw PostgresError.lost(warning) }
            guard identity.rowCount == 1 else {
                throw PostgresError.server(code: PostgresCode.undefinedTable, text: "")
            }
            found = LogIdentity(
                incarnation: identity.bytes(0, 0), redoFormat: Int(identity.integer(0, 1)))
            return opened
        } catch {
            throw error.logError
        }
    }

    /// A commit that changes only the time of the node's last sign.
    private func touch(
        _ connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(PostgresError) {
        try connection.run(
            Self.touch, Self.values(of: node), as: "martlet_touch", until: deadline)
        if let warning = connection.warning { throw .lost(warning) }
    }

    private static let touch = """
        insert into martlet_node (node, run, address, formats, applied, seen)
        values ($1, $2, $3, int4range($4, $5, '[]'), $6, clock_timestamp())
        on conflict (node) do update set seen = clock_timestamp()
        """

    static func values(of node: NodeReport) -> [PostgresValue] {
        [
            .text(node.name.text), .integer(Int64(node.run)), .text(node.address),
            .number(Int32(node.formats.lowerBound)), .number(Int32(node.formats.upperBound)),
            .integer(Int64(node.applied)),
        ]
    }

    // MARK: Calls

    /// Runs `body` on the open connection. A late or lost connection is closed.
    func on<Result>(
        _ connection: PostgresConnection,
        _ body: (PostgresConnection) throws(PostgresError) -> Result
    ) throws(PostgresError) -> Result {
        do throws(PostgresError) { return try body(connection) } catch {
            switch error {
            // A primary that has become a standby takes no rows any more.
            case .server(PostgresCode.readOnly, _), .late, .lost, .unreachable:
                self.connection = nil
            case .server: break
            }
            throw error
        }
    }

    /// A call that changes rows and may be repeated.
    func write<Result>(
        within limit: Duration,
        _ body: (PostgresConnection, PostgresDeadline) throws(PostgresError) -> Result
    ) throws(LogError) -> Result {
        let (connection, deadline) = try open(within: limit)
        do throws(PostgresError) {
            let result = try on(connection) { (connection) throws(PostgresError) in
                try body(connection, deadline)
            }
            guard let warning = connection.warning else { return result }
            throw PostgresError.lost(warning)
        } catch {
            throw error.logError
        }
    }

    /// A reading call, with a commit after the reading.
    func read<Result>(
        within limit: Duration,
        _ body: (PostgresConnection, PostgresDeadline) throws(PostgresError) -> Result
    ) throws(LogError) -> Result {
        let (connection, deadline) = try open(within: limit)
        let result: Result
        do throws(PostgresError) {
            result = try on(connection) { (connection) throws(PostgresError) in
                try body(connection, deadline)
            }
        } catch {
            throw error.logError
        }
        try confirm(connection, until: deadline)
        return result
    }

    func confirm(
        _ connection: PostgresConnection, until deadline: PostgresDeadline
    ) throws(LogError) {
        do throws(PostgresError) {
            try on(connection) { (connection) throws(PostgresError) in
                try touch(connection, until: deadline)
            }
        } catch {
            throw .unconfirmed("\(error)")
        }
    }

    func requireIdentity(of position: LogPosition) throws(LogError) {
        guard let found, found.incarnation == position.incarnation else { throw .foreign }
    }

    package func identity(within limit: Duration) throws(LogError) -> LogIdentity {
        _ = try open(within: limit)
        guard let found else { throw .missing }
        return found
    }

    package func confirm(within limit: Duration) throws(LogError) {
        let (connection, deadline) = try open(within: limit)
        try confirm(connection, until: deadline)
    }
}
