// SPDX-License-Identifier: Apache-2.0
//
// Simulated time: planned actions, in order. Time stands still during an action, and jumps to the next action. Rests
// on Instant.

package import MartletBase
import Synchronization

/// The clock of a world; every part of the world reads it.
package final class SimulatedClock: Sendable {
    /// Beginning of the world, in milliseconds since 1970. Any day will do.
    private static let start: Int64 = 1_800_000_000_000

    private let value = Atomic<Int64>(0)

    package init() {}

    /// Microseconds since the beginning of the world.
    package var now: Int64 { value.load(ordering: .relaxed) }
    package var instant: Instant { Instant(millisecondsSince1970: Self.start + now / 1000) }
    package var milliseconds: Int64 { now / 1000 }

    fileprivate func set(_ now: Int64) { value.store(now, ordering: .relaxed) }
}

/// The planned actions of a world. Actions at the same time run in the order of their planning.
package final class Agenda {
    private struct Entry {
        let time: Int64
        let number: UInt64
        let action: () -> Void

        func isBefore(_ other: Entry) -> Bool {
            time != other.time ? time < other.time : number < other.number
        }
    }

    package let clock: SimulatedClock
    private var heap: [Entry] = []
    private var last: UInt64 = 0

    package init(clock: SimulatedClock) { self.clock = clock }

    package var now: Int64 { clock.now }

    package func at(_ time: Int64, _ action: @escaping () -> Void) {
        last += 1
        heap.append(Entry(time: max(time, now), number: last, action: action))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].isBefore(heap[parent]) else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    package func after(_ delay: Int64, _ action: @escaping () -> Void) {
        at(now + delay, action)
    }

    /// Runs the next action if it is due by `end`; else moves the time to `end`.
    /// - Returns: whether an action ran.
    package func doNext(until end: Int64) -> Bool {
        guard let next = heap.first, next.time <= end else {
            clock.set(max(now, end))
            return false
        }
        let moved = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = moved
            sink()
        }
        clock.set(max(now, next.time))
        next.action()
        return true
    }

    /// Drops all planned actions.
    package func clear() { heap = [] }

    private func sink() {
        var parent = 0
        while true {
            var child = 2 * parent + 1
            guard child < heap.count else { return }
            if child + 1 < heap.count, heap[child + 1].isBefore(heap[child]) { child += 1 }
            guard heap[child].isBefore(heap[parent]) else { return }
            heap.swapAt(child, parent)
            parent = child
        }
    }
}
