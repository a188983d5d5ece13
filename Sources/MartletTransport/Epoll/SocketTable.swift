// SPDX-License-Identifier: Apache-2.0
//
// The connections of a transport, a queue of the connections with work, and the free indices. Both lists run through
// the slots, so no list allocates. The memory has fixed addresses: access neither counts references nor checks for
// exclusivity. Rests on SocketSlot.

internal import Glibc

struct SocketTable: ~Copyable {
    let slots: UnsafeMutablePointer<SocketSlot>
    let capacity: Int
    /// Indices that were ever used: 0 ..< usedCount.
    private(set) var usedCount = 0
    private var firstFree = SocketSlot.noIndex
    private var firstQueued = SocketSlot.noIndex
    private var lastQueued = SocketSlot.noIndex
    private(set) var queuedCount = 0

    init(capacity: Int) {
        guard let zeros = calloc(capacity, MemoryLayout<SocketSlot>.stride) else {
            fatalError("There is no memory for \(capacity) connections.")
        }
        slots = zeros.bindMemory(to: SocketSlot.self, capacity: capacity)
        self.capacity = capacity
    }

    deinit { free(slots) }

    // MARK: Indices

    /// Takes an index: the index freed last, so that the table stays dense. nil if every index is taken.
    mutating func takeIndex() -> UInt32? {
        if firstFree != SocketSlot.noIndex {
            let index = firstFree
            firstFree = slots[Int(index)].next
            return index
        }
        guard usedCount < capacity else { return nil }
        usedCount += 1
        return UInt32(usedCount - 1)
    }

    /// Frees a slot that is not queued.
    mutating func giveBack(_ index: UInt32) {
        let slot = slots + Int(index)
        precondition(!slot.pointee.state.contains(.queued), "a queued slot cannot be free")
        slot.pointee.free()
        slot.pointee.next = firstFree
        firstFree = index
    }

    // MARK: Work

    /// Appends a slot with work to the queue, unless the slot is queued.
    @inline(__always)
    mutating func queueIfNeeded(_ index: UInt32) {
        let slot = slots + Int(index)
        guard slot.pointee.hasWork, !slot.pointee.state.contains(.queued) else { return }
        slot.pointee.state.insert(.queued)
        slot.pointee.next = SocketSlot.noIndex
        if lastQueued == SocketSlot.noIndex {
            firstQueued = index
        } else {
            slots[Int(lastQueued)].next = index
        }
        lastQueued = index
        queuedCount += 1
    }

    /// Takes the first slot of the queue; the queue must not be empty.
    @inline(__always)
    mutating func takeQueued() -> UInt32 {
        let index = firstQueued
        let slot = slots + Int(index)
        slot.pointee.state.remove(.queued)
        firstQueued = slot.pointee.next
        if firstQueued == SocketSlot.noIndex { lastQueued = SocketSlot.noIndex }
        queuedCount -= 1
        return index
    }
}
