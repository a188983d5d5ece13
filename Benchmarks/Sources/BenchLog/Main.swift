// SPDX-License-Identifier: Apache-2.0
//
// Appends to the log of a cluster by themselves, one at a time, as lines of JSON.
//
//     bench-log ADDRESS     a connection URI of an empty database
//
// Rests on the log in PostgreSQL.

import Glibc
import MartletCluster
import MartletPostgres
import MartletRows

@main
enum Main {
    /// Bytes of a row, and rows of a measurement.
    static let sizes = [(1 << 10, 1000), (16 << 10, 500), (64 << 10, 300), (1 << 20, 60)]
    static let warmUpCount = 20
    static let limit = Duration.seconds(30)

    static func main() {
        guard CommandLine.arguments.count == 2 else { end("usage: bench-log ADDRESS") }
        do { try measure(CommandLine.arguments[1]) } catch { end("\(error)") }
    }

    static func end(_ reason: String) -> Never {
        let line = Array((reason + "\n").utf8)
        _ = write(STDERR_FILENO, line, line.count)
        exit(1)
    }

    static func measure(_ text: String) throws {
        let address = try PostgresAddress(text)
        let identity = LogIdentity(
            incarnation: (0..<LogPosition.incarnationBytes).map { _ in .random(in: 0...255) },
            redoFormat: 1)
        let schema = PostgresSchema()
        try schema.create(
            identity, on: try PostgresLog.connect(to: address, as: "bench-log", within: limit),
            until: PostgresDeadline(after: limit))
        let name = try NodeName(validating: "bench")
        let log = PostgresLog(
            address: address,
            node: NodeReport(name: name, run: 1, address: "bench:1", formats: 1...1, applied: 0),
            purpose: .rows, schema: schema)

        let beginning = LogPosition(beginningOf: identity.incarnation)
        let first = ReplicatedRow(after: beginning, epoch: 1, body: [1])
        let claim = LeaseClaim(node: name, address: "bench:1", life: .seconds(600))
        guard log.takeOver(first, after: beginning, as: claim, within: limit) == .taken else {
            end("The database has a log already.")
        }
        var last = first.position
        for (byteCount, rowCount) in sizes {
            var times: [Double] = []
            for number in -warmUpCount..<rowCount {
                let row = ReplicatedRow(after: last, epoch: 1, body: scattered(byteCount))
                let began = ContinuousClock.now
                let outcome = log.append(row, after: last, within: limit)
                let spent = ContinuousClock.now - began
                guard outcome == .accepted else { end("The log has refused a row: \(outcome)") }
                last = row.position
                if number >= 0 { times.append(spent / .milliseconds(1)) }
            }
            times.sort()
            print(
                """
                {"bytes": \(byteCount), "rows": \(rowCount), \
                "p50": \(times[times.count / 2]), "p99": \(times[times.count * 99 / 100])}
                """)
        }
    }

    /// Bytes that do not compress, as those of a row that is compressed already.
    static func scattered(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        bytes.withUnsafeMutableBytes { buffer in
            for place in stride(from: 0, through: count - 8, by: 8) {
                buffer.storeBytes(
                    of: UInt64.random(in: .min ... .max), toByteOffset: place, as: UInt64.self)
            }
        }
        return bytes
    }
}
