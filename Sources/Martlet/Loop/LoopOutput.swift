// SPDX-License-Identifier: Apache-2.0
//
// The memory that a loop writes with: a buffer for answers, and the vectors of sends. Rests on MartletWire.

import Glibc
import MartletDelivery
import MartletWire

/// What a loop writes with. The kernel reads the vectors at the next submission, so none is used again before.
struct LoopOutput: ~Copyable {
    /// The buffer of all frames but DELIVER.
    private var writer = WireWriter(reservingBytes: 4096)
    let prefixes = ChannelPrefixes()
    private let vectors = UnsafeMutableBufferPointer<iovec>.allocate(
        capacity: OutputBounds.vectorsPerSend * 256)
    /// Vectors of the sends since the last submission.
    private var used = 0

    deinit { vectors.deallocate() }

    /// Encodes a frame, and returns the bytes.
    mutating func encode(_ frame: BrokerFrame) -> [UInt8] {
        writer.reset()
        frame.encode(into: &writer)
        return writer.bytes
    }

    /// Encodes several frames for a single send, and returns the bytes.
    mutating func encode(_ frames: [BrokerFrame]) -> [UInt8] {
        writer.reset()
        for frame in frames { frame.encode(into: &writer) }
        return writer.bytes
    }

    /// Whether vectors are free for a send.
    var hasFreeVectors: Bool { used + OutputBounds.vectorsPerSend <= vectors.count }

    /// Vectors for one send.
    var freeVectors: UnsafeMutableBufferPointer<iovec> {
        UnsafeMutableBufferPointer(rebasing: vectors[used..<(used + OutputBounds.vectorsPerSend)])
    }

    mutating func use(_ count: Int) { used += count }
    mutating func submitted() { used = 0 }
}
