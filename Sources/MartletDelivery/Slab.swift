// SPDX-License-Identifier: Apache-2.0
//
// The tables of a loop that grow: entries are found by number, and are plain memory to the table. Tables that have their
// full length from the beginning are ZeroedTable. Rests on nothing.

/// Memory for entries by number. Which of them are initialised is the owner's business, except that all are when the table
/// grows, unless the entries are plain values. No pointer into the table outlives `reserve`.
struct Slab<Entry: ~Copyable>: ~Copyable {
    private var base: UnsafeMutablePointer<Entry>
    private(set) var capacity: Int

    init(capacity: Int = 0) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    @inline(__always)
    subscript(number: UInt32) -> UnsafeMutablePointer<Entry> { base + Int(number) }

    /// Makes room for `count` entries. To grow costs little for each, because the room at least doubles.
    mutating func reserve(_ count: Int, atLeast least: Int = 0) {
        if count > capacity { grow(to: max(count, 2 * capacity, least)) }
    }

    @inline(never)
    private mutating func grow(to larger: Int) {
        let grown = UnsafeMutablePointer<Entry>.allocate(capacity: larger)
        grown.moveInitialize(from: base, count: capacity)
        base.deallocate()
        base = grown
        capacity = larger
    }
}
