// SPDX-License-Identifier: Apache-2.0
//
// Two stores, of which the second knows the first only by the rows of a log: it begins empty, applies each row, and
// must then have equal contents. Rests on MartletStore and MartletPostgres.

import EngineBench
import MartletBase
package import MartletEngine
import MartletPostgres
package import MartletRows
package import MartletStore

extension Store: RowStore {}

/// A store whose transactions are redone in another store, each at once. For one thread.
package final class RedoneStore: RowStore {
    private let folders: (String, String)
    private let checkpointCommitsMax: Int
    package private(set) var first: Store
    package private(set) var second: Store
    private var time: Int64 = 0
    /// The bodies of all rows so far.
    package private(set) var bodies: [[UInt8]] = []

    /// - Parameter folder: has room for the folders of two stores.
    package init(folder: String, checkpointCommitsMax: Int = 1000) throws {
        folders = (folder + "/first", folder + "/second")
        self.checkpointCommitsMax = checkpointCommitsMax
        first = try Self.open(folders.0, checkpointCommitsMax)
        second = try Self.open(folders.1, checkpointCommitsMax)
        let beginning = LogPosition(beginningOf: Array(1...16))
        try first.begin(at: beginning)
        try second.begin(at: beginning)
    }

    private static func open(_ folder: String, _ checkpointCommitsMax: Int) throws -> Store {
        var configuration = StoreConfiguration(folder: folder, mapBytes: 1 << 20)
        configuration.checkpointCommitsMax = checkpointCommitsMax
        return try Store(configuration)
    }

    /// Both stores are closed and opened again.
    package func reopen() throws {
        first.close()
        second.close()
        first = try Self.open(folders.0, checkpointCommitsMax)
        second = try Self.open(folders.1, checkpointCommitsMax)
    }

    /// Reads the store that was written by rows alone.
    package func read<Result>(
        _ body: (borrowing Transaction) throws -> Result
    ) throws -> Result {
        try second.read(body)
    }

    package func write<Result>(
        _ body: (borrowing Transaction) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        var row: (body: [UInt8], position: LogPosition)?
        let result: Result
        do {
            let last = try first.logPosition()!
            result = try first.write(body) { (operations, _) throws(StorageError) in
                guard !operations.isEmpty else { return nil }
                self.time += 1
                let redo = Redo(
                    time: Instant(millisecondsSince1970: self.time), operations: operations,
                    events: Array(repeating: 1, count: Int(self.time % 3)),
                    outcomes: Array(repeating: 2, count: Int(self.time % 2)))
                let body = redo.body(packing: LZ4Packing())
                row = (body, last.following(body, epoch: 1))
                return row?.position
            }
            if let row {
                bodies.append(row.body)
                let redo = try Redo(body: row.body, packing: LZ4Packing())
                guard redo.time.millisecondsSince1970 == time, redo.events.count == time % 3,
                    redo.outcomes.count == time % 2
                else { throw Self.failure("a row's parts are not those that were written") }
                try second.apply([
                    PlacedRedo(operations: redo.operations, position: row.position)
                ])
            }
            if let difference = try difference() { throw Self.failure(difference) }
        } catch let error as LoggedWriteError<StorageError> {
            switch error {
            case .store(let error), .refused(let error), .behind(let error): throw error
            }
        } catch let error as StorageError {
            throw error
        } catch {
            throw Self.failure("\(error)")
        }
        return result
    }

    private static func failure(_ text: String) -> StorageError {
        StorageError(operation: "redo", code: 0, text: text, isFull: false)
    }

    /// No key is below, because LMDB has no empty keys.
    private static let lowest = Key(bytes: [0])

    /// The first row that the two stores have not in common.
    package func difference() throws -> String? {
        try first.read { (one) throws in
            try second.read { (other) throws in
                for table in Table.allCases {
                    let cursor = try Cursor(one.raw, table)
                    let otherCursor = try Cursor(other.raw, table)
                    var (row, otherRow) = (
                        try cursor.seek(Self.lowest), try otherCursor.seek(Self.lowest)
                    )
                    while row != nil || otherRow != nil {
                        guard let left = row, let right = otherRow,
                            left.key.bytes.elementsEqual(right.key.bytes),
                            left.value.elementsEqual(right.value)
                        else {
                            return """
                                row \(bodies.count): \(table) has \(Self.text(row)), and \
                                \(Self.text(otherRow)) after redo
                                """
                        }
                        (row, otherRow) = (try cursor.next(), try otherCursor.next())
                    }
                }
                return nil
            }
        }
    }

    private static func text(_ row: RowEntry?) -> String {
        row.map { "\(Array($0.key)): \(Array($0.value))" } ?? "nothing"
    }
}
