// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is, of those that have work: a deficit round robin. Each turn gives a credit in
// proportion to a weight; whoever has any is served until it is used up. What was served beyond the
// credit is a debt that later turns pay first, so shares are exact in the long run whatever one
// service costs. Who is alone takes nothing from anybody and owes nothing: whoever comes later begins
// on equal terms. Who has no work is not in the round and costs nothing. Rests on nothing.

/// A round of numbers, in the order in which they came.
struct FairTurns: ~Copyable {
    /// Credit of one turn at weight 1, in deliveries. Small, so that nobody waits long; large enough
    /// that a turn is worth its beginning.
    let quantum: Int
    private struct Entry {
        var next: UInt32
        var previous: UInt32
        var weight: Int
        var credit: Int
    }

    /// By number; undefined for those that are not in the round.
    private var entries: UnsafeMutablePointer<Entry>
    private var capacity = 8
    private(set) var count = 0
    /// Who came first of those who are here.
    private(set) var first: UInt32 = .nothing
    private var current: UInt32 = .nothing

    init(quantum: Int) {
        self.quantum = quantum
        entries = .allocate(capacity: capacity)
    }

    deinit { entries.deallocate() }

    /// Who came next; nothing behind the last.
    func after(_ number: UInt32) -> UInt32 {
        let next = entries[Int(number)].next
        return next == first ? .nothing : next
    }

    var last: UInt32 { first == .nothing ? .nothing : entries[Int(first)].previous }

    /// It has its first turn when everybody who is here has had theirs.
    mutating func insert(_ number: UInt32, weight: Int) {
        reserve(Int(number))
        count += 1
        guard first != .nothing else {
            entries[Int(number)] = Entry(
                next: number, previous: number, weight: weight, credit: quantum * weight)
            first = number
            current = number
            return
        }
        let last = entries[Int(first)].previous
        entries[Int(number)] = Entry(next: first, previous: last, weight: weight, credit: 0)
        entries[Int(last)].next = number
        entries[Int(first)].previous = number
    }

    /// It has no work any more. Its debt is forgiven.
    mutating func remove(_ number: UInt32) {
        count -= 1
        guard count > 0 else {
            first = .nothing
            current = .nothing
            return
        }
        let entry = entries[Int(number)]
        entries[Int(entry.previous)].next = entry.next
        entries[Int(entry.next)].previous = entry.previous
        if first == number { first = entry.next }
        guard current == number else { return }
        current = entry.next
        giveTurn()
    }

    /// Whose turn it is: the same until its credit is used up.
    mutating func next() -> UInt32? {
        guard current != .nothing else { return nil }
        while entries[Int(current)].credit <= 0 {
            current = entries[Int(current)].next
            giveTurn()
        }
        return current
    }

    private func giveTurn() {
        entries[Int(current)].credit += quantum * entries[Int(current)].weight
    }

    func credit(_ number: UInt32) -> Int { entries[Int(number)].credit }

    func charge(_ number: UInt32, _ cost: Int) {
        let credit = entries[Int(number)].credit - cost
        entries[Int(number)].credit = count > 1 ? credit : max(credit, 0)
    }

    func setWeight(_ number: UInt32, _ weight: Int) { entries[Int(number)].weight = weight }

    private mutating func reserve(_ number: Int) {
        guard number >= capacity else { return }
        let larger = max(number + 1, capacity * 2)
        let grown = UnsafeMutablePointer<Entry>.allocate(capacity: larger)
        grown.update(from: entries, count: capacity)
        entries.deallocate()
        entries = grown
        capacity = larger
    }
}
