// SPDX-License-Identifier: Apache-2.0
//
// The steps from each store format to the next (OPS-3). There is none yet, because the first release writes format 13, and
// nobody has data of an earlier format. Who changes the bytes of a stored row raises `storeFormatVersion`, adds a step to
// `MigrationStep.all`, and keeps the step for as long as stores of its format may exist. A step knows the bytes of both
// formats and uses no code that knows only the present format, because that code changes with later formats. No step has to
// survive a crash: the store under change is a copy. Rests on Environment.

package import MartletRows

/// A step from a store format to the next.
package struct MigrationStep: Sendable {
    /// Changes the copy. `advance` takes the finished part of the step, 0 to 1.
    package typealias Change =
        @Sendable (_ copy: MigratedCopy, _ advance: (Double) -> Void) throws -> Void

    /// The format before the step.
    let format: UInt32
    let change: Change

    package init(from format: UInt32, _ change: @escaping Change) {
        self.format = format
        self.change = change
    }

    /// The steps of this program, from the oldest format that it migrates up to its own, without a gap. A format that only
    /// adds tables has a step that changes nothing.
    package static let all: [MigrationStep] = []
}

/// The copy of a store while the steps change it.
package struct MigratedCopy {
    /// Rows that one transaction reads or changes.
    package static let rowsMax = 1024
    /// Bytes of rows after which a transaction takes no further row. Most rows are short, but a message to millions has
    /// recipients of more than a megabyte.
    private static let bytesMax = 1 << 20

    let environment: Environment

    /// Visits the rows of a table, in transactions of bounded size. `body` may change the row of the key, and rows of
    /// other tables.
    /// - Parameter advance: called with the visited part of the table, 0 to 1.
    package func forEachRow(
        of table: Table, _ advance: (Double) -> Void = { _ in },
        _ body: (_ key: [UInt8], _ value: [UInt8], Rows) throws(StorageError) -> Void
    ) throws {
        var next: [UInt8]? = [0]
        var (done, count) = (0, 0)
        while let start = next {
            next = try write { (rows) throws(StorageError) in
                count = rows.entryCount(table)
                var page: [(key: [UInt8], value: [UInt8])] = []
                let isWhole = try Self.read(&page, of: table, from: start, rows)
                for row in page { try body(row.key, row.value, rows) }
                done += page.count
                // A zero byte more is the next key.
                return isWhole ? nil : page[page.count - 1].key + [0]
            }
            advance(Double(done) / Double(max(done, count, 1)))
        }
    }

    /// - Returns: whether the page has the last row of the table.
    private static func read(
        _ page: inout [(key: [UInt8], value: [UInt8])], of table: Table, from start: [UInt8],
        _ rows: Rows
    ) throws(StorageError) -> Bool {
        let cursor = try Cursor(rows, table)
        var entry = try cursor.seek(Key(bytes: start))
        var byteCount = 0
        while let found = entry {
            guard page.count < rowsMax, byteCount < bytesMax else { return false }
            page.append((Array(found.key.bytes), Array(found.value)))
            byteCount += found.key.count + found.value.count
            entry = try cursor.next()
        }
        return true
    }

    func writeFormat() throws {
        try write { (rows) throws(StorageError) in
            var writer = RecordWriter()
            writer.append(storeFormatVersion)
            try rows.put(.meta, Key(bytes: Array("format".utf8)), writer.bytes)
        }
    }

    private func write<Result>(
        _ body: (Rows) throws(StorageError) -> Result
    ) throws -> Result {
        let open = try environment.beginWrite()
        let result: Result
        do throws(StorageError) { result = try body(Rows(open)) } catch {
            environment.abort(open)
            throw error
        }
        try environment.commit(open)
        return result
    }
}
