// SPDX-License-Identifier: Apache-2.0
//
// Reads a recipients blob in place, in the map of LMDB or on the heap. The bytes are checked once, when the view is
// made; after the check no read can leave them. Rests on the layout described in RecipientSet.swift.

public import MartletBase

/// The members of a recipients blob, borrowed: the compiler lets no view outlive the owner of the blob. The view of a
/// block, which `block(at:)` and `view(ofBlock:)` return, is an address; it is valid as long as the owner.
public struct RecipientSetView: ~Escapable {
    /// The whole blob, including its header.
    public let bytes: UnsafeRawBufferPointer
    /// The number of blocks with members.
    public let blockCount: Int

    /// Reads bytes that `RecipientSetBuilder` wrote and that no other code could change. The bytes are aligned to 8
    /// if the blob has bitmaps, else to 2.
    @_lifetime(borrow bytes)
    public init(trusted bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        blockCount = Int(bytes.loadLittleEndian(UInt32.self, at: 4))
    }

    /// nil unless `bytes` are a whole blob, aligned to 8: magic, sizes, ascending blocks, every block's members
    /// inside the bytes, and as many members as the header states. The order of a list is not checked: an unsorted
    /// list gives wrong answers, but no access outside the bytes.
    @_lifetime(borrow bytes)
    public init?(validating bytes: UnsafeRawBufferPointer) {
        typealias Layout = RecipientSetLayout
        guard let base = bytes.baseAddress, bytes.count >= Layout.headerBytes,
            UInt(bitPattern: base) & 7 == 0
        else { return nil }
        func word(_ offset: Int) -> UInt32 { bytes.loadLittleEndian(UInt32.self, at: offset) }
        func longWord(_ offset: Int) -> UInt64 { bytes.loadLittleEndian(UInt64.self, at: offset) }
        let blocks = Int(word(4))
        let head = Layout.headerBytes + blocks * Layout.entryBytes
        guard word(0) == Layout.magic, longWord(16) == UInt64(bytes.count), bytes.count % 8 == 0,
            longWord(24) == 0, blocks <= Int(BlockGeometry.blockMax) + 1, head <= bytes.count
        else { return nil }
        var previous: UInt32?
        var members: UInt64 = 0
        for index in 0..<blocks {
            let entry = Layout.headerBytes + index * Layout.entryBytes
            let block = word(entry)
            let count = Int(word(entry + 4))
            let offset = Int(word(entry + 8))
            if let previous, block <= previous { return nil }
            previous = block
            guard block <= BlockGeometry.blockMax, count > 0, offset >= head, offset % 8 == 0
            else { return nil }
            let size: Int
            switch word(entry + 12) {
            case Layout.formFull:
                guard count == BlockGeometry.bitsPerBlock else { return nil }
                size = 0
            case Layout.formList:
                guard count <= BlockGeometry.listCountMax else { return nil }
                size = count * 2
            case Layout.formBitmap:
                guard count <= BlockGeometry.bitsPerBlock else { return nil }
                size = BlockGeometry.bytesPerBlock
            case Layout.formRuns:
                guard let toggles = Layout.toggles(in: bytes, at: offset),
                    BlockView.runs(toggles).count == count
                else { return nil }
                size = 2 + 2 * toggles.count
            default: return nil
            }
            guard offset + size <= bytes.count else { return nil }
            members += UInt64(count)
        }
        guard members == longWord(8) else { return nil }
        self.bytes = bytes
        blockCount = blocks
    }

    /// Whether an ordinal is a member of a blob that may be damaged; nil if the blob is. Checks only the header and
    /// the entries that lead to the ordinal, and reads nothing outside `bytes`.
    public static func contains(_ ordinal: Ordinal, in bytes: UnsafeRawBufferPointer) -> Bool? {
        CheckedRecipientSet(bytes)?.contains(ordinal)
    }

    /// The number of members in all blocks.
    public var count: UInt64 { bytes.loadLittleEndian(UInt64.self, at: 8) }

    /// The members of the `index`-th block of the directory.
    public func block(at index: Int) -> (block: UInt32, view: BlockView, count: Int) {
        invariant(index >= 0 && index < blockCount, "The blob has fewer blocks.")
        let (block, count) = (field(index, 0), Int(field(index, 4)))
        let members = bytes.baseAddress! + Int(field(index, 8))
        switch field(index, 12) {
        case RecipientSetLayout.formFull: return (block, .full, count)
        case RecipientSetLayout.formList:
            let list = UnsafeBufferPointer(
                start: members.assumingMemoryBound(to: UInt16.self), count: count)
            return (block, .list(list), count)
        case RecipientSetLayout.formRuns:
            let words = members.assumingMemoryBound(to: UInt16.self)
            let toggles = UnsafeBufferPointer(start: words + 1, count: Int(words[0]))
            return (block, .runs(toggles), count)
        default: return (block, .bitmap(members.assumingMemoryBound(to: UInt64.self)), count)
        }
    }

    /// Index of the first block that is not below `block`; `blockCount` if all blocks are below.
    public func index(ofBlockFrom block: UInt32) -> Int {
        // A large set has members in nearly every block, so block b is mostly the b-th entry.
        let guess = Int(block)
        if guess < blockCount, field(guess, 0) == block { return guess }
        var low = 0
        var high = min(blockCount, guess)
        while low < high {
            let middle = (low + high) >> 1
            if field(middle, 0) < block { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The members in one block.
    public func view(ofBlock block: UInt32) -> BlockView {
        let index = index(ofBlockFrom: block)
        guard index < blockCount, field(index, 0) == block else { return .empty }
        return self.block(at: index).view
    }

    /// Whether the ordinal is a member.
    public func contains(_ ordinal: Ordinal) -> Bool {
        view(ofBlock: ordinal.blockIndex).contains(bit: ordinal.bitIndex)
    }

    /// A number of a directory entry.
    func field(_ index: Int, _ offset: Int) -> UInt32 {
        let at = RecipientSetLayout.headerBytes + index * RecipientSetLayout.entryBytes + offset
        return bytes.loadLittleEndian(UInt32.self, at: at)
    }
}
