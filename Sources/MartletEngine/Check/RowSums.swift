// SPDX-License-Identifier: Apache-2.0
//
// Compares tables that say the same thing in different orders: `tokens` is ordered by token, `instances` by ordinal, `due` by
// time. To look up one table's rows in the other would cost a random access for each of millions of rows. Summing up a hash
// of each row takes one pass over each table, whatever the order. If the sums are equal, so are the rows, except by an
// accident of probability 2^-64. If they differ, the check goes through the rows again and searches (`Checker`). Rests on
// MartletRows.

import MartletBase
import MartletRows

/// A project's sums: one per token table, and one per kind of due rows.
struct RowSums: Equatable {
    /// Which sum: a kind of due rows, by its raw value, or a token table.
    struct Slot: Hashable {
        let index: Int

        init(_ kind: DueKind) { index = Int(kind.rawValue) }

        private init(index: Int) { self.index = index }

        private static let tokenIndex = 1 + DueKind.allCases.reduce(0) { max($0, Int($1.rawValue)) }

        static let tokens = Slot(index: tokenIndex)
        static let formerTokens = Slot(index: tokenIndex + 1)
        static let count = tokenIndex + 2
    }

    private var sums = [UInt64](repeating: 0, count: Slot.count)

    subscript(slot: Slot) -> UInt64 {
        get { sums[slot.index] }
        set { sums[slot.index] = newValue }
    }

    /// Constants without a pattern: the first digits of π in base 16.
    private static let seeds: (UInt64, UInt64, UInt64, UInt64) = (
        0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344, 0xA409_3822_299F_31D0, 0x082E_FA98_EC4E_6C89
    )

    /// Both halves of a product. Each bit of the result depends on all bits of the factors.
    @inline(__always)
    private static func folded(_ a: UInt64, _ b: UInt64) -> UInt64 {
        let product = a.multipliedFullWidth(by: b)
        return product.high ^ product.low
    }

    /// The hash of a token and its ordinal.
    /// - Parameter token: `Limits.tokenRandomBytes` bytes.
    @inline(__always)
    static func hash(token: UnsafeRawBufferPointer, _ ordinal: UInt32) -> UInt64 {
        let first = folded(
            token.loadLittleEndian(UInt64.self, at: 0) ^ seeds.0,
            token.loadLittleEndian(UInt64.self, at: 8) ^ seeds.1)
        return folded(
            first ^ token.loadLittleEndian(UInt64.self, at: 16) ^ seeds.2,
            UInt64(ordinal) ^ seeds.3)
    }

    /// The hash of a due row, without its kind and project.
    /// - Parameter id: a multiple of four bytes.
    @inline(__always)
    static func hash(due time: UInt64, id: UnsafeRawBufferPointer) -> UInt64 {
        var hash = time ^ seeds.0
        var offset = 0
        while id.count - offset >= 8 {
            hash = folded(hash, id.loadLittleEndian(UInt64.self, at: offset) ^ seeds.1)
            hash ^= seeds.2
            offset += 8
        }
        let rest =
            id.count > offset ? UInt64(id.loadLittleEndian(UInt32.self, at: offset)) : 0
        return folded(hash ^ seeds.3, rest ^ seeds.1)
    }
}

/// The sums of all projects.
struct StoreSums {
    private var places: [UInt32: Int] = [:]
    private var sums: [RowSums] = []
    private var last: (project: UInt32, place: Int)?

    init(projects: some Sequence<UInt32>) {
        for project in projects {
            places[project] = sums.count
            sums.append(RowSums())
        }
    }

    subscript(project: ProjectNumber) -> RowSums? { places[project.rawValue].map { sums[$0] } }

    /// Adds the hash of a row.
    /// - Returns: false if there is no such project.
    mutating func add(_ hash: UInt64, _ slot: RowSums.Slot, in project: UInt32) -> Bool {
        if last?.project != project {
            guard let place = places[project] else { return false }
            last = (project, place)
        }
        sums[last!.place][slot] &+= hash
        return true
    }
}
