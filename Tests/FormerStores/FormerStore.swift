// SPDX-License-Identifier: Apache-2.0
//
// Stores of older formats, row by row (Tests/Vectors/Stores), and the answers of their programs: the stored messages of
// each instance, the reports, and the counts of days. The last programs of the formats 6, 8 and 10 wrote these stores and
// answers. The stores of the formats 7 and 9 are made of their neighbours' rows, because all programs were given the same
// commands: format 7 has the rows of format 6 with counts in other places, and format 9 has the rows of format 10 with
// the recipients of format 8. Format 12 has the rows of format 11 with the limits of projects in other places. Rests on CLMDB and MartletStore.
//
//   now MILLISECONDS                                the clock of the answers
//   mailbox PROJECT ORDINAL DISCARDED S:BODY,…      stored messages of an instance
//   report PROJECT NUMBER COUNT,…                   the counts of a message, in the order of the events
//   day PROJECT DAY APP COUNT,…                     the counts of a day and an app
//   table NAME                                      a table; its rows follow: key and value in hexadecimal digits

internal import CLMDB
import Foundation
package import MartletBase
import MartletEngine
import MartletRows
package import MartletStore

package struct FormerStore: Sendable {
    package let format: UInt32
    package private(set) var tables: [String: [(key: [UInt8], value: [UInt8])]] = [:]
    package private(set) var now = Instant(millisecondsSince1970: 0)
    private var answers: Set<String> = []

    package init(format: UInt32) throws {
        self.format = format
        let vectors = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Vectors")
        let file = vectors.appending(path: "Stores/format-\(format).rows")
        var table = ""
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            switch words[0] {
            case "#": break
            case "now": now = Instant(millisecondsSince1970: Int64(words[1])!)
            case "mailbox", "report", "day": answers.insert(String(line))
            case "table":
                table = String(words[1])
                tables[table] = []
            default: tables[table]!.append((Self.bytes(words[0]), Self.bytes(words[1])))
            }
        }
    }

    private static func bytes(_ digits: Substring) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = digits.utf8[...]
        while let high = rest.popFirst(), let low = rest.popFirst() {
            bytes.append(
                UInt8(String(decoding: [high, low], as: UTF8.self), radix: 16)!)
        }
        return bytes
    }

    // MARK: Writing

    package struct Failure: Error { package let code: Int32 }

    /// Makes a data folder.
    /// - Parameters:
    ///   - format: the format that the folder says to have; nil: its own.
    ///   - padding: bytes of rows in a table of no program, for a longer migration.
    package func write(to folder: String, format: UInt32? = nil, padding: Int = 0) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        func check(_ code: Int32) throws { if code != 0 { throw Failure(code: code) } }
        var environment: OpaquePointer?
        try check(mdb_env_create(&environment))
        defer { mdb_env_close(environment) }
        try check(mdb_env_set_maxdbs(environment, 64))
        try check(mdb_env_set_mapsize(environment, 1 << 30))
        try check(mdb_env_open(environment, folder, UInt32(MDB_NOSYNC), 0o600))
        var transaction: OpaquePointer?
        try check(mdb_txn_begin(environment, nil, 0, &transaction))
        func put(_ handle: MDB_dbi, _ key: [UInt8], _ value: [UInt8]) -> Int32 {
            key.withUnsafeBytes { key in
                value.withUnsafeBytes { value in
                    var rawKey = MDB_val(
                        mv_size: key.count,
                        mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
                    var rawValue = MDB_val(
                        mv_size: value.count,
                        mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
                    return mdb_put(transaction, handle, &rawKey, &rawValue, 0)
                }
            }
        }
        for (name, rows) in tables.sorted(by: { $0.key < $1.key }) {
            var handle: MDB_dbi = 0
            try check(mdb_dbi_open(transaction, name, UInt32(MDB_CREATE), &handle))
            for row in rows { try check(put(handle, row.key, row.value)) }
            if name == "meta", let format {
                let version = withUnsafeBytes(of: format.littleEndian) { Array($0) }
                try check(put(handle, Array("format".utf8), version))
            }
        }
        if padding > 0 {
            var handle: MDB_dbi = 0
            try check(mdb_dbi_open(transaction, "padding", UInt32(MDB_CREATE), &handle))
            try check(put(handle, [1], [UInt8](repeating: 7, count: padding)))
        }
        try check(mdb_txn_commit(transaction))
    }

    // MARK: Comparing

    /// Compares what the present program answers with what the older program answered.
    /// - Returns: the answers that one of them alone gives.
    package func differences(in store: Store) throws -> [String] {
        var limits = MailboxLimits()
        limits.deviceMessagesPerMinute = 0
        limits.deviceMessagesPerHour = 0
        var found: Set<String> = []
        let report = try store.check()
        for problem in report.problems { found.insert("problem \(problem)") }
        for answer in answers {
            let words = answer.split(separator: " ", omittingEmptySubsequences: false)
            let project = ProjectNumber(UInt32(words[1])!)
            switch words[0] {
            case "mailbox":
                let text = try mailbox(of: Ordinal(UInt32(words[2])!), in: project, limits, store)
                found.insert("mailbox \(words[1]) \(words[2]) \(text)")
            case "report":
                let counts = try store.read { (transaction) throws in
                    try Reports.message(
                        UInt64(words[2])!, in: project, limits: limits, now: now, transaction)
                }?.counts
                found.insert("report \(words[1]) \(words[2]) \(counts.map(Self.text) ?? "none")")
            default: break
            }
        }
        for project in Set(answers.map { $0.split(separator: " ")[1] }) {
            let days = try store.read { (transaction) throws in
                try transaction.reporting.reportDays(
                    0...40_000, in: ProjectNumber(UInt32(project)!))
            }
            for day in days {
                found.insert(
                    "day \(project) \(day.day) \(day.app.number.rawValue) \(Self.text(day.counts))")
            }
        }
        return found.symmetricDifference(answers).sorted()
    }

    private static func text(_ counts: ReportCounts) -> String {
        // Programs up to format 12 knew the events up to `nowOrNever`.
        ReportEvent.allCases.filter { $0.rawValue <= ReportEvent.nowOrNever.rawValue }
            .map { String(counts[$0]) }.joined(separator: ",")
    }

    private func mailbox(
        of ordinal: Ordinal, in project: ProjectNumber, _ limits: MailboxLimits, _ store: Store
    ) throws -> String {
        try store.read { (transaction) throws in
            guard let instance = try transaction.instances.instance(ordinal, in: project),
                let app = try transaction.projects.app(instance.app, in: project)
            else { return "none" }
            let state = try transaction.mailboxes.state(of: ordinal, in: project)
            var replay = MailboxReplay(limits: limits, state: state)
            let owner = MailboxOwner(
                project: project, ordinal: ordinal, platform: instance.platform,
                appKey: CollapseDigest(of: app.name))
            _ = try transaction.log.forEachLogged(
                for: owner, after: state.logStart, rowsMax: .max
            ) { replay.add($0) }
            var waiting: [String] = []
            for entry in replay.left(at: now) {
                _ = try transaction.messages.withMessage(
                    entry.sequence, on: instance.platform, in: project
                ) { message in
                    let body = message.body.map { byte in
                        (byte < 16 ? "0" : "") + String(byte, radix: 16)
                    }.joined()
                    waiting.append("\(entry.sequence.rawValue):\(body)")
                }
            }
            return "\(replay.discardedCount) \(waiting.joined(separator: ","))"
        }
    }
}
