// SPDX-License-Identifier: Apache-2.0
//
// The recipients of one fanout, as one immutable run of bytes: written to the store once and read by every
// reconnecting device. A directory gives the place of each block's members, so a lookup of one ordinal touches the
// directory and one block. Rests on `BlockView`.
//
//     offset  size  header (32 bytes)
//          0     4  magic "MRS1"
//          4     4  block count
//          8     8  cardinality: members in all blocks
//         16     8  bytes in all, this header included; a multiple of 8
//         24     8  zero
//                   directory: 16 bytes a block, blocks ascending
//         +0     4  block
//         +4     4  members, 1 ... 32,640
//         +8     4  offset of the members from the start of the header; a multiple of 8
//        +12     4  form: 0 all members (no bytes), 1 list, 2 bitmap, 3 runs
//                   members, in the order of the directory
//                   list: 2 bytes each, ascending, padded with zeros to a multiple of 8
//                   bitmap: 4080 bytes
//                   runs: 2 bytes, the number of toggles, even; then 2 bytes for each toggle (the first bit
//                         of a run, and the first bit behind the run, in turn), ascending; padded with zeros
//                         to a multiple of 8
//
// All numbers are little-endian. Up to 500 members are a list: at most a quarter of a bitmap's bytes. Up to 15 runs
// have a form of their own, because a stored fanout to instances that registered together then takes 8 to 64 bytes
// a block instead of 4080. With more runs a bitmap is faster: every turn of a fanout intersects its recipients with
// the connected instances by AND, and looks up single bits.

/// The bytes of a recipients blob, owned.
public final class RecipientSet: @unchecked Sendable {
    /// Never written after `init`, so threads may share the object.
    private let storage: UnsafeMutableRawBufferPointer

    /// Takes over bytes allocated with `UnsafeMutableRawBufferPointer.allocate`.
    init(adopting storage: UnsafeMutableRawBufferPointer) { self.storage = storage }

    /// Copies a blob; nil if the blob is malformed.
    public convenience init?(copying bytes: UnsafeRawBufferPointer) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 64)
        copy.copyMemory(from: bytes)
        self.init(adopting: copy)
        guard RecipientSetView(validating: UnsafeRawBufferPointer(copy)) != nil else { return nil }
    }

    deinit { storage.deallocate() }

    /// Calls `body` with the blob, which is valid until `body` returns.
    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result { try body(UnsafeRawBufferPointer(storage)) }

    /// The size of the blob.
    public var byteCount: Int { storage.count }

    /// The members of the blob. The set lives as long as the view.
    public var view: RecipientSetView {
        @_lifetime(borrow self)
        get {
            _overrideLifetime(
                RecipientSetView(trusted: UnsafeRawBufferPointer(storage)), borrowing: self)
        }
    }

    /// The number of members in all blocks.
    public var count: UInt64 { view.count }

    /// The set without members.
    public static let none: RecipientSet = RecipientSetBuilder().finish()
}

/// The constants of the layout.
enum RecipientSetLayout {
    /// "MRS1", little-endian.
    static let magic: UInt32 = 0x3153_524D
    static let headerBytes = 32
    static let entryBytes = 16
    static let formFull: UInt32 = 0
    static let formList: UInt32 = 1
    static let formBitmap: UInt32 = 2
    static let formRuns: UInt32 = 3
    static let togglesMax = 30

    /// The toggles of a block with runs; nil unless all toggles lie inside the bytes and ascend.
    static func toggles(
        in bytes: UnsafeRawBufferPointer, at offset: Int
    ) -> UnsafeBufferPointer<UInt16>? {
        guard offset + 2 <= bytes.count else { return nil }
        let words = (bytes.baseAddress! + offset).assumingMemoryBound(to: UInt16.self)
        let count = Int(words[0])
        guard count % 2 == 0, count > 0, count <= togglesMax, offset + 2 + 2 * count <= bytes.count
        else { return nil }
        let toggles = UnsafeBufferPointer(start: words + 1, count: count)
        guard toggles[count - 1] <= BlockGeometry.bitsPerBlock,
            zip(toggles, toggles.dropFirst()).allSatisfy({ $0 < $1 })
        else { return nil }
        return toggles
    }
}
