// SPDX-License-Identifier: Apache-2.0
//
// Rows in memory, in the order of their keys: what the engine's rules are tested on without a disk, and what
// LMDB's rows are compared with. A table is an array of rows, searched by halves. Rests on MartletRows.

import Glibc
package import MartletRows

/// All tables of a store that is gone with the process. For one thread.
package final class MemoryRows {
    fileprivate var tables = [[MemoryRow]](repeating: [], count: Table.allCases.count)
    fileprivate var number: UInt64 = 0

    package init() {}

    /// A snapshot. Its rows stay as they are, whatever is written meanwhile.
    package func snapshot() -> MemoryTransaction { MemoryTransaction(self, tables, number) }

    /// The transaction that writes. `commit` or `abandon` ends the transaction; no snapshot begins before that,
    /// because the transaction has the tables, so that they need not be copied.
    package func begin() -> MemoryTransaction {
        let transaction = MemoryTransaction(self, tables, number + 1)
        tables = []
        return transaction
    }

    /// Every row of a table, in the order of the keys.
    package func rows(_ table: Table) -> [(key: [UInt8], value: [UInt8])] {
        tables[table.rawValue].map { (Array($0.key.bytes), Array($0.value.bytes)) }
    }
}

/// The bytes of a key or of a value: they never move and never change.
private final class MemoryValue {
    let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) {
        // As LMDB's values, these are aligned to two bytes and to no more.
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count + 2, alignment: 8)
        let value = UnsafeMutableRawBufferPointer(rebasing: copy[2...])
        value.copyMemory(from: bytes)
        self.bytes = UnsafeRawBufferPointer(value)
    }

    deinit { UnsafeMutableRawPointer(mutating: bytes.baseAddress! - 2).deallocate() }
}

private struct MemoryRow {
    let key: MemoryValue
    var value: MemoryValue
}

package final class MemoryTransaction: RowTransaction {
    private let store: MemoryRows
    private var tables: [[MemoryRow]]
    package let number: UInt64
    /// Values that were replaced or deleted, with their places; nil: the row is new. A caller may have borrowed the
    /// bytes of such a value.
    private var former: [(table: Table, key: MemoryValue, value: MemoryValue?)] = []

    fileprivate init(_ store: MemoryRows, _ tables: [[MemoryRow]], _ number: UInt64) {
        self.store = store
        self.tables = tables
        self.number = number
    }

    package func commit() {
        store.tables = tables
        tables = []
        store.number = number
    }

    /// Nothing of the transaction remains.
    package func abandon() {
        for (table, key, value) in former.reversed() {
            let index = index(table, from: key.bytes)
            let isThere = isAt(table, index, key.bytes)
            switch (isThere, value) {
            case (true, let value?): tables[table.rawValue][index].value = value
            case (true, nil): tables[table.rawValue].remove(at: index)
            case (false, let value?):
                tables[table.rawValue].insert(MemoryRow(key: key, value: value), at: index)
            case (false, nil): break
            }
        }
        store.tables = tables
        tables = []
    }

    /// Index of the first row whose key is not below a key.
    private func index(_ table: Table, from key: UnsafeRawBufferPointer) -> Int {
        var (low, high) = (0, tables[table.rawValue].count)
        while low < high {
            let middle = (low + high) / 2
            if Self.order(tables[table.rawValue][middle].key.bytes, key) < 0 {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }

    private func isAt(_ table: Table, _ index: Int, _ key: UnsafeRawBufferPointer) -> Bool {
        index < tables[table.rawValue].count
            && Self.order(tables[table.rawValue][index].key.bytes, key) == 0
    }

    /// Below 0: `left` stands before `right`.
    private static func order(
        _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer
    ) -> Int {
        let common = min(left.count, right.count)
        if common > 0, case let found = memcmp(left.baseAddress!, right.baseAddress!, common),
            found != 0
        {
            return Int(found)
        }
        return left.count - right.count
    }

    package func get(_ table: Table, _ key: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let index = index(table, from: key)
        return isAt(table, index, key) ? tables[table.rawValue][index].value.bytes : nil
    }

    package func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        let index = index(table, from: key)
        let row = MemoryRow(key: MemoryValue(key), value: MemoryValue(value))
        if isAt(table, index, key) {
            former.append((table, row.key, tables[table.rawValue][index].value))
            tables[table.rawValue][index].value = row.value
        } else {
            former.append((table, row.key, nil))
            tables[table.rawValue].insert(row, at: index)
        }
    }

    package func append(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) -> Bool {
        guard index(table, from: key) == tables[table.rawValue].count else { return false }
        put(table, key, value)
        return true
    }

    package func delete(_ table: Table, _ key: UnsafeRawBufferPointer) -> Bool {
        let index = index(table, from: key)
        guard isAt(table, index, key) else { return false }
        let row = tables[table.rawValue].remove(at: index)
        former.append((table, row.key, row.value))
        return true
    }

    package func rowCount(_ table: Table) -> Int { tables[table.rawValue].count }

    // MARK: Cursors

    /// Where a cursor stands: at a key, whether the row is still there or not.
    private final class Place {
        let table: Table
        /// The key that was handed out: it stays where it is until the cursor moves.
        var key: MemoryValue?
        /// The key's index when it was handed out. Mostly the index is the key's still.
        var index = 0

        init(_ table: Table) { self.table = table }
    }

    package func openCursor(_ table: Table) -> CursorHandle {
        CursorHandle(Unmanaged.passRetained(Place(table)).toOpaque())
    }

    package func close(_ cursor: CursorHandle) {
        Unmanaged<Place>.fromOpaque(cursor.pointer).release()
    }

    package func move(
        _ cursor: CursorHandle, _ movement: CursorMovement, _ key: UnsafeRawBufferPointer?
    ) -> RowEntry? {
        let place = Unmanaged<Place>.fromOpaque(cursor.pointer).takeUnretainedValue()
        let count = tables[place.table.rawValue].count
        let found: Int
        switch movement {
        case .to:
            found = index(place.table, from: key!)
            guard isAt(place.table, found, key!) else { return nil }
        case .from: found = index(place.table, from: key!)
        case .last: found = count - 1
        case .next:
            guard let last = place.key else {
                found = 0
                break
            }
            if place.index < count, tables[place.table.rawValue][place.index].key === last {
                found = place.index + 1
            } else {
                let at = index(place.table, from: last.bytes)
                found = isAt(place.table, at, last.bytes) ? at + 1 : at
            }
        case .previous:
            guard let last = place.key else {
                found = count - 1
                break
            }
            found = index(place.table, from: last.bytes) - 1
        }
        guard (0..<count).contains(found) else { return nil }
        let row = tables[place.table.rawValue][found]
        place.key = row.key
        place.index = found
        return (RowKey(row.key.bytes), row.value.bytes)
    }
}
