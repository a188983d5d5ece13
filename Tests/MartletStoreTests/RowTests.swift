// SPDX-License-Identifier: Apache-2.0
//
// The port between the rules and the rows: LMDB and the rows in memory, which the rules are tested on, answer
// alike to the same operations. Rests on MemoryRows.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

@Suite("Rows")
struct RowTests {
    private static let tables: [Table] = [.inbox, .messages, .due, .topicNames]

    /// A few keys, so that each comes again, of all lengths that LMDB takes.
    private static func key(_ random: inout SeededGenerator) -> Key {
        var key = Key()
        for _ in 0..<random.number(1...3) { key.append(byte: UInt8(random.number(0...3))) }
        if random.chance(10) {
            key.append(name: [UInt8](repeating: 2, count: random.number(1...500)))
        }
        return key
    }

    private static func value(_ random: inout SeededGenerator) -> [UInt8] {
        let count = random.chance(5) ? random.number(0...9000) : random.number(0...20)
        return (0..<count).map { _ in UInt8(random.number(0...255)) }
    }

    /// What an operation answers, to be compared.
    private enum Answer: Equatable {
        case nothing
        case flag(Bool)
        case row([UInt8], [UInt8])

        init(_ entry: RowEntry?) {
            self = entry.map { .row(Array($0.key.bytes), Array($0.value)) } ?? .nothing
        }
    }

    /// One operation, or a walk with one cursor, that depends on `seed` alone.
    private static func operate(_ rows: Rows, seed: UInt64) throws(StorageError) -> [Answer] {
        var random = SeededGenerator(seed: seed)
        let table = tables.randomElement(using: &random)!
        switch random.number(0...9) {
        case 0...3:
            try rows.put(table, key(&random), value(&random))
            return []
        case 4: return [.flag(try rows.append(table, key(&random), value(&random)))]
        case 5...6: return [.flag(try rows.delete(table, key(&random)))]
        case 7: return [Answer(try rows.get(table, key(&random)).map { (RowKey($0), $0) })]
        default:
            let cursor = try Cursor(rows, table)
            var answers: [Answer] = []
            for _ in 0..<random.number(1...8) {
                switch random.number(0...5) {
                case 0: answers.append(Answer(try cursor.seek(key(&random))))
                case 1: answers.append(Answer(try cursor.seekLast(below: key(&random))))
                case 2: answers.append(Answer(try cursor.last()))
                case 3:
                    // Behind a search in vain a cursor stands nowhere.
                    guard try cursor.seek(key(&random)) != nil else { continue }
                    let step = random.chance(50) ? try cursor.next() : try cursor.previous()
                    answers.append(Answer(step))
                default:
                    answers.append(
                        Answer(try cursor.value(of: key(&random)).map { (RowKey($0), $0) }))
                }
            }
            return answers
        }
    }

    @Test(
        "LMDB and rows in memory answer alike, and hold the same rows",
        arguments: 0..<rounds(20) as Range<UInt64>)
    func alike(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let folder = TemporaryFolder()
        let store = try Store(
            StoreConfiguration(folder: folder.data, mapBytes: 1 << 24, durability: .os))
        let memory = MemoryRows()
        for _ in 0..<60 {
            let seeds = (0..<random.number(1...40)).map { _ in random.next() }
            let isUndone = random.chance(20)
            let undone = StorageError(operation: "undo", code: 0, text: "", isFull: false)
            let begun = memory.begin()
            var expected: [[Answer]] = []
            for seed in seeds { expected.append(try Self.operate(Rows(begun), seed: seed)) }
            var found: [[Answer]] = []
            do throws(StorageError) {
                try store.write { (transaction) throws(StorageError) in
                    found = []
                    for seed in seeds {
                        found.append(try Self.operate(transaction.raw, seed: seed))
                    }
                    if isUndone { throw undone }
                }
                begun.commit()
            } catch {
                begun.abandon()
                #expect(isUndone)
            }
            #expect(found == expected)
            for table in Self.tables {
                let rows = try store.read { (transaction) throws(StorageError) in
                    var rows: [Answer] = []
                    let cursor = try Cursor(transaction.raw, table)
                    var entry = try cursor.next()
                    while let row = entry {
                        rows.append(Answer(row))
                        entry = try cursor.next()
                    }
                    return rows
                }
                #expect(rows == memory.rows(table).map { .row($0.key, $0.value) })
            }
        }
        store.close()
    }
}
