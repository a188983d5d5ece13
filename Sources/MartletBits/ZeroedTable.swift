// SPDX-License-Identifier: Apache-2.0
//
// Tables that are as long as there may ever be connections, and take memory only as far as there have
// been any. The system gives out pages of zeros when they are first written, so a table whose entries
// may begin as zeros is allocated in its full length and never moves: whoever reads it needs no bound
// and no indirection. Rests on the C library.

internal import Glibc

/// The owner of one table. Entries are zeros until they are written, and must be valid so; what they own
/// is their user's to free.
public struct ZeroedTable<Entry>: ~Copyable {
    public let base: UnsafeMutablePointer<Entry>
    private let memory: UnsafeMutableRawPointer

    /// Bytes of a cache line: no entry whose size divides it lies across two.
    private static var lineBytes: Int { 64 }

    public init(capacity: Int) {
        guard
            let memory = calloc(1, MemoryLayout<Entry>.stride * capacity + Self.lineBytes)
        else { fatalError("There is no memory for a table of \(capacity) entries.") }
        self.memory = memory
        base = memory.alignedUp(toMultipleOf: Self.lineBytes)
            .bindMemory(to: Entry.self, capacity: capacity)
    }

    deinit { free(memory) }
}
