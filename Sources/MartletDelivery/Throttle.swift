// SPDX-License-Identifier: Apache-2.0
//
// Throttles collapsible messages with a token bucket per instance, stored as the instant at which it is full again (COL-4).
// Also keeps the sessions that wait for their next token, by when it comes. Rests on the limits.

import MartletBase
import MartletBits
import MartletEngine

/// The buckets' arithmetic, in milliseconds.
struct Throttle: Sendable {
    /// Milliseconds until a bucket gains a token; 0 if the throttle is off.
    let token: Int64
    /// Milliseconds until an empty bucket is full.
    let bucket: Int64

    init(_ limits: BrokerLimits) {
        let isOn = limits.collapsibleBurst > 0 && limits.collapsibleRefillSeconds > 0
        token = isOn ? Int64(limits.collapsibleRefillSeconds) * 1000 : 0
        bucket = token * Int64(limits.collapsibleBurst)
    }

    /// When the bucket is full again after `cost` milliseconds' worth of tokens are taken; nil if it hasn't enough.
    @inline(__always)
    func taking(_ cost: Int64, from full: Int64, _ now: Int64) -> Int64? {
        let later = max(full, now) &+ cost
        return later &- now <= bucket ? later : nil
    }

    /// When an empty bucket gains a token. `full` is when it would be full.
    func nextToken(_ full: Int64) -> Int64 { full &+ token &- bucket }
}

/// A heap of sessions that wait for an instant, each at most once.
struct WakeQueue: ~Copyable {
    private struct Entry {
        var instant: Int64
        var index: UInt32
    }

    private var heap: [Entry] = []
    /// Session number ↦ place in the heap, from 1; 0 if it doesn't wait.
    private let places: ZeroedTable<UInt32>

    init(capacity: Int) { places = ZeroedTable(capacity: capacity) }

    var next: Int64? { heap.first?.instant }

    mutating func insert(_ index: UInt32, at instant: Int64) {
        remove(index)
        heap.append(Entry(instant: instant, index: index))
        rise(heap.count - 1)
    }

    mutating func remove(_ index: UInt32) {
        guard let place = place(of: index) else { return }
        places.base[Int(index)] = 0
        let last = heap.removeLast()
        guard place < heap.count else { return }
        heap[place] = last
        let sunk = sink(place)
        rise(sunk)
    }

    mutating func popFirst(until now: Int64) -> UInt32? {
        guard let first = heap.first, first.instant <= now else { return nil }
        remove(first.index)
        return first.index
    }

    /// Whether a session waits for an instant.
    func contains(_ index: UInt32) -> Bool { place(of: index) != nil }
    private func place(of index: UInt32) -> Int? {
        let place = places.base[Int(index)]
        guard place > 0 else { return nil }
        invariant(
            Int(place) <= heap.count && heap[Int(place) - 1].index == index,
            "A waiting session has its place in the heap.")
        return Int(place) - 1
    }

    /// Notes where a session is in the heap.
    private func note(_ place: Int) { places.base[Int(heap[place].index)] = UInt32(place) + 1 }

    private mutating func rise(_ start: Int) {
        var at = start
        while at > 0, heap[at].instant < heap[(at - 1) / 2].instant {
            heap.swapAt(at, (at - 1) / 2)
            note(at)
            at = (at - 1) / 2
        }
        note(at)
    }

    /// - Returns: the entry's new place.
    private mutating func sink(_ start: Int) -> Int {
        var at = start
        while true {
            var least = at
            for child in 2 * at + 1...2 * at + 2
            where child < heap.count && heap[child].instant < heap[least].instant {
                least = child
            }
            guard least != at else { break }
            heap.swapAt(at, least)
            note(at)
            at = least
        }
        note(at)
        return at
    }
}
