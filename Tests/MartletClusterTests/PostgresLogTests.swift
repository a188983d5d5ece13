// SPDX-License-Identifier: Apache-2.0
//
// The log in PostgreSQL, on a real primary with a real synchronous standby: it does what every log must do, and no
// failure of a server, of a session or of a wait makes it lose or invent a row.

import Glibc
import MartletBase
import MartletCluster
import MartletCrypto
import MartletPostgres
import MartletRows
import TestSupport
import Testing

@Suite(
    "A log in PostgreSQL", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct PostgresLogTests {
    private static let short = Duration.milliseconds(300)

    /// A new log in a database of its own.
    private final class World {
        let pair: PostgresPair
        let database: String
        let identity: LogIdentity
        let schema: PostgresSchema
        let hosts: [UInt16]?

        init(
            _ pair: PostgresPair, partitionRows: UInt64 = ClusterLimits.partitionRows,
            hosts: [UInt16]? = nil
        ) throws {
            self.pair = pair
            self.hosts = hosts
            database = try pair.makeDatabase()
            identity = LogIdentity(incarnation: Array(repeating: 5, count: 16), redoFormat: 1)
            schema = PostgresSchema(partitionRows: partitionRows)
            try schema.create(
                identity,
                on: try PostgresLog.connect(
                    to: try pair.address(database), as: "martlet init", within: .ample),
                until: PostgresDeadline(after: .ample))
        }

        func log(
            _ name: NodeName, _ purpose: PostgresLog.Purpose = .rows, hosts: [UInt16]? = nil
        ) throws -> PostgresLog {
            PostgresLog(
                address: try pair.address(database, hosts: hosts ?? self.hosts),
                node: LogBench.report(name), purpose: purpose, schema: schema)
        }

        func bench() throws -> LogBench {
            LogBench(
                identity: identity, trimmedRows: schema.partitionRows, a: try log(.a),
                b: try log(.b))
        }

        /// The rows that a server shows, past the log.
        func shownRowCount(_ server: PostgresServer? = nil) throws -> Int64 {
            try (server ?? pair.primary)
                .run("select count(*) from martlet_log", in: database).integer(0, 0)
        }

        /// Waits until a session of the log waits for the standby, and does something to it.
        func breakWait(_ function: String) throws {
            try pair.primary.wait(
                until: """
                    select bool_and(\(function)(pid)) from pg_stat_activity
                     where wait_event = 'SyncRep' and query like 'insert into martlet_log%'
                       and datname = current_database()
                    """, in: database)
        }
    }

    private func pair() throws -> PostgresPair { try #require(WithPostgres.shared).pair }

    @Test("The contract of a log", arguments: LogContract.allCases)
    func contract(part: LogContract) throws {
        try part.check(try World(try pair(), partitionRows: 8).bench())
    }

    // MARK: Doubt

    @Test(
        "OPS-7: a cancelled wait and an ended session are doubts; the row counts when the standby has it",
        arguments: ["pg_cancel_backend", "pg_terminate_backend"])
    func brokenWait(function: String) throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        _ = try bench.b.tail(within: .ample)
        try world.pair.detachStandby()
        defer { world.pair.attachStandby() }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        let breaker = BlockingWork { try world.breakWait(function) }
        let outcome = bench.a.append(row, after: first, within: .ample)
        try breaker.wait()
        guard case .inDoubt(let error) = outcome, error != .late else {
            Issue.record("\(outcome)")
            return
        }
        // Everybody sees the row, and the log does not believe what it sees.
        #expect(try world.shownRowCount() == 3)
        #expect(throws: LogError.self) {
            try bench.a.fate(of: row.position, within: Self.short)
        }
        #expect(throws: LogError.self) {
            try bench.b.rows(after: first, bytesMax: 100, within: Self.short)
        }
        world.pair.attachStandby()
        #expect(try bench.a.fate(of: row.position, within: .ample) == .accepted)
        #expect(try bench.b.rows(after: first, bytesMax: 100, within: .ample) == [row])
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
    }

    @Test("OPS-7: a deadline is a doubt; the same row again is accepted once the standby is back")
    func deadline() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        try world.pair.detachStandby()
        defer { world.pair.attachStandby() }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        #expect(bench.a.append(row, after: first, within: Self.short) == .inDoubt(.late))
        #expect(try world.shownRowCount() == 2)
        // The next attempts cannot even begin, and the doubt stays.
        for _ in 0..<2 {
            guard case .inDoubt = bench.a.append(row, after: first, within: Self.short) else {
                Issue.record("a row that waits on the server is in doubt")
                return
            }
        }
        world.pair.attachStandby()
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        #expect(try world.shownRowCount() == 3)
    }

    @Test("OPS-7: calls without an answer do not use up the server's connections")
    func leftovers() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        try world.pair.detachStandby()
        defer { world.pair.attachStandby() }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        for _ in 0..<8 { _ = bench.a.append(row, after: first, within: .milliseconds(150)) }
        let waiting = try world.pair.primary.run(
            """
            select count(*) from pg_stat_activity
             where application_name like 'martlet rows a' and datname = '\(world.database)'
            """)
        #expect(waiting.integer(0, 0) <= 2)
        world.pair.attachStandby()
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
    }

    @Test(
        "OPS-7: an old active node's row that waits on the server makes way for nothing but itself")
    func lateRow() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        #expect(try bench.b.tail(within: .ample) == first)
        try world.pair.detachStandby()
        defer { world.pair.attachStandby() }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        #expect(bench.a.append(row, after: first, within: Self.short) == .inDoubt(.late))
        let attaching = BlockingWork {
            usleep(100_000)
            world.pair.attachStandby()
        }
        let outcome = bench.b.takeOver(
            LogBench.takeover(by: .b, after: first), after: first,
            as: LogBench.claim(.b, isEarly: true), within: .ample)
        try attaching.wait()
        #expect(outcome == .behind)
        #expect(try bench.b.lease(within: .ample).holder == .a)
        #expect(try bench.b.rows(after: first, bytesMax: 100, within: .ample) == [row])
        _ = try bench.takeOver(bench.b, .b, after: row.position, isEarly: true)
    }

    @Test("OPS-7: a long append does not keep the lease waiting")
    func purposes() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let lease = try world.log(.a, .lease)
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        #expect(try lease.renewLease(epoch: 1, life: .seconds(9), within: .ample))
        // A row that waits for another session's row: the server is well, and this append does not end.
        let blocker = try world.pair.primary.connect(database: world.database)
        let deadline = PostgresDeadline(after: .ample)
        try blocker.run("begin", until: deadline)
        try blocker.run("insert into martlet_log values (2, 9, '', '')", until: deadline)
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        let outcome = BlockingWork {
            bench.a.append(row, after: first, within: .ample)
        }
        try world.pair.primary.wait(
            until: "select exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')",
            in: world.database)
        #expect(try lease.renewLease(epoch: 1, life: .seconds(9), within: .ample))
        try blocker.run("rollback", until: deadline)
        #expect(try outcome.wait() == .accepted)
    }

    // MARK: Room

    @Test("OPS-7: partitions are attached ahead of the rows, and dropped behind them")
    func partitions() throws {
        let world = try World(try pair(), partitionRows: 8)
        let bench = try world.bench()
        let looking = try world.pair.primary.connect(database: world.database)
        func partitions() throws -> [UInt64] {
            try world.schema.partitions(on: looking, until: PostgresDeadline(after: .ample))
        }
        #expect(try partitions() == [0])
        try bench.a.makeRoom(through: 17, within: .ample)
        #expect(try partitions() == [0, 1, 2])
        try bench.b.makeRoom(through: 23, within: .ample)
        #expect(try partitions() == [0, 1, 2])
        var last = try bench.takeOver(bench.a, .a, after: bench.beginning)
        last = try bench.append(
            (0..<28).map { [UInt8($0)] }, to: bench.a, after: last)
        // Rows beyond the last partition make their own.
        #expect(try partitions() == [0, 1, 2, 3])
        #expect(try bench.a.trim(below: 17, within: .ample) == 16)
        #expect(try partitions() == [2, 3])
        // A statement that reads the log keeps the partition for now, and appends go on.
        let deadline = PostgresDeadline(after: .ample)
        try looking.run("begin", until: deadline)
        try looking.run("select * from martlet_log", until: deadline)
        #expect(try bench.a.trim(below: 24, within: .ample) == 16)
        last = try bench.append([[1]], to: bench.a, after: last)
        try looking.run("rollback", until: deadline)
        #expect(try bench.a.trim(below: 24, within: .ample) == 24)
        #expect(try partitions() == [3])
        let storage = try looking.run(
            """
            select distinct attstorage::text from pg_attribute a
             join pg_class c on c.oid = a.attrelid
             where c.relname like 'martlet_log%' and attname = 'body'
            """, until: deadline)
        #expect(storage.rowCount == 1 && storage.text(0, 0) == "e")
    }

    @Test("OPS-7: rows of megabytes are written and read whole")
    func largeRows() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let bodies = [3, 5].map { seed in
            (0..<(6 << 20)).map { UInt8(truncatingIfNeeded: $0 &* seed &+ $0 >> 8) }
        }
        let last = try bench.append(bodies, to: bench.a, after: first)
        let one = try bench.b.rows(
            after: first, bytesMax: ClusterLimits.readBytesMax, within: .ample)
        #expect(one.map(\.body) == [bodies[0]])
        let both = try bench.b.rows(after: first, bytesMax: 12 << 20, within: .ample)
        #expect(both.map(\.body) == bodies && both.last?.position == last)
        #expect(both.firstDivergence(after: first) == nil)
    }

    // MARK: Settings and schema

    @Test("OPS-7: a log is made once, and a database without one is told")
    func schema() throws {
        let world = try World(try pair())
        let again = try PostgresLog.connect(
            to: try world.pair.address(world.database), as: "martlet init", within: .ample)
        #expect(throws: LogError.present) {
            try world.schema.create(
                world.identity, on: again, until: PostgresDeadline(after: .ample))
        }
        let empty = try world.pair.makeDatabase()
        let log = PostgresLog(
            address: try world.pair.address(empty), node: LogBench.report(.a), purpose: .rows)
        #expect(throws: LogError.missing) { try log.identity(within: .ample) }
    }

    @Test("OPS-7: settings of the role cannot weaken a session of the log")
    func settings() throws {
        let world = try World(try pair())
        let role = "alter role martlet in database \(world.database) set"
        for setting in [
            "statement_timeout = '50ms'", "synchronous_commit = off",
            "client_min_messages = error", "default_transaction_isolation = 'serializable'",
        ] {
            try world.pair.primary.run("\(role) \(setting)")
        }
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        try world.pair.detachStandby()
        defer { world.pair.attachStandby() }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        let breaker = BlockingWork {
            usleep(150_000)
            try world.breakWait("pg_cancel_backend")
        }
        let outcome = bench.a.append(row, after: first, within: .ample)
        try breaker.wait()
        guard case .inDoubt(.unconfirmed) = outcome else {
            Issue.record("\(outcome)")
            return
        }
    }

    @Test(
        "OPS-7: beyond its bytes the log lets the oldest rows go, and a node without them is told to join"
    )
    func bytes() throws {
        let world = try World(try pair(), partitionRows: 8)
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        // Bodies that PostgreSQL keeps out of line.
        let bodies = (0..<40).map { Array(repeating: UInt8($0), count: 20_000) }
        let last = try bench.append(bodies, to: bench.a, after: first)
        let bytes = try #require(try bench.a.byteCount(within: .ample))
        #expect(bytes > 800_000)
        #expect(try bench.a.firstRow(ofNewest: bytes, within: .ample) == nil)
        // Room for two whole partitions and a part.
        let row = try #require(try bench.a.firstRow(ofNewest: 500_000, within: .ample))
        #expect(row % 8 == 0 && row > 8 && row < last.row - 8)
        #expect(try bench.a.trim(below: row, within: .ample) == row)
        #expect(try #require(try bench.a.byteCount(within: .ample)) <= 500_000)
        do throws(LogError) {
            _ = try bench.b.rows(after: first, bytesMax: 1 << 20, within: .ample)
            Issue.record("rows that were dropped are read")
        } catch {
            #expect(error == .trimmed(first: row))
            #expect(error.description.contains("martlet cluster join"))
        }
        // No bound is below the last row.
        _ = try bench.a.trim(below: .max >> 1, within: .ample)
        #expect(try bench.a.tail(within: .ample) == last)
    }

    @Test("OPS-7: wishes are kept, replaced and withdrawn, also in a log without their table")
    func wishes() throws {
        let world = try World(try pair())
        let drain = NodeWish(node: .a, kind: .drain)
        for isThere in [true, false] {
            if !isThere {
                try world.pair.primary.run("drop table martlet_wish", in: world.database)
            }
            // A connected log that has seen the table looks for it no more.
            let bench = try world.bench()
            #expect(try bench.a.wishes(within: .ample).isEmpty)
            try bench.b.withdraw(drain, within: .ample)
            try bench.b.ask(drain, within: .ample)
            try bench.b.ask(drain, within: .ample)
            try bench.b.ask(NodeWish(node: .a, kind: .handOver(to: .a)), within: .ample)
            try bench.b.ask(NodeWish(node: .a, kind: .handOver(to: .b)), within: .ample)
            #expect(
                try bench.a.wishes(within: .ample)
                    == [drain, NodeWish(node: .a, kind: .handOver(to: .b))])
            try bench.a.withdraw(NodeWish(node: .a, kind: .handOver(to: .a)), within: .ample)
            try bench.a.withdraw(NodeWish(node: .b, kind: .drain), within: .ample)
            #expect(try bench.a.wishes(within: .ample) == [drain])
        }
    }

    @Test("OPS-7: a lease that is handed over is over, and has the successor's name")
    func handedOver() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        var successor = LogBench.report(.b)
        successor.address = "10.0.0.2:5230"
        #expect(try bench.a.handLease(epoch: 1, to: successor, within: .ample))
        let lease = try bench.b.lease(within: .ample)
        #expect(lease.isOver && lease.holder == .b && lease.address == "10.0.0.2:5230")
        #expect(lease.epoch == 1)
        let second = try bench.takeOver(bench.b, .b, after: first)
        #expect(second.epoch == 2)
        #expect(try !bench.a.handLease(epoch: 1, to: successor, within: .ample))
    }

    @Test("OPS-7: the password is read from the password file, and nowhere else")
    func passwords() throws {
        let world = try World(try pair())
        #expect(throws: LogError.self) {
            try PostgresAddress("postgresql://martlet:secret@127.0.0.1/log")
        }
        let wrong = world.pair.folder + "/wrong-passwords"
        try PostgresPrograms.append("127.0.0.1:*:*:martlet:wrong\n", to: wrong)
        chmod(wrong, 0o600)
        let address = try PostgresAddress(
            """
            postgresql://martlet@127.0.0.1:\(world.pair.primary.port)/\(world.database)\
            ?passfile=\(wrong)
            """)
        let log = PostgresLog(address: address, node: LogBench.report(.a), purpose: .rows)
        do throws(LogError) {
            _ = try log.identity(within: .ample)
            Issue.record("a wrong password was taken")
        } catch {
            guard case .unavailable(let text) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(text.contains("password authentication failed"))
        }
    }

    @Test(
        "OPS-7: the way to the log speaks TLS, and a server of another authority or name is refused"
    )
    func tls() throws {
        let world = try World(try pair())
        let made = try SelfSignedCertificate(names: ["IP:127.0.0.1"])
        try world.pair.speakTLS((made.certificate, made.key))
        defer { try? world.pair.speakTLS(nil) }
        func log(host: String, authority: SelfSignedCertificate) throws -> PostgresLog {
            let file = "\(world.pair.folder)/authority-\(UInt64.random(in: 0 ... .max))"
            try PostgresPrograms.append(authority.certificate, to: file)
            let address = try PostgresAddress(
                """
                postgresql://martlet@\(host):\(world.pair.primary.port)/\(world.database)\
                ?passfile=\(world.pair.passwordFile)&sslmode=verify-full&sslrootcert=\(file)
                """)
            return PostgresLog(
                address: address, node: LogBench.report(.a), purpose: .rows, schema: world.schema)
        }

        let right = try log(host: "127.0.0.1", authority: made)
        #expect(try right.identity(within: .ample) == world.identity)
        #expect(
            try world.pair.primary.run(
                """
                select ssl and version >= 'TLSv1.2'
                  from pg_stat_ssl join pg_stat_activity using (pid)
                 where datname = '\(world.database)' and usename = 'martlet'
                 order by backend_start desc limit 1
                """
            ).flag(0, 0))

        let other = try SelfSignedCertificate(names: ["IP:127.0.0.1"])
        for (wrong, reason) in [
            (try log(host: "127.0.0.1", authority: other), "certificate verify failed"),
            (try log(host: "localhost", authority: made), "does not match host name"),
        ] {
            do throws(LogError) {
                _ = try wrong.identity(within: .ample)
                Issue.record("a server was taken: \(reason)")
            } catch {
                guard case .unavailable(let text) = error else {
                    Issue.record("\(error)")
                    continue
                }
                #expect(text.contains(reason))
            }
        }
    }

    @Test(
        "OPS-7: addresses that are none",
        arguments: [
            "http://a/x", "hostt=a", "host=a,b port=1,2,3", "host=a,b hostaddr=1.2.3.4",
        ])
    func addresses(text: String) {
        #expect(throws: LogError.self) { try PostgresAddress(text) }
    }

    @Test("OPS-7: hosts that are away, are no server or are standbys are passed over")
    func wrongHosts() throws {
        let pair = try pair()
        let world = try World(
            pair,
            hosts: [try FreePort.claim(), pair.standby.port, pair.primary.port])
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        #expect(try bench.b.tail(within: .ample) == first)
        let lost = try world.log(.a, hosts: [try FreePort.claim(), pair.standby.port])
        #expect(throws: LogError.self) { try lost.tail(within: .ample) }
    }

    // MARK: Servers that end. The tests of this part come last, because they change the pair.

    @Test(
        "OPS-7: a primary that restarts alone shows a row, and is not believed before its standby is back"
    )
    func restartAlone() throws {
        let world = try World(try pair())
        let bench = try world.bench()
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        try world.pair.detachStandby()
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        #expect(bench.a.append(row, after: first, within: Self.short) == .inDoubt(.late))
        #expect(try world.shownRowCount() == 2)
        world.pair.standby.crash()
        world.pair.crashPrimary()
        try world.pair.primary.start()
        #expect(try world.shownRowCount() == 3)
        #expect(throws: LogError.self) {
            try bench.b.rows(after: first, bytesMax: 100, within: Self.short)
        }
        #expect(throws: LogError.self) {
            try bench.a.fate(of: row.position, within: Self.short)
        }
        try world.pair.standby.start()
        try world.pair.waitForStandby()
        #expect(try bench.a.fate(of: row.position, within: .ample) == .accepted)
        #expect(try bench.b.rows(after: first, bytesMax: 100, within: .ample) == [row])
    }
}

