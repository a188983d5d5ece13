// SPDX-License-Identifier: Apache-2.0
//
// How ordinals are cut into blocks. A block spans 32,768 ordinals, of which 32,640 are used: 4080
// bytes of bits and LMDB's page header of 16 bytes fill one page of 4096 exactly, and the block of
// an ordinal is still a shift. The last 128 ordinals of every block are never issued. Rests on
// `Ordinal`.

public import MartletBase

/// The measures of one block of a bitset.
public enum BlockGeometry {
    /// The block of an ordinal is the ordinal shifted right by this.
    public static let strideShift: UInt32 = 15
    /// Masks the bit of an ordinal inside its block.
    public static let bitMask: UInt32 = 0x7FFF
    public static let wordsPerBlock = 510
    public static let bitsPerBlock = 32_640
    public static let bytesPerBlock = 4080
    /// Members up to which a set is stored as a sorted list of `UInt16`: a quarter of the bitmap's
    /// bytes. Scattering an element costs 1.2 ns, so a list never costs more than a bitmap does.
    public static let listCountMax = 500
    /// The highest block an `Ordinal` can be in.
    public static let blockMax: UInt32 = UInt32.max >> 15
}

extension Ordinal {
    /// The block this ordinal is in.
    @inlinable public var blockIndex: UInt32 { rawValue >> BlockGeometry.strideShift }
    /// The bit this ordinal is inside its block, 0 ..< 32,640.
    @inlinable public var bitIndex: Int { Int(rawValue & BlockGeometry.bitMask) }

    @inlinable public init(block: UInt32, bit: Int) {
        self.init(block << BlockGeometry.strideShift | UInt32(truncatingIfNeeded: bit))
    }

    /// Whether this ordinal may be issued: not one of the last 128 of its block.
    @inlinable public var isUsable: Bool { bitIndex < BlockGeometry.bitsPerBlock }

    /// The usable ordinal after `ordinal`, or nil when all have been issued.
    @inlinable public static func next(after ordinal: Ordinal) -> Ordinal? {
        if ordinal.bitIndex + 1 < BlockGeometry.bitsPerBlock {
            return Ordinal(ordinal.rawValue + 1)
        }
        guard ordinal.blockIndex < BlockGeometry.blockMax else { return nil }
        return Ordinal(block: ordinal.blockIndex + 1, bit: 0)
    }
}
