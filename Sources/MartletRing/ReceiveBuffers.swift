// SPDX-License-Identifier: Apache-2.0
//
// The memory into which the kernel receives: equal buffers in one mapping, and a ring that hands the buffers to the
// kernel. The kernel takes a buffer only when bytes have arrived, so idle connections hold none. The number and the
// address of a buffer belong together permanently; returning a buffer writes 14 bytes and a tail.
//
// The ring's tail overlaps the last two bytes of the first entry (Source: io_uring.h, `struct io_uring_buf_ring`),
// so entries are written field by field. Rests on Ring.

internal import CLiburing
internal import Glibc
import MartletTransport

struct ReceiveBuffers: ~Copyable {
    private let entries: UnsafeMutablePointer<io_uring_buf>
    private let entriesBytes: Int
    private let tail: UnsafeMutablePointer<UInt16>
    private var tailLocal: UInt16 = 0
    private let memory: UnsafeMutableRawPointer
    private let bufferBytes: Int
    private let count: Int

    init(ring: borrowing Ring, count: Int, bufferBytes: Int) throws(TransportError) {
        precondition(count > 0 && count & (count - 1) == 0, "count must be a power of two")
        let entriesBytes = count * MemoryLayout<io_uring_buf>.stride
        let entriesMemory = try Self.map(bytes: entriesBytes)
        let memory: UnsafeMutableRawPointer
        do {
            memory = try Self.map(bytes: count * bufferBytes)
        } catch {
            munmap(entriesMemory, entriesBytes)
            throw error
        }
        var registration = io_uring_buf_reg()
        registration.ring_addr = UInt64(UInt(bitPattern: entriesMemory))
        registration.ring_entries = UInt32(count)
        registration.bgid = Kernel.receiveBufferGroup
        let result = ring.withControl { io_uring_register_buf_ring($0, &registration, 0) }
        guard result == 0 else {
            munmap(entriesMemory, entriesBytes)
            munmap(memory, count * bufferBytes)
            throw TransportError.setup("registering receive buffers", errno: -result)
        }
        entries = entriesMemory.bindMemory(to: io_uring_buf.self, capacity: count)
        tail = (entriesMemory + 14).assumingMemoryBound(to: UInt16.self)
        self.entriesBytes = entriesBytes
        self.memory = memory
        self.bufferBytes = bufferBytes
        self.count = count
        for number in 0..<count { giveBack(UInt16(number)) }
    }

    deinit {
        munmap(entries, entriesBytes)
        munmap(memory, count * bufferBytes)
    }

    /// The bytes that the kernel wrote into a buffer.
    @inline(__always)
    func bytes(of number: UInt16, count: Int) -> UnsafeRawBufferPointer {
        precondition(Int(number) < self.count && count <= bufferBytes, "not one of our buffers")
        return UnsafeRawBufferPointer(start: memory + Int(number) * bufferBytes, count: count)
    }

    /// Returns a buffer to the kernel.
    @inline(__always)
    mutating func giveBack(_ number: UInt16) {
        let entry = entries + (Int(tailLocal) & (count - 1))
        entry.pointee.addr = UInt64(UInt(bitPattern: memory + Int(number) * bufferBytes))
        entry.pointee.len = UInt32(bufferBytes)
        entry.pointee.bid = number
        tailLocal &+= 1
        martlet_store_release_u16(tail, tailLocal)
    }

    /// Returns the pages to the system. The kernel can still fill the buffers afterwards. No buffer may hold unread
    /// bytes.
    func releasePages() {
        // A failure only leaves the pages allocated.
        _ = madvise(memory, count * bufferBytes, MADV_DONTNEED)
    }

    private static func map(bytes: Int) throws(TransportError) -> UnsafeMutableRawPointer {
        let address = mmap(
            nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let address, address != MAP_FAILED else {
            throw .outOfMemory(operation: "mapping \(bytes) bytes of receive buffers")
        }
        return address
    }
}
