// SPDX-License-Identifier: Apache-2.0
//
// A working block: 4096 owned bytes, aligned to a cache line, for combining sets. The bits past 32,640 are always
// zero. Rests on the kernels.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// An owned bitmap of one block. A new buffer is empty.
public struct BlockBuffer: ~Copyable {
    /// 512 words, of which 510 are used.
    @usableFromInline let words: UnsafeMutablePointer<UInt64>

    /// A buffer without members.
    public init() {
        let raw = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 64)
        words = raw.initializeMemory(as: UInt64.self, repeating: 0, count: 512)
    }

    /// A buffer with a copy of the members of `view`.
    public init(_ view: BlockView) {
        self.init()
        assign(view)
    }

    deinit { UnsafeMutableRawPointer(words).deallocate() }

    // MARK: Lending
    //
    // A view or a pointer taken from a temporary buffer would outlive it: the buffer frees its bytes as soon as nobody
    // needs the buffer itself. So the buffer lends its bytes to closures only.

    /// Calls `body` with the buffer's set, which is valid until `body` returns.
    @inlinable
    public func withView<Result, Failure: Error>(
        _ body: (BlockView) throws(Failure) -> Result
    ) throws(Failure) -> Result { try body(.bitmap(UnsafePointer(words))) }

    /// Calls `body` with the 4080 bytes of the bitmap, the form in which a store keeps it.
    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(start: words, count: BlockGeometry.bytesPerBlock))
    }

    /// Calls `body` with the 512 words, of which the last two stay zero.
    package mutating func withWords<Result>(
        _ body: (UnsafeMutablePointer<UInt64>) -> Result
    ) -> Result { body(words) }

    // MARK: Asking

    /// The number of members, 0 to 32,640.
    public var count: Int { BitKernels.current.count(words) }

    /// Whether the bit is a member.
    /// - Parameter bit: 0 to 32,767. Bits from 32,640 on are never members.
    @inlinable public func contains(bit: Int) -> Bool {
        words[(bit & 0x7FFF) &>> 6] &>> UInt64(bit & 63) & 1 != 0
    }

    /// Calls `body` with the position of every member, ascending.
    @inlinable public func forEachBit(_ body: (Int) -> Void) { withView { $0.forEachBit(body) } }

    // MARK: Changing single bits

    /// Sets a bit.
    ///
    /// - Returns: whether the bit was clear before.
    @discardableResult
    @inlinable public mutating func insert(bit: Int) -> Bool {
        precondition(bit >= 0 && bit < BlockGeometry.bitsPerBlock, "A block has 32,640 bits.")
        let mask = 1 as UInt64 &<< UInt64(bit & 63)
        defer { words[bit &>> 6] |= mask }
        return words[bit &>> 6] & mask == 0
    }

    /// Clears a bit.
    ///
    /// - Returns: whether the bit was set before.
    @discardableResult
    @inlinable public mutating func remove(bit: Int) -> Bool {
        precondition(bit >= 0 && bit < BlockGeometry.bitsPerBlock, "A block has 32,640 bits.")
        let mask = 1 as UInt64 &<< UInt64(bit & 63)
        defer { words[bit &>> 6] &= ~mask }
        return words[bit &>> 6] & mask != 0
    }

    // MARK: Set algebra

    /// Clears every bit.
    public mutating func removeAll() { memset(words, 0, BlockGeometry.bytesPerBlock) }

    /// Replaces the members by the members of `view`. `view` may be a view of the buffer.
    public mutating func assign(_ view: BlockView) {
        switch view {
        case .empty: removeAll()
        case .full: memset(words, 0xFF, BlockGeometry.bytesPerBlock)
        case .list(let list):
            removeAll()
            scatter(list, into: words)
            trim()
        case .wideList(let bytes):
            removeAll()
            scatterWide(bytes, into: words)
            trim()
        case .runs(let toggles):
            removeAll()
            set(runs: toggles, in: words)
        case .bitmap(let other):
            if UnsafePointer(words) != other {
                memcpy(words, other, BlockGeometry.bytesPerBlock)
            }
        }
    }

    /// Adds the members of `view`.
    public mutating func formUnion(_ view: BlockView) {
        switch view {
        case .empty: break
        case .full: assign(.full)
        case .list(let list):
            scatter(list, into: words)
            trim()
        case .wideList(let bytes):
            scatterWide(bytes, into: words)
            trim()
        case .runs(let toggles): set(runs: toggles, in: words)
        case .bitmap(let other): BitKernels.current.or(words, other, into: words)
        }
    }

    /// Removes all members that `view` lacks.
    public mutating func formIntersection(_ view: BlockView) {
        switch view {
        case .empty: removeAll()
        case .full: break
        case .list, .wideList:
            // At most a few hundred bits survive: save them, clear the buffer, and set them again.
            withUnsafeTemporaryAllocation(of: UInt16.self, capacity: view.count) { kept in
                var count = 0
                view.forEachBit { bit in
                    if contains(bit: bit) {
                        kept[count] = UInt16(truncatingIfNeeded: bit)
                        count += 1
                    }
                }
                removeAll()
                scatter(UnsafeBufferPointer(rebasing: kept[..<count]), into: words)
            }
        case .runs:
            let other = BlockBuffer(view)
            BitKernels.current.and(words, other.words, into: words)
        case .bitmap(let other): BitKernels.current.and(words, other, into: words)
        }
    }

    /// Removes the members of `view`.
    public mutating func subtract(_ view: BlockView) {
        switch view {
        case .empty: break
        case .full: removeAll()
        case .list(let list): clear(list, in: words)
        case .wideList(let bytes): clearWide(bytes, in: words)
        case .runs(let toggles): clear(runs: toggles, in: words)
        case .bitmap(let other): BitKernels.current.andNot(words, other, into: words)
        }
    }

    /// Clears the bits past 32,640. Lists come from storage, and a damaged list may name positions that are never
    /// issued.
    private func trim() {
        words[510] = 0
        words[511] = 0
    }
}
