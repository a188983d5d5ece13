// SPDX-License-Identifier: Apache-2.0
//
// Makes the operations of a transaction from the changes that the transaction noted for the journal. The transaction
// itself pays nothing for its redo: everything is found afterwards, while the transaction is still open, by a
// comparison with the snapshot before it. Only the last change of each row counts, and a row with its former value
// makes no operation.
//
// The redo of a transaction travels to every node, so three forms keep it short. A value that differs from the former
// value in few bytes is an xor: one bit of a block of 4080 bytes. A large value that another row has is a copy: a burst
// to one topic stores the same recipients with each message. All else is a put. Rests on RedoOperations and
// ChangeBuffer.

import Glibc
import MartletBase
import MartletRows

/// The maker of a store, with its memory of large values.
struct RedoMaker: ~Copyable {
    /// Bytes from which on a value may become an xor. A shorter value is hardly longer than its own xor once packed.
    private static let xorBytesMin = 16
    /// Bytes from which on a value may become a copy. A shorter value repeats within the window of the packing.
    private static let copyBytesMin = 512

    private var sources = CopySources()

    /// A change noted by the transaction. The bytes lie in the transaction's change buffer.
    private struct Change {
        var table: Table
        var key: UnsafeRawBufferPointer
        /// nil: the row is deleted.
        var value: UnsafeRawBufferPointer?
        /// Whether a later change of the transaction decides about the row.
        var isSuperseded = false
        /// Whether the row has its operation already.
        var isMade = false
    }

    /// The operations of a transaction.
    /// - Parameters:
    ///   - noted: the changes of a `ChangeBuffer`.
    ///   - before: the snapshot before the transaction.
    mutating func operations(
        of noted: UnsafeRawBufferPointer, before: any RowTransaction
    ) throws(StorageError) -> [UInt8] {
        var changes: [Change] = []
        try ChangeBuffer.forEach(noted) { (table, key, value) throws(StorageError) in
            changes.append(Change(table: table, key: key, value: value))
        }
        let places = Places(of: &changes)
        var writer = RedoWriter()
        var deleted: [Int] = []
        for index in changes.indices where !changes[index].isSuperseded {
            let change = changes[index]
            let former = try before.get(change.table, change.key)
            guard let value = change.value else {
                if former != nil { deleted.append(index) }
                continue
            }
            if let former, former.isEqual(to: value) { continue }
            if let former, Self.isNear(value, former) {
                writer.xor(change.table, change.key, value, former: former)
            } else if value.count < Self.copyBytesMin {
                writer.put(change.table, change.key, value)
            } else {
                let digest = JournalFile.checksum(value)
                let source = sources.source(of: digest)
                if let source, try Self.has(source, value, changes, places, before) {
                    source.key.withUnsafeBytes {
                        writer.copy(change.table, change.key, from: source.table, $0)
                    }
                } else {
                    writer.put(change.table, change.key, value)
                }
                sources.note(digest, change.table, change.key)
            }
            changes[index].isMade = true
        }
        for index in deleted { writer.delete(changes[index].table, changes[index].key) }
        return writer.bytes
    }

    /// Whether at least half of the bytes are equal.
    private static func isNear(
        _ value: UnsafeRawBufferPointer, _ former: UnsafeRawBufferPointer
    ) -> Bool {
        guard value.count == former.count, value.count >= xorBytesMin else { return false }
        var equalCount = 0
        for index in value.indices where value[index] == former[index] { equalCount += 1 }
        return 2 * equalCount >= value.count
    }

    /// Whether a row has the value at the time when the operations made so far have been applied.
    private static func has(
        _ source: CopySources.Source, _ value: UnsafeRawBufferPointer, _ changes: [Change],
        _ places: Places, _ before: any RowTransaction
    ) throws(StorageError) -> Bool {
        try source.key.withUnsafeBufferPointer { (key) throws(StorageError) in
            let key = UnsafeRawBufferPointer(key)
            if let index = places.index(of: source.table, key, in: changes) {
                let change = changes[index]
                return change.isMade && change.value.map { $0.isEqual(to: value) } ?? false
            }
            return try before.get(source.table, key).map { $0.isEqual(to: value) } ?? false
        }
    }

    /// Finds the last change of a row: a hash table with open addressing over the changes.
    private struct Places {
        /// Indices of changes; -1: a free place.
        private var indices: [Int32]
        private let mask: Int

        /// Marks the changes that a later change supersedes.
        init(of changes: inout [Change]) {
            var count = 16
            while count < 2 * changes.count { count *= 2 }
            indices = [Int32](repeating: -1, count: count)
            mask = count - 1
            for index in changes.indices.reversed() {
                let place = place(of: changes[index].table, changes[index].key, in: changes)
                if indices[place] < 0 {
                    indices[place] = Int32(index)
                } else {
                    changes[index].isSuperseded = true
                }
            }
        }

        func index(of table: Table, _ key: UnsafeRawBufferPointer, in changes: [Change]) -> Int? {
            let index = indices[place(of: table, key, in: changes)]
            return index < 0 ? nil : Int(index)
        }

        /// The place of a row's last change, or the free place for the row.
        private func place(
            of table: Table, _ key: UnsafeRawBufferPointer, in changes: [Change]
        ) -> Int {
            let hash = JournalFile.checksum(key, seed: UInt64(table.rawValue))
            var place = Int(truncatingIfNeeded: hash) & mask
            while indices[place] >= 0 {
                let change = changes[Int(indices[place])]
                if change.table == table, change.key.isEqual(to: key) { break }
                place = (place + 1) & mask
            }
            return place
        }
    }
}

/// The rows of the last large values, by the digests of the values. The memory is a hint: a row may have changed or be
/// deleted since.
private struct CopySources {
    /// Number of rows: more than the topics that are sent to by turns in one second on a busy broker, and few enough to
    /// be looked through for each large value.
    private static let countMax = 64

    struct Source {
        var table: Table
        var key: [UInt8]
    }

    private var digests: [UInt64] = []
    private var sources: [Source] = []
    private var next = 0

    func source(of digest: UInt64) -> Source? {
        digests.firstIndex(of: digest).map { sources[$0] }
    }

    /// Remembers a row as the newest with its value.
    mutating func note(_ digest: UInt64, _ table: Table, _ key: UnsafeRawBufferPointer) {
        let source = Source(table: table, key: Array(key))
        if let index = digests.firstIndex(of: digest) {
            sources[index] = source
        } else if digests.count < Self.countMax {
            digests.append(digest)
            sources.append(source)
        } else {
            digests[next] = digest
            sources[next] = source
            next = (next + 1) % Self.countMax
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        guard let start = baseAddress, let otherStart = other.baseAddress else { return true }
        return memcmp(start, otherStart, count) == 0
    }
}
