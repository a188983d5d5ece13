// SPDX-License-Identifier: Apache-2.0
//
// A connection of a TLS port as the secure transport sees it: its phase, its sends, and its part of a handshake. The
// keys lie in the table of sessions. A link of zeros is a connection of a plain port. Rests on MartletTLS.

import MartletTLS
import MartletTransport

/// Sealed bytes in memory of the loop, until the kernel has taken them.
struct Stage {
    /// The block of the pool.
    var block: UnsafeMutableRawBufferPointer
    /// Sealed bytes, from the beginning of the block.
    var count: Int
    /// Bytes that the kernel has taken.
    var sentBytes = 0
    /// Bytes of the loop's send in the stage; 0: the stage has bytes of TLS alone.
    var plainBytes = 0

    var rest: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(block)[sentBytes..<count])
    }
}

/// The state of one connection.
struct SecureLink {
    enum Phase: UInt8 {
        /// The connection is not TLS, or the place has no connection.
        case plain = 0
        /// No session yet. Can transition to: open, ended, closing.
        case shaking
        /// Records come and go. Can transition to: ended, closing.
        case open
        /// The loop was told that receiving has ended. Sends still leave. Can transition to: closing.
        case ended
        /// `close` was called. Can transition to: plain.
        case closing
    }

    var phase = Phase.plain
    /// Whether keys of a session are in the table.
    var hasSession = false
    /// Whether the place is in the queue of handshakes with bytes to take.
    var isStepQueued = false
    /// Whether the handshake has more bytes than it needs, and receiving pauses.
    var isFull = false
    /// Whether the loop has paused receiving.
    var isPaused = false
    /// Whether the sending half ends after the last stage.
    var endsSending = false
    /// Whether the peer's end came while the handshake waited for its turn.
    var endsAfterStep = false
    /// The alert with which the connection ends.
    var alert = TLSAlert.closeNotify
    var generation: UInt32 = 0
    /// Bytes of an unfinished record that the loop was told of.
    var toldKeptBytes: UInt32 = 0
    var handshake: TLSHandshake?
    /// The send with the kernel, and sealed bytes that follow.
    var inFlight: Stage?
    var next: Stage?
}

/// Memory for sealed bytes: blocks of powers of two. Freed blocks are kept for the next sends, up to a bound.
struct StagingPool: ~Copyable {
    private var free: [[UnsafeMutableRawPointer]]
    private var keptBytes = 0
    /// Bytes of all blocks in use.
    private(set) var usedBytes = 0

    private static let smallestBits = 7
    private static let classCount = 18
    /// Bytes of free blocks that are kept: a turn of 256 sends of a message each uses some 64 KiB, and a burst of
    /// long sends some megabytes.
    private static let keptBytesMax = 4 << 20

    init() { free = Array(repeating: [], count: Self.classCount) }

    deinit { for block in free.joined() { block.deallocate() } }

    private static func number(_ count: Int) -> Int {
        let bits = Int.bitWidth - max(count - 1, 1).leadingZeroBitCount
        return max(bits - smallestBits, 0)
    }

    /// A block with room for `count` bytes.
    mutating func take(_ count: Int) -> UnsafeMutableRawBufferPointer {
        let number = Self.number(count)
        let byteCount = 1 << (number + Self.smallestBits)
        usedBytes += byteCount
        if number < Self.classCount, let block = free[number].popLast() {
            keptBytes -= byteCount
            return UnsafeMutableRawBufferPointer(start: block, count: byteCount)
        }
        return .allocate(byteCount: byteCount, alignment: 16)
    }

    /// Gives back a block.
    mutating func giveBack(_ block: UnsafeMutableRawBufferPointer) {
        let number = Self.number(block.count)
        usedBytes -= block.count
        guard number < Self.classCount, keptBytes + block.count <= Self.keptBytesMax else {
            block.deallocate()
            return
        }
        keptBytes += block.count
        free[number].append(block.baseAddress!)
    }

    mutating func releaseMemory() {
        for number in free.indices {
            for block in free[number] { block.deallocate() }
            free[number] = []
        }
        keptBytes = 0
    }
}
