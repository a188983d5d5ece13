// SPDX-License-Identifier: Apache-2.0
//
// LZ4 blocks of the system's liblz4 for the rows of a cluster's log. Rests on CLZ4.
// Source: lz4.h of LZ4 1.9.4.

internal import CLZ4
import MartletRows

/// The packing of rows with LZ4: a block for each row.
package struct LZ4Packing: RedoPacking {
    package let number: UInt8 = 1

    package init() {}

    package func pack(_ bytes: [UInt8]) -> [UInt8] {
        let bound = LZ4_compressBound(Int32(clamping: bytes.count))
        precondition(bound > 0, "LZ4 packs less than 2 GiB at once.")
        return [UInt8](unsafeUninitializedCapacity: Int(bound)) { packed, count in
            let written = bytes.withUnsafeBufferPointer { bytes in
                bytes.withMemoryRebound(to: CChar.self) { from in
                    packed.withMemoryRebound(to: CChar.self) { to in
                        LZ4_compress_default(
                            from.baseAddress, to.baseAddress, Int32(from.count), bound)
                    }
                }
            }
            precondition(written > 0, "LZ4 packs any bytes into the room that it asks for.")
            count = Int(written)
        }
    }

    package func unpack(_ bytes: UnsafeRawBufferPointer, byteCount: Int) -> [UInt8]? {
        guard let packedCount = Int32(exactly: bytes.count),
            let capacity = Int32(exactly: byteCount),
            // LZ4 unpacks a byte to 255 bytes at most. A longer length is hostile, and takes no room.
            byteCount <= 255 * bytes.count
        else { return nil }
        let unpacked = [UInt8](unsafeUninitializedCapacity: byteCount) { unpacked, count in
            let written = bytes.withMemoryRebound(to: CChar.self) { from in
                unpacked.withMemoryRebound(to: CChar.self) { to in
                    LZ4_decompress_safe(from.baseAddress, to.baseAddress, packedCount, capacity)
                }
            }
            count = max(0, Int(written))
        }
        return unpacked.count == byteCount ? unpacked : nil
    }
}
