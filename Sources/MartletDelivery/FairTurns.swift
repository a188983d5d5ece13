// SPDX-License-Identifier: Apache-2.0
//
// Turns among numbers that have work: a deficit round robin. A turn gives a number credit in proportion to its weight, and
// it is served until the credit is used up. What it gets beyond that is a debt, which its next turns pay first. So in the
// long run shares are exact, however much a single service costs. A number that is alone has no debt, so the next one to
// come starts on equal terms. A number without work isn't in the round and costs nothing. Rests on MartletBase.

import MartletBase
import MartletEngine

/// A round of numbers, in order of insertion.
struct FairTurns: ~Copyable {
    /// A turn's credit at weight 1, in the unit of the costs. Small enough that nobody waits long, large enough to be worth the
    /// fixed cost of a turn.
    let quantum: Int
    // Not private: the compiler of Swift 6.3 aborts at a private type in a generic one of another file.
    struct Entry {
        var next: UInt32
        var previous: UInt32
        var weight: Int
        var credit: Int
    }

    /// Entries by number; undefined for numbers outside the round.
    private var entries = Slab<Entry>()
    private(set) var count = 0
    /// The oldest number in the round.
    private(set) var first: UInt32 = .nothing
    private var current: UInt32 = .nothing

    init(quantum: Int) { self.quantum = quantum }

    /// The next number in order of insertion; `nothing` after the last number.
    func after(_ number: UInt32) -> UInt32 {
        let next = entries[number].pointee.next
        return next == first ? .nothing : next
    }

    var last: UInt32 { first == .nothing ? .nothing : entries[first].pointee.previous }

    /// Adds a number that has work. Everyone in the round has a turn before its first.
    mutating func insert(_ number: UInt32, weight: Int) {
        invariant(weight > 0, "A number with work has a weight.")
        entries.reserve(Int(number) + 1, atLeast: 8)
        count += 1
        guard first != .nothing else {
            entries[number].pointee = Entry(
                next: number, previous: number, weight: weight, credit: quantum * weight)
            first = number
            current = number
            return
        }
        let last = entries[first].pointee.previous
        entries[number].pointee = Entry(next: first, previous: last, weight: weight, credit: 0)
        entries[last].pointee.next = number
        entries[first].pointee.previous = number
    }

    /// Removes a number that has no more work, and forgives its debt.
    mutating func remove(_ number: UInt32) {
        invariant(count > 0, "A number that leaves the round was in the round.")
        count -= 1
        guard count > 0 else {
            first = .nothing
            current = .nothing
            return
        }
        let entry = entries[number].pointee
        entries[entry.previous].pointee.next = entry.next
        entries[entry.next].pointee.previous = entry.previous
        if first == number { first = entry.next }
        guard current == number else { return }
        current = entry.next
        giveTurn()
    }

    /// Whose turn it is, until the credit is used up; nil if the round is empty.
    mutating func next() -> UInt32? {
        guard current != .nothing else { return nil }
        invariant(count > 0, "A round with a turn has a number.")
        while entries[current].pointee.credit <= 0 {
            current = entries[current].pointee.next
            giveTurn()
        }
        return current
    }

    private func giveTurn() {
        entries[current].pointee.credit += quantum * entries[current].pointee.weight
    }

    func credit(_ number: UInt32) -> Int { entries[number].pointee.credit }

    func charge(_ number: UInt32, _ cost: Int) {
        invariant(cost >= 0, "A service costs no less than nothing.")
        let credit = entries[number].pointee.credit - cost
        entries[number].pointee.credit = count > 1 ? credit : max(credit, 0)
    }

    func setWeight(_ number: UInt32, _ weight: Int) {
        invariant(weight > 0, "A number with work has a weight.")
        entries[number].pointee.weight = weight
    }
}
