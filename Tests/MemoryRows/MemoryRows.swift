// SPDX-License-Identifier: Apache-2.0
//
// Rows in memory, in the order of their keys: what the engine's rules are tested on without a disk, and what
// LMDB's rows are compared with. Simple rather than fast. Rests on MartletRows.

package import MartletRows

/// All tables of a store that is gone with the process. For one thread.
package final class MemoryRows {
    fileprivate var tables = [[MemoryRow]](repeating: [], count: Table.allCases.count)
    fileprivate var number: UInt64 = 0

    package init() {}

    /// A snapshot. Its rows stay as they are, whatever is written meanwhile.
    package func snapshot() -> MemoryTransaction { MemoryTransaction(self, tables, number) }

    /// The transaction that writes: nothing of it remains unless it is committed.
    package func begin() -> MemoryTransaction { MemoryTransaction(self, tables, number + 1) }

    /// Every row of a table, in the order of the keys.
    package func rows(_ table: Table) -> [(key: [UInt8], value: [UInt8])] {
        tables[table.rawValue].map { ($0.key, Array($0.value.bytes)) }
    }
}

/// The bytes of a value never move and never change.
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
    let key: [UInt8]
    var value: MemoryValue
}

package final class MemoryTransaction: RowTransaction {
    private let store: MemoryRows
    private var tables: [[MemoryRow]]
    package let number: UInt64
    /// What was replaced or deleted: somebody may have borrowed its bytes.
    private var former: [MemoryValue] = []

    fileprivate init(_ store: MemoryRows, _ tables: [[MemoryRow]], _ number: UInt64) {
        self.store = store
        self.tables = tables
        self.number = number
    }

    package func commit() {
        store.tables = tables
        store.number = number
    }

    /// Index of the first row whose key is not below a key.
    private func index(_ table: Table, from key: UnsafeRawBufferPointer) -> Int {
        var (low, high) = (0, tables[table.rawValue].count)
        while low < high {
            let middle = (low + high) / 2
            if tables[table.rawValue][middle].key.lexicographicallyPrecedes(key) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }

    private func isAt(_ table: Table, _ index: Int, _ key: UnsafeRawBufferPointer) -> Bool {
        index < tables[table.rawValue].count && tables[table.rawValue][index].key.elementsEqual(key)
    }

    package func get(_ table: Table, _ key: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let index = index(table, from: key)
        return isAt(table, index, key) ? tables[table.rawValue][index].value.bytes : nil
    }

    package func put(
        _ table: Table, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer
    ) {
        let index = index(table, from: key)
        let row = MemoryRow(key: Array(key), value: MemoryValue(value))
        if isAt(table, index, key) {
            former.append(tables[table.rawValue][index].value)
            tables[table.rawValue][index] = row
        } else {
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
        former.append(tables[table.rawValue].remove(at: index).value)
        return true
    }

    package func rowCount(_ table: Table) -> Int { tables[table.rawValue].count }

    // MARK: Cursors

    /// Where a cursor stands: at a key, whether the row is still there or not.
    private final class Place {
        let table: Table
        var key: [UInt8]?
        /// The key that was handed out: it stays where it is until the cursor moves.
        var shown: MemoryValue?

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
            let at = last.withUnsafeBytes { index(place.table, from: $0) }
            let isThere = last.withUnsafeBytes { isAt(place.table, at, $0) }
            found = isThere ? at + 1 : at
        case .previous:
            guard let last = place.key else {
                found = count - 1
                break
            }
            found = last.withUnsafeBytes { index(place.table, from: $0) } - 1
        }
        guard (0..<count).contains(found) else { return nil }
        let row = tables[place.table.rawValue][found]
        let shown = row.key.withUnsafeBytes { MemoryValue($0) }
        place.key = row.key
        place.shown = shown
        return (RowKey(shown.bytes), row.value.bytes)
    }
}
