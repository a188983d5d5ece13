// SPDX-License-Identifier: Apache-2.0
//
// Encodes answers into a reused buffer. Rests on MartletWire.

import MartletWire

/// The loop's buffer for all frames but DELIVER.
struct FrameWriter {
    private var writer = WireWriter(reservingBytes: 4096)

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
}
