// SPDX-License-Identifier: Apache-2.0
//
// The division of ordinals into blocks. A block spans 32,768 ordinals, of which 32,640 are used: 4080 bytes of bits
// and LMDB's page header of 16 bytes fill one page of 4096 exactly, and the block of an ordinal is still a shift.
// The last 128 ordinals of every block are never issued. Rests on `Ordinal`.

public import MartletBase

/// The measures of one block of a bitset.
public enum BlockGeometry {
    /// The block index of an ordinal is the ordinal shifted right by this number of bits.
    public static let strideShift: UInt32 = 15
    /// The mask for the bit of an ordinal inside its block.
    public static let bitMask: UInt32 = 0x7FFF
    /// Words of 64 bits in the bitmap of a block.
    public static let wordsPerBlock = 510
    /// Usable ordinals of a block, one bit each: 64 bits in each of 510 words.
    public static let bitsPerBlock = 32_640
    /// Bytes in the bitmap of a block: a page of 4096 without LMDB's page header of 16.
    public static let bytesPerBlock = 4080
    /// Largest number of members that a block stores as a sorted list of `UInt16`: at most a quarter of a bitmap's
    /// bytes. Scattering an element costs 1.2 ns, so a list never costs more than a bitmap.
    public static let listCountMax = 500
    /// The highest block index of any `Ordinal`.
    public static let blockMax: UInt32 = UInt32.max >> 15
}

extension Ordinal {
    /// The index of the ordinal's block.
    @inlinable public var blockIndex: UInt32 { rawValue >> BlockGeometry.strideShift }
    /// The ordinal's bit inside its block, 0 ..< 32,640.
    @inlinable public var bitIndex: Int { Int(rawValue & BlockGeometry.bitMask) }

    /// The ordinal of a bit in a block.
    /// - Parameters:
    ///   - block: at most `BlockGeometry.blockMax`.
    ///   - bit: 0 to 32,767; a usable ordinal has a bit below 32,640.
    @inlinable public init(block: UInt32, bit: Int) {
        self.init(block << BlockGeometry.strideShift | UInt32(truncatingIfNeeded: bit))
    }

    /// Whether the ordinal may be issued: the last 128 ordinals of every block may not.
    @inlinable public var isUsable: Bool { bitIndex < BlockGeometry.bitsPerBlock }

    /// The next usable ordinal, or nil when all have been issued.
    @inlinable public static func next(after ordinal: Ordinal) -> Ordinal? {
        if ordinal.bitIndex + 1 < BlockGeometry.bitsPerBlock {
            return Ordinal(ordinal.rawValue + 1)
        }
        guard ordinal.blockIndex < BlockGeometry.blockMax else { return nil }
        return Ordinal(block: ordinal.blockIndex + 1, bit: 0)
    }
}