@Suite(
    "A promoted standby", .serialized, WithPostgres(),
    .enabled(
        if: PostgresPrograms.areThere, "PostgreSQL 15 is not installed, or no user may run it"),
    .timeLimit(.minutes(2)))
struct PostgresPromotionTests {
    @Test(
        "OPS-7: a promoted standby has every accepted row; a row in doubt is absent, and is accepted again"
    )
    func promotion() throws {
        let pair = try #require(WithPostgres.shared).pair
        let hosts = [pair.primary.port, pair.standby.port]
        let database = try pair.makeDatabase()
        let identity = LogIdentity(incarnation: Array(repeating: 5, count: 16), redoFormat: 1)
        try PostgresSchema().create(
            identity,
            on: try PostgresLog.connect(
                to: try pair.address(database), as: "martlet init", within: .ample),
            until: PostgresDeadline(after: .ample))
        let logs = try [NodeName.a, .b].map { name in
            PostgresLog(
                address: try pair.address(database, hosts: hosts), node: LogBench.report(name),
                purpose: .rows)
        }
        let bench = LogBench(identity: identity, trimmedRows: 1, a: logs[0], b: logs[1])
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append((0..<50).map { [$0] }, to: bench.a, after: first)
        try pair.detachStandby()
        let row = ReplicatedRow(after: last, epoch: 1, body: [99])
        #expect(
            bench.a.append(row, after: last, within: .milliseconds(300)) == .inDoubt(.late))
        pair.crashPrimary()
        #expect(
            bench.a.append(row, after: last, within: .milliseconds(300)) != .accepted)
        try pair.standby.promote()
        #expect(try bench.a.fate(of: row.position, within: .ample) == .absent)
        let rows = try bench.b.rows(
            after: bench.beginning, bytesMax: 1 << 20, within: .ample)
        #expect(rows.last?.position == last && rows.count == 51)
        #expect(bench.a.append(row, after: last, within: .ample) == .accepted)
        #expect(try bench.b.tail(within: .ample) == row.position)
        // The former primary comes back alone. It is a server of another history, and does not commit.
        try pair.primary.start()
        let late = PostgresLog(
            address: try pair.address(database, hosts: hosts), node: LogBench.report(.c),
            purpose: .rows)
        #expect(try late.tail(within: .ample) == row.position)
    }
}
