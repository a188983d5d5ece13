// SPDX-License-Identifier: Apache-2.0
//
// Values by key, for keys that mostly come in ascending order and several times in a row, as the sequences of a
// project's messages do. A new highest key is appended to an array. Only keys that come too late for the array need a
// hash table, as the keys of several projects do that take turns. The type is
// public and inlinable because the compiler then makes code for the types of a caller in another module. Rests on no
// other type.

/// Values by key. An update of a key above all others costs an append, and an update of the last updated key costs no
/// search. Other keys cost a binary search, and a look-up in a hash table if the key came too late for its place.
public struct AscendingTable<Key: Hashable & Comparable, Value> {
    @usableFromInline
    enum Place {
        case ascending(Int)
        case late(Int)
    }

    /// Elements whose keys came in ascending order.
    @usableFromInline var ascending: [(key: Key, value: Value)] = []
    /// Elements whose keys came after a higher key, in the order of the insertions.
    @usableFromInline var late: [(key: Key, value: Value)] = []
    /// By key, the indices of `late`.
    @usableFromInline var latePlaces: [Key: Int] = [:]
    /// The place of the last update; nil in an empty table.
    @usableFromInline var last: (key: Key, place: Place)?

    /// Makes an empty table.
    @inlinable public init() {}

    /// Whether the table has no keys.
    @inlinable public var isEmpty: Bool { last == nil }

    /// The value of a key; nil if the table does not have the key.
    @inlinable public subscript(key: Key) -> Value? {
        guard let place = place(of: key) else { return nil }
        return switch place {
        case .ascending(let index): ascending[index].value
        case .late(let index): late[index].value
        }
    }

    /// Changes the value of a key in its place.
    /// - Parameter initial: the value before the change, if the key is new.
    @inlinable public mutating func update(
        _ key: Key, default initial: @autoclosure () -> Value, _ change: (inout Value) -> Void
    ) {
        let place: Place
        if let last, last.key == key {
            place = last.place
        } else {
            place = self.place(of: key) ?? insert(key, initial())
            last = (key, place)
        }
        switch place {
        case .ascending(let index): change(&ascending[index].value)
        case .late(let index): change(&late[index].value)
        }
    }

    @inlinable mutating func insert(_ key: Key, _ value: Value) -> Place {
        if ascending.last.map({ $0.key < key }) ?? true {
            ascending.append((key, value))
            return .ascending(ascending.count - 1)
        }
        latePlaces[key] = late.count
        late.append((key, value))
        return .late(late.count - 1)
    }

    @inlinable func place(of key: Key) -> Place? {
        guard let highest = ascending.last?.key, key <= highest else { return nil }
        var (low, high) = (0, ascending.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if ascending[middle].key < key { low = middle + 1 } else { high = middle }
        }
        if ascending[low].key == key { return .ascending(low) }
        return latePlaces[key].map { .late($0) }
    }

    /// Takes all elements, in the order of their keys. The table is empty afterwards.
    @inlinable public mutating func take() -> [(key: Key, value: Value)] {
        defer { self = Self() }
        guard !late.isEmpty else { return ascending }
        var all: [(key: Key, value: Value)] = []
        all.reserveCapacity(ascending.count + late.count)
        var next = ascending.startIndex
        for index in late.indices.sorted(by: { late[$0].key < late[$1].key }) {
            while next < ascending.endIndex, ascending[next].key < late[index].key {
                all.append(ascending[next])
                next += 1
            }
            all.append(late[index])
        }
        all += ascending[next...]
        return all
    }
}
