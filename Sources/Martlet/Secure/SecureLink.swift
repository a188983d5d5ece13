// SPDX-License-Identifier: Apache-2.0
//
// A connection of a TLS port as the secure transport sees it: its phase, its sends, and its part of a handshake. The
// keys lie in the table of sessions. A link of zeros is a connection of a plain port. Rests on MartletCrypto.

import MartletBase
import MartletCrypto

/// Sealed bytes in a block of the loop's memory, until the kernel has taken the bytes. The value lies at the beginning
/// of its block, and the bytes directly behind, so that an idle connection has no room for either.
struct Stage {
    /// Bytes of the block behind this value.
    let room: UInt32
    /// Sealed bytes.
    var count: UInt32 = 0
    /// Bytes that the kernel has taken.
    var sentBytes: UInt32 = 0
    /// Bytes of the loop's send in the stage; 0: the stage has bytes of TLS alone.
    var plainBytes: UInt32 = 0

    static let headBytes = 16
}

extension UnsafeMutablePointer<Stage> {
    /// The room for sealed bytes.
    var bytes: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(
            start: UnsafeMutableRawPointer(self) + Stage.headBytes, count: Int(pointee.room))
    }

    /// The bytes that the kernel has not taken.
    var rest: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            rebasing: UnsafeRawBufferPointer(bytes)[Int(pointee.sentBytes)..<Int(pointee.count)])
    }
}

/// The state of one connection.
struct SecureLink {
    enum Phase: UInt8 {
        /// The connection is not TLS, or the place has no connection.
        case plain = 0
        /// The connection waits for its turn, and nothing is read from it. Can transition to: shaking, ended, closing.
        case unread
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
    /// Whether the handshake has more bytes than it needs, and receiving pauses.
    var isFull = false
    /// Whether the loop has paused receiving.
    var isPaused = false
    /// Whether a KEY UPDATE follows the send with the kernel.
    var owesKeyUpdate = false
    /// Whether the sending half ends after the last stage.
    var endsSending = false
    /// Whether the peer's end came while the handshake waited for its turn.
    var endsAfterStep = false
    /// The alert with which the connection ends.
    var alert = TLSAlert.closeNotify
    var generation: UInt32 = 0
    /// Bytes of an unfinished record that the loop was told of.
    var toldKeptBytes: UInt32 = 0
    /// nil: the session has begun, or the connection has ended.
    var opening: SecureOpening?
    /// The send with the kernel, and sealed bytes that follow.
    var inFlight: UnsafeMutablePointer<Stage>?
    var next: UnsafeMutablePointer<Stage>?
}

/// A connection before its session. Freed when the session begins.
final class SecureOpening {
    /// The network of the peer's address.
    let address: PeerAddress
    /// The beginning of the peer's first record, until the record is whole.
    var firstRecord: [UInt8] = []
    /// The handshake, from the first whole record on: a handshake holds much more memory than some bytes.
    var handshake: TLSHandshake?
    /// Whether the connection is in the queue of handshakes with bytes to take.
    var isStepQueued = false
    /// Whether the connection was read, said nothing, and waits for another turn.
    var wasRead = false

    init(from address: PeerAddress) { self.address = address }

    /// Whether the handshake can end with the bytes that it has, although no more will come. Before its first answer a
    /// peer cannot have sent what ends a handshake.
    var mayFinish: Bool { isStepQueued && handshake?.hasAnswered ?? false }

    /// Whether a handshake can take these first bytes: a record is whole, or is no record of a handshake, which OpenSSL
    /// then refuses.
    static func isRecord(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let type = bytes.first else { return false }
        guard type == 22 else { return true }
        guard bytes.count >= TLSLimits.headerBytes else { return false }
        let length = Int(bytes[3]) << 8 | Int(bytes[4])
        return length > TLSLimits.recordPlainBytesMax
            || bytes.count >= TLSLimits.headerBytes + length
    }
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

    /// A stage with room for `count` bytes.
    mutating func take(_ count: Int) -> UnsafeMutablePointer<Stage> {
        let number = Self.number(count + Stage.headBytes)
        let byteCount = 1 << (number + Self.smallestBits)
        usedBytes += byteCount
        let block: UnsafeMutableRawPointer
        if number < Self.classCount, let kept = free[number].popLast() {
            keptBytes -= byteCount
            block = kept
        } else {
            block = .allocate(byteCount: byteCount, alignment: Stage.headBytes)
        }
        let stage = block.bindMemory(to: Stage.self, capacity: 1)
        stage.initialize(to: Stage(room: UInt32(byteCount - Stage.headBytes)))
        return stage
    }

    mutating func giveBack(_ stage: UnsafeMutablePointer<Stage>) {
        let byteCount = Int(stage.pointee.room) + Stage.headBytes
        let number = Self.number(byteCount)
        usedBytes -= byteCount
        guard number < Self.classCount, keptBytes + byteCount <= Self.keptBytesMax else {
            UnsafeMutableRawPointer(stage).deallocate()
            return
        }
        keptBytes += byteCount
        free[number].append(UnsafeMutableRawPointer(stage))
    }

    mutating func releaseMemory() {
        for number in free.indices {
            for block in free[number] { block.deallocate() }
            free[number] = []
        }
        keptBytes = 0
    }
}
