// SPDX-License-Identifier: Apache-2.0
//
// Tables as long as the largest possible number of connections, whose memory grows only with the entries in use.
// The system hands out pages of zeros at their first write. A table whose entries may begin as zeros is therefore
// allocated in full length and never moves: readers need neither a bounds check nor an indirection. Rests on the C
// library.

internal import Glibc

/// The owner of one table. Entries are zeros until written, and all zeros must be a valid entry. Memory that an
/// entry owns is freed by the user of the table.
public struct ZeroedTable<Entry>: ~Copyable {
    /// The first entry, aligned to a cache line. Valid as long as the table lives.
    public let base: UnsafeMutablePointer<Entry>
    /// Number of entries.
    public let capacity: Int
    private let memory: UnsafeMutableRawPointer

    /// Bytes of a cache line. The table is aligned to a line, so no entry whose size divides 64 crosses a line.
    private static var lineBytes: Int { 64 }

    /// Allocates a table of zeros. The process ends if the system refuses the memory.
    /// - Parameter capacity: number of entries. The table never grows.
    public init(capacity: Int) {
        guard
            let memory = calloc(1, MemoryLayout<Entry>.stride * capacity + Self.lineBytes)
        else { fatalError("There is no memory for a table of \(capacity) entries.") }
        self.memory = memory
        self.capacity = capacity
        base = memory.alignedUp(toMultipleOf: Self.lineBytes)
            .bindMemory(to: Entry.self, capacity: capacity)
    }

    deinit { free(memory) }
}
