// SPDX-License-Identifier: Apache-2.0
//
// The log in memory: it does what every log must do, and it fails as PostgreSQL fails.

import MartletCluster
import MartletRows
import MartletSimulator
import Testing

@Suite("A log in memory")
struct SimulatedLogTests {
    private static let incarnation = [UInt8](1...16)

    private static func database(
        canary: DatabaseCanary? = nil
    ) -> SimulatedDatabase {
        SimulatedDatabase(
            agenda: Agenda(clock: SimulatedClock()), seed: 1, incarnation: incarnation,
            canary: canary)
    }

    private static func bench(_ database: SimulatedDatabase) -> LogBench {
        LogBench(
            identity: LogIdentity(incarnation: incarnation, redoFormat: 1), trimmedRows: 8,
            a: SimulatedLog(database, node: .a), b: SimulatedLog(database, node: .b))
    }

    @Test("The contract of a log", arguments: LogContract.allCases)
    func contract(part: LogContract) throws {
        try part.check(Self.bench(Self.database()))
    }

    /// A row that only the primary has, and shows.
    private static func shownRow(
        _ bench: LogBench, _ database: SimulatedDatabase
    ) throws -> (row: ReplicatedRow, predecessor: LogPosition) {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        database.detachStandby()
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        #expect(bench.a.append(row, after: first, within: .milliseconds(200)) == .inDoubt(.late))
        #expect(!database.shows(2))
        database.stop()
        database.start()
        #expect(database.shows(2))
        return (row, first)
    }

    @Test("OPS-7: a restarted primary shows a row without its standby, and nobody believes it")
    func restartAlone() throws {
        let database = Self.database()
        let bench = Self.bench(database)
        let (row, first) = try Self.shownRow(bench, database)
        #expect(throws: LogError.self) {
            try bench.b.rows(after: first, bytesMax: 100, within: .milliseconds(200))
        }
        #expect(throws: LogError.self) {
            try bench.a.fate(of: row.position, within: .milliseconds(200))
        }
        database.attachStandby()
        #expect(try bench.b.rows(after: first, bytesMax: 100, within: .ample) == [row])
        #expect(try bench.a.fate(of: row.position, within: .ample) == .accepted)
    }

    @Test("OPS-7: without confirmations the row of a restarted primary is believed, and lost")
    func restartAloneWithoutConfirmation() throws {
        let database = Self.database(canary: .confirmation)
        let bench = Self.bench(database)
        let (row, first) = try Self.shownRow(bench, database)
        #expect(try bench.b.rows(after: first, bytesMax: 100, within: .milliseconds(200)) == [row])
        database.promote()
        #expect(try bench.a.tail(within: .ample) == first)
    }

    @Test("OPS-7: a row of a lost primary is absent, and is accepted when it is appended again")
    func promotion() throws {
        let database = Self.database()
        let bench = Self.bench(database)
        let (row, first) = try Self.shownRow(bench, database)
        database.promote()
        #expect(try bench.a.fate(of: row.position, within: .ample) == .absent)
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        #expect(try bench.b.tail(within: .ample) == row.position)
    }

    @Test(
        "OPS-7: a broken wait is a doubt, and the row is accepted when the standby has it",
        arguments: [false, true])
    func brokenWait(isKilled: Bool) throws {
        let database = Self.database()
        let bench = Self.bench(database)
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        database.detachStandby()
        database.agenda.after(50_000) { database.breakWait(isKilled: isKilled) }
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        let outcome = bench.a.append(row, after: first, within: .ample)
        guard case .inDoubt = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(database.shows(2))
        #expect(throws: LogError.self) {
            try bench.a.fate(of: row.position, within: .milliseconds(200))
        }
        database.attachStandby()
        #expect(try bench.a.fate(of: row.position, within: .ample) == .accepted)
    }

    @Test("OPS-7: a node that is cut off sends nothing, and its row in doubt stays in doubt")
    func cutOff() throws {
        let database = Self.database()
        let bench = Self.bench(database)
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        database.cut(off: .a)
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        for _ in 0..<2 {
            guard case .inDoubt = bench.a.append(row, after: first, within: .milliseconds(200))
            else {
                Issue.record("a row that may arrive late is in doubt")
                return
            }
        }
        // The late row meets the row of another node.
        let taken = try bench.takeOver(bench.b, .b, after: first, isEarly: true)
        database.heal(.a)
        _ = database.agenda.doNext(until: database.agenda.now + 10_000_000)
        #expect(
            bench.a.append(row, after: first, within: .ample) == .refused(.taken(epoch: 2)))
        #expect(try bench.b.tail(within: .ample) == taken)
    }

    @Test("OPS-7: a frozen node's call returns when the node goes on")
    func freeze() throws {
        let database = Self.database()
        let bench = Self.bench(database)
        database.freeze(.a, until: 5_000_000)
        _ = try bench.takeOver(bench.a, .a, after: bench.beginning)
        #expect(database.agenda.now >= 5_000_000)
        #expect(!database.isFrozen(.a))
    }
}
