// SPDX-License-Identifier: Apache-2.0
//
// Reads a recipients blob that may be damaged. The initialiser checks the header; every access checks the parts to
// be read. So the lookup of one block costs the same for any size of blob, and no read leaves the bytes. Rests on
// the layout described in RecipientSet.swift.

public import MartletBase

/// The members of a blob that may be damaged, borrowed. The bytes are aligned to 8 if the blob has bitmaps, else to
/// 2.
public struct CheckedRecipientSet: ~Escapable {
    private let view: RecipientSetView

    /// nil if the header does not fit a blob of this size.
    @_lifetime(borrow bytes)
    public init?(_ bytes: UnsafeRawBufferPointer) {
        typealias Layout = RecipientSetLayout
        guard bytes.count >= Layout.headerBytes else { return nil }
        let view = RecipientSetView(trusted: bytes)
        let magic = bytes.loadLittleEndian(UInt32.self, at: 0)
        let total = bytes.loadLittleEndian(UInt64.self, at: 16)
        guard magic == Layout.magic, total == UInt64(bytes.count),
            Layout.headerBytes + view.blockCount * Layout.entryBytes <= bytes.count
        else { return nil }
        self.view = view
    }

    /// The number of blocks with members.
    public var blockCount: Int { view.blockCount }

    /// The block number in the `index`-th entry of the directory. The number is not checked, so a damaged blob may
    /// repeat a number.
    /// - Parameter index: 0 ..< `blockCount`.
    public func number(ofBlockAt index: Int) -> UInt32 {
        invariant(index >= 0 && index < blockCount, "The blob has fewer blocks.")
        return view.field(index, 0)
    }

    /// The members of the `index`-th block; nil if the entry points outside the blob. The order of a list and the
    /// range of its bits are not checked.
    public func view(ofBlockAt index: Int) -> BlockView? {
        typealias Layout = RecipientSetLayout
        invariant(index >= 0 && index < blockCount, "The blob has fewer blocks.")
        let offset = Int(view.field(index, 8))
        let size: Int
        switch view.field(index, 12) {
        case Layout.formFull: return .full
        case Layout.formList: size = Int(view.field(index, 4)) * 2
        case Layout.formBitmap: size = BlockGeometry.bytesPerBlock
        case Layout.formRuns: size = 2
        default: return nil
        }
        let head = Layout.headerBytes + blockCount * Layout.entryBytes
        guard offset >= head, offset % 8 == 0, offset + size <= view.bytes.count else { return nil }
        if view.field(index, 12) == Layout.formRuns {
            return Layout.toggles(in: view.bytes, at: offset).map { .runs($0) }
        }
        return view.block(at: index).view
    }

    /// The members in a block; nil if they would lie outside the blob.
    public func view(ofBlock block: UInt32) -> BlockView? {
        let index = view.index(ofBlockFrom: block)
        guard index < blockCount, view.field(index, 0) == block else { return .empty }
        return view(ofBlockAt: index)
    }

    /// Whether the ordinal is a member; nil if the members of its block would lie outside the blob.
    public func contains(_ ordinal: Ordinal) -> Bool? {
        view(ofBlock: ordinal.blockIndex).map { $0.contains(bit: ordinal.bitIndex) }
    }
}
