// SPDX-License-Identifier: Apache-2.0
//
// Lets equal conditions share one compiled program (CON-7). A sender repeats a handful of texts, so a small table keyed by the
// text saves nearly all parsing. At the bound, the least recently used entry leaves. Refused texts are not cached, because any
// client could displace the useful entries with faulty texts. Rests on `Condition`.

public import MartletBase

/// A bounded cache of compiled conditions, keyed by text and limit of topics.
public struct ProgramCache: Sendable {
    /// Default capacity. A text has at most 4 KiB, and its tree and code take a few times as much, so the worst
    /// case is some 30 MB; ordinary conditions take a hundredth of that.
    public static let capacityDefault = 1024

    private struct Key: Hashable {
        /// Bytes instead of characters: strings of different bytes can compare equal (the Kelvin sign and the
        /// letter K), and only one of these two is a valid condition.
        var text: [UInt8]
        var topicsMax: Int
    }

    /// Entries form a ring in order of use. Index 0 is the ring's fixed point: the most recently used entry
    /// follows, and the least recently used entry precedes.
    private struct Entry {
        var key: Key
        var condition: Condition?
        var next: Int
        var previous: Int
    }

    /// The largest number of cached conditions.
    public let capacity: Int
    private var entries: [Entry]
    private var indices: [Key: Int] = [:]
    /// Lookups that the cache answered.
    public private(set) var hitCount: UInt64 = 0
    /// Lookups that the cache could not answer.
    public private(set) var missCount: UInt64 = 0

    /// - Parameter capacity: the largest number of cached conditions, at least 1.
    public init(capacity: Int = ProgramCache.capacityDefault) {
        precondition(capacity > 0, "A cache holds at least one condition.")
        self.capacity = capacity
        let fixedPoint = Key(text: [], topicsMax: 0)
        entries = [Entry(key: fixedPoint, condition: nil, next: 0, previous: 0)]
    }

    /// The number of cached conditions.
    public var count: Int { indices.count }

    /// The condition of a text, compiled now or earlier.
    ///
    /// - Throws: `invalidArgument` with the byte at fault.
    public mutating func condition(
        parsing text: String, topicsMax: Int = Limits.conditionTopicsMax
    ) throws(MartletError) -> Condition {
        // A text over the limit is never a key, because hashing the text would cost more than refusing it.
        guard text.utf8.count <= Limits.conditionBytesMax else {
            return try Condition(parsing: text, topicsMax: topicsMax)
        }
        let key = Key(text: Array(text.utf8), topicsMax: topicsMax)
        if let index = indices[key], let condition = entries[index].condition {
            hitCount += 1
            unlink(index)
            link(index)
            return condition
        }
        missCount += 1
        let condition = try Condition(parsing: text, topicsMax: topicsMax)
        let index: Int
        if indices.count < capacity {
            index = entries.count
            entries.append(Entry(key: key, condition: condition, next: 0, previous: 0))
        } else {
            index = entries[0].previous
            unlink(index)
            indices[entries[index].key] = nil
            entries[index].key = key
            entries[index].condition = condition
        }
        indices[key] = index
        link(index)
        return condition
    }

    private mutating func unlink(_ index: Int) {
        let (next, previous) = (entries[index].next, entries[index].previous)
        entries[previous].next = next
        entries[next].previous = previous
    }

    /// Makes an entry the most recently used.
    private mutating func link(_ index: Int) {
        let first = entries[0].next
        entries[index].next = first
        entries[index].previous = 0
        entries[first].previous = index
        entries[0].next = index
    }
}
