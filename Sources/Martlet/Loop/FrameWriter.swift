// SPDX-License-Identifier: Apache-2.0
//
// Encodes answers into one buffer that is used again and again. Rests on MartletWire.

import MartletWire

/// The loop's scratch for frames that are not DELIVER.
struct FrameWriter {
    private var writer = WireWriter(reservingBytes: 4096)

    /// The frame's bytes, good until the next call.
    mutating func encode(_ frame: BrokerFrame) -> [UInt8] {
        writer.reset()
        frame.encode(into: &writer)
        return writer.bytes
    }

    /// The bytes of frames that leave together.
    mutating func encode(_ frames: [BrokerFrame]) -> [UInt8] {
        writer.reset()
        for frame in frames { frame.encode(into: &writer) }
        return writer.bytes
    }
}
