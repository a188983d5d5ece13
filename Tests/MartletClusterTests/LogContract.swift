// SPDX-License-Identifier: Apache-2.0
//
// What every log must do, whatever keeps it. The suites of the two logs run all of these. Rests on LogBench.

import MartletBase
import MartletCluster
import MartletRows
import Testing

enum LogContract: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case rowsComeBackInTurn =
        "OPS-7: rows come back as they were written, in turn, with their chains"
    case readingsAreBounded =
        "OPS-7: a reading ends at its count of bytes, and has one row at least"
    case predecessor = "OPS-7: a row whose predecessor is not in the log is refused"
    case number = "OPS-7: a row whose number is taken is refused, and the writer learns the epoch"
    case epoch = "OPS-7: after a takeover the rows of the former epoch are refused"
    case again = "OPS-7: a row that is appended twice is in the log once"
    case fate = "OPS-7: the fate of a row is accepted, refused or absent"
    case lease = "OPS-7: a lease is taken, held, renewed, released and taken again"
    case behind = "OPS-7: a claimant that has not read to the end takes nothing"
    case takeoverAgain = "OPS-7: a takeover that is repeated is one takeover"
    case nodes = "OPS-7: nodes report themselves and are forgotten"
    case trim = "OPS-7: dropped rows read as dropped, and the rest stays"
    case foreign = "OPS-7: a place of another log is foreign, one of another history diverges"

    var testDescription: String { rawValue }

    func check(_ bench: LogBench) throws {
        switch self {
        case .rowsComeBackInTurn: try Self.checkRows(bench)
        case .readingsAreBounded: try Self.checkBounds(bench)
        case .predecessor: try Self.checkPredecessor(bench)
        case .number: try Self.checkNumber(bench)
        case .epoch: try Self.checkEpoch(bench)
        case .again: try Self.checkAgain(bench)
        case .fate: try Self.checkFate(bench)
        case .lease: try Self.checkLease(bench)
        case .behind: try Self.checkBehind(bench)
        case .takeoverAgain: try Self.checkTakeoverAgain(bench)
        case .nodes: try Self.checkNodes(bench)
        case .trim: try Self.checkTrim(bench)
        case .foreign: try Self.checkForeign(bench)
        }
    }

    // MARK: Rows

    private static let bodies: [[UInt8]] = [
        [], [0], Array(0...255), Array(repeating: 7, count: 70_000), Array("déjà vu".utf8),
    ]

    private static func checkRows(_ bench: LogBench) throws {
        #expect(try bench.a.identity(within: .ample) == bench.identity)
        #expect(try bench.a.tail(within: .ample) == bench.beginning)
        #expect(try bench.a.rows(after: bench.beginning, bytesMax: 100, within: .ample).isEmpty)
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append(bodies, to: bench.a, after: first)
        #expect(last.row == 6 && last.epoch == 1)
        #expect(try bench.b.tail(within: .ample) == last)
        let rows = try bench.b.rows(
            after: bench.beginning, bytesMax: ClusterLimits.readBytesMax, within: .ample)
        try #require(rows.map(\.body) == [Array("a takes over".utf8)] + bodies)
        #expect(rows.firstDivergence(after: bench.beginning) == nil)
        #expect(rows.last?.position == last)
        #expect(
            try bench.b.rows(after: rows[3].position, bytesMax: 1 << 20, within: .ample)
                == Array(rows[4...]))
    }

    private static func checkBounds(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        _ = try bench.append(
            (0..<5).map { Array(repeating: $0, count: 1000) }, to: bench.a, after: first)
        func count(_ bytesMax: Int) throws -> Int {
            try bench.b.rows(after: first, bytesMax: bytesMax, within: .ample).count
        }
        for (bytesMax, expected) in [
            (0, 1), (999, 1), (1000, 1), (1999, 1), (2000, 2), (4999, 4), (5000, 5), (9999, 5),
        ] {
            #expect(try count(bytesMax) == expected, "\(bytesMax) bytes")
        }
    }

    // MARK: Fence

    private static func checkPredecessor(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append([[1]], to: bench.a, after: first)
        let unwritten = ReplicatedRow(after: last, epoch: 1, body: [2]).position
        let far = ReplicatedRow(after: unwritten, epoch: 1, body: [3])
        #expect(
            bench.a.append(far, after: unwritten, within: .ample) == .refused(.predecessor))
        var other = last
        other.chain[0] ^= 1
        let strange = ReplicatedRow(after: other, epoch: 1, body: [2])
        #expect(bench.a.append(strange, after: other, within: .ample) == .refused(.predecessor))
        #expect(try bench.b.tail(within: .ample) == last)
    }

    private static func checkNumber(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append([[1]], to: bench.a, after: first)
        let late = ReplicatedRow(after: first, epoch: 1, body: [2])
        #expect(
            bench.a.append(late, after: first, within: .ample) == .refused(.taken(epoch: 1)))
        #expect(try bench.b.tail(within: .ample) == last)
    }

    private static func checkEpoch(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append([[1]], to: bench.a, after: first)
        let taken = try bench.takeOver(bench.b, .b, after: last, isEarly: true)
        #expect(taken.epoch == 2)
        let next = ReplicatedRow(after: last, epoch: 1, body: [2])
        #expect(bench.a.append(next, after: last, within: .ample) == .refused(.taken(epoch: 2)))
        // The former node knows the last row now, and its epoch is still the former one.
        var predecessor = taken
        predecessor.epoch = 1
        let stale = ReplicatedRow(after: predecessor, epoch: 1, body: [3])
        #expect(
            bench.a.append(stale, after: predecessor, within: .ample) == .refused(.predecessor))
        #expect(try bench.a.tail(within: .ample) == taken)
        _ = try bench.append([[4]], to: bench.b, after: taken)
    }

    private static func checkAgain(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        let last = try bench.append([[2]], to: bench.a, after: row.position)
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        #expect(try bench.b.tail(within: .ample) == last)
        #expect(last.row == 3)
    }

    private static func checkFate(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let row = ReplicatedRow(after: first, epoch: 1, body: [1])
        let other = ReplicatedRow(after: first, epoch: 1, body: [2])
        #expect(try bench.a.fate(of: row.position, within: .ample) == .absent)
        #expect(bench.a.append(row, after: first, within: .ample) == .accepted)
        #expect(try bench.b.fate(of: row.position, within: .ample) == .accepted)
        #expect(try bench.a.fate(of: other.position, within: .ample) == .refused(epoch: 1))
    }

    // MARK: Lease

    private static func checkLease(_ bench: LogBench) throws {
        let none = try bench.a.lease(within: .ample)
        #expect(none.isOver && none.epoch == 0 && none.holder == nil)
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let held = try bench.b.lease(within: .ample)
        #expect(!held.isOver && held.epoch == 1 && held.holder == .a && held.address == "a:7300")
        #expect(held.remaining <= .seconds(60))
        let row = LogBench.takeover(by: .b, after: first)
        let outcome = bench.b.takeOver(
            row, after: first, as: LogBench.claim(.b), within: .ample)
        guard case .held(let holder) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(holder.epoch == 1 && holder.holder == .a)
        #expect(try bench.a.renewLease(epoch: 1, life: .seconds(600), within: .ample))
        #expect(try bench.b.lease(within: .ample).remaining > .seconds(60))
        #expect(try !bench.a.renewLease(epoch: 0, life: .seconds(600), within: .ample))
        #expect(try !bench.b.releaseLease(epoch: 2, within: .ample))
        #expect(try bench.a.releaseLease(epoch: 1, within: .ample))
        #expect(try bench.b.lease(within: .ample).isOver)
        // A lease that is over is the holder's until another node takes it.
        #expect(try bench.a.renewLease(epoch: 1, life: .seconds(600), within: .ample))
        #expect(try bench.a.releaseLease(epoch: 1, within: .ample))
        let taken = try bench.takeOver(bench.b, .b, after: first)
        #expect(taken.epoch == 2)
        #expect(try !bench.a.renewLease(epoch: 1, life: .seconds(600), within: .ample))
        #expect(try !bench.a.releaseLease(epoch: 1, within: .ample))
        #expect(try bench.a.lease(within: .ample).holder == .b)
    }

    private static func checkBehind(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let last = try bench.append([[1]], to: bench.a, after: first)
        #expect(try bench.a.releaseLease(epoch: 1, within: .ample))
        let early = LogBench.takeover(by: .b, after: first)
        for isEarly in [false, true] {
            #expect(
                bench.b.takeOver(
                    early, after: first, as: LogBench.claim(.b, isEarly: isEarly), within: .ample)
                    == .behind)
        }
        #expect(try bench.b.lease(within: .ample).epoch == 1)
        #expect(try bench.b.tail(within: .ample) == last)
        #expect(try bench.takeOver(bench.b, .b, after: last).row == 3)
    }

    private static func checkTakeoverAgain(_ bench: LogBench) throws {
        let row = LogBench.takeover(by: .a, after: bench.beginning)
        for _ in 0..<2 {
            #expect(
                bench.a.takeOver(
                    row, after: bench.beginning, as: LogBench.claim(.a), within: .ample) == .taken)
        }
        #expect(try bench.b.lease(within: .ample).epoch == 1)
        #expect(try bench.b.tail(within: .ample) == row.position)
        _ = try bench.takeOver(bench.b, .b, after: row.position, isEarly: true)
        #expect(
            bench.a.takeOver(
                row, after: bench.beginning, as: LogBench.claim(.a), within: .ample) == .behind)
    }

    // MARK: Nodes and room

    private static func checkNodes(_ bench: LogBench) throws {
        var report = LogBench.report(.b, applied: 5)
        report.formats = 1...3
        try bench.b.report(report, within: .ample)
        try bench.a.report(LogBench.report(.a, applied: 9), within: .ample)
        let nodes = try bench.a.nodes(within: .ample)
        #expect(nodes.map(\.report) == [LogBench.report(.a, applied: 9), report])
        #expect(nodes.allSatisfy { $0.age >= .zero && $0.age < .seconds(60) })
        report.applied = 1 << 40
        report.run = .max
        try bench.b.report(report, within: .ample)
        try bench.b.confirm(within: .ample)
        #expect(try bench.a.nodes(within: .ample).map(\.report).last == report)
        try bench.a.remove(.b, within: .ample)
        #expect(try bench.a.nodes(within: .ample).map(\.report.name) == [.a])
    }

    private static func checkTrim(_ bench: LogBench) throws {
        let piece = bench.trimmedRows
        let count = Int(5 * piece / 2)
        var places = [bench.beginning]
        places.append(try bench.takeOver(bench.a, .a, after: bench.beginning))
        while places.count < count {
            places.append(try bench.append([[1, 2, 3]], to: bench.a, after: places.last!))
        }
        #expect(try bench.a.trim(below: 2, within: .ample) <= 2)
        let first = try bench.a.trim(below: 2 * piece, within: .ample)
        #expect(first == 2 * piece)
        #expect(throws: LogError.trimmed(first: first)) {
            try bench.b.rows(after: places[3], bytesMax: 100, within: .ample)
        }
        #expect(throws: LogError.trimmed(first: first)) {
            try bench.b.fate(of: places[3], within: .ample)
        }
        let rest = try bench.b.rows(
            after: places[Int(first)], bytesMax: 1 << 20, within: .ample)
        #expect(rest.map(\.position) == Array(places[(Int(first) + 1)...]))
        #expect(try bench.b.tail(within: .ample) == places.last)
        // The last row stays, whatever is asked.
        #expect(try bench.a.trim(below: .max >> 1, within: .ample) < UInt64(count))
        _ = try bench.append([[4]], to: bench.a, after: places.last!)
    }

    private static func checkForeign(_ bench: LogBench) throws {
        let first = try bench.takeOver(bench.a, .a, after: bench.beginning)
        let strange = LogPosition(beginningOf: Array(repeating: 9, count: 16))
        let row = LogBench.takeover(by: .a, after: strange)
        #expect(throws: LogError.foreign) {
            try bench.a.rows(after: strange, bytesMax: 100, within: .ample)
        }
        #expect(
            bench.a.append(row, after: strange, within: .ample) == .refused(.failed(.foreign)))
        #expect(
            bench.a.takeOver(row, after: strange, as: LogBench.claim(.a), within: .ample)
                == .failed(.foreign))
        var other = first
        other.chain[3] ^= 8
        #expect(throws: LogError.diverged(row: 1)) {
            try bench.a.rows(after: other, bytesMax: 100, within: .ample)
        }
        let ahead = ReplicatedRow(after: first, epoch: 1, body: [1]).position
        #expect(throws: LogError.diverged(row: 2)) {
            try bench.a.rows(after: ahead, bytesMax: 100, within: .ample)
        }
    }
}
