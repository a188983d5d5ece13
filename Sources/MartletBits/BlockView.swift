// SPDX-License-Identifier: Apache-2.0
//
// One set inside one block, borrowed from wherever it is stored: the map of LMDB, a blob, or a
// working buffer. Nothing is copied and nothing owned, so a view is valid only as long as the read
// transaction or buffer it points into. Rests on the kernels.
//
// Alignment: lists and runs need 2 bytes (also wide lists, which are read unaligned), bitmaps 8.

/// A borrowed view of one set in one block.
public enum BlockView {
    /// No bit.
    case empty
    /// All 32,640 bits.
    case full
    /// The set bits, ascending and distinct.
    case list(UnsafeBufferPointer<UInt16>)
    /// Ordinals of this block as four little-endian bytes each, ascending and distinct; the low 15
    /// bits are the bit. This is a slice of a small topic's only row.
    case wideList(UnsafeRawBufferPointer)
    /// Where each run of set bits begins, and the first bit behind it, in turn, strictly ascending; at
    /// most 32,640, and an even number of them.
    case runs(UnsafeBufferPointer<UInt16>)
    /// 510 words.
    case bitmap(UnsafePointer<UInt64>)

    /// How many bits are set.
    @inlinable public var count: Int {
        switch self {
        case .empty: 0
        case .full: BlockGeometry.bitsPerBlock
        case .list(let list): list.count
        case .wideList(let bytes): bytes.count / 4
        case .runs(let toggles): Self.count(ofRuns: toggles)
        case .bitmap(let words): Self.count(of: words)
        }
    }

    /// How many bits are set, if that is known without looking at all of them.
    @inlinable public var knownCount: Int? {
        if case .bitmap = self { return nil }
        return count
    }

    /// How many elements a list has; nil for other forms.
    @inlinable package var listCount: Int? {
        switch self {
        case .list(let list): list.count
        case .wideList(let bytes): bytes.count / 4
        case .empty, .full, .runs, .bitmap: nil
        }
    }

    /// Whether a given bit is set.
    @inlinable public func contains(bit: Int) -> Bool {
        switch self {
        case .empty: return false
        case .full: return bit >= 0 && bit < BlockGeometry.bitsPerBlock
        case .list(let list):
            let index = Self.lowerBound(list, UInt16(truncatingIfNeeded: bit))
            return index < list.count && Int(list[index]) == bit
        case .wideList(let bytes):
            var low = 0
            var high = bytes.count / 4
            while low < high {
                let middle = (low + high) >> 1
                if Self.wideBit(bytes, middle) < bit { low = middle + 1 } else { high = middle }
            }
            return low < bytes.count / 4 && Self.wideBit(bytes, low) == bit
        case .runs(let toggles):
            // Up to the bit lies an odd number of toggles.
            let above = Self.lowerBound(toggles, UInt16(truncatingIfNeeded: bit &+ 1))
            return above & 1 != 0
        case .bitmap(let words):
            return words[(bit & 0x7FFF) >> 6] >> UInt64(bit & 63) & 1 != 0
        }
    }

    /// Calls `body` with every set bit, ascending.
    @inlinable public func forEachBit(_ body: (Int) -> Void) {
        switch self {
        case .empty: break
        case .full: for bit in 0..<BlockGeometry.bitsPerBlock { body(bit) }
        case .list(let list): for bit in list { body(Int(bit)) }
        case .wideList(let bytes):
            for index in 0..<bytes.count / 4 { body(Self.wideBit(bytes, index)) }
        case .runs(let toggles):
            for index in 0..<toggles.count / 2 {
                for bit in Self.run(toggles, index) { body(bit) }
            }
        case .bitmap(let words):
            for index in 0..<BlockGeometry.wordsPerBlock {
                var word = words[index]
                while word != 0 {
                    body(index &<< 6 &+ word.trailingZeroBitCount)
                    word &= word &- 1
                }
            }
        }
    }

    /// Writes the positions of the set bits, ascending, and returns how many. `target` has room
    /// for `count` and 32 more, which may be overwritten.
    public func writePositions(into target: UnsafeMutablePointer<UInt16>) -> Int {
        switch self {
        case .empty: return 0
        case .full:
            for bit in 0..<BlockGeometry.bitsPerBlock {
                target[bit] = UInt16(truncatingIfNeeded: bit)
            }
            return BlockGeometry.bitsPerBlock
        case .list(let list):
            if let base = list.baseAddress { target.update(from: base, count: list.count) }
            return list.count
        case .wideList(let bytes):
            for index in 0..<bytes.count / 4 {
                target[index] = UInt16(truncatingIfNeeded: Self.wideBit(bytes, index))
            }
            return bytes.count / 4
        case .runs:
            var count = 0
            forEachBit { bit in
                target[count] = UInt16(truncatingIfNeeded: bit)
                count &+= 1
            }
            return count
        case .bitmap(let words): return BitKernels.current.compress(words, into: target)
        }
    }

    /// Makes `buffer` hold this set.
    @inlinable public func write(into buffer: inout BlockBuffer) { buffer.assign(self) }

    /// How many bits both sets have.
    public func intersectionCount(with other: BlockView) -> Int {
        switch (self, other) {
        case (.empty, _), (_, .empty): return 0
        case (.full, let view), (let view, .full): return view.count
        case (.bitmap(let a), .bitmap(let b)): return BitKernels.current.countAnd(a, b)
        case (.runs(let a), .runs(let b)): return Self.commonCount(a, b)
        case (.runs, .bitmap(let words)):
            let runs = BlockBuffer(self)
            return BitKernels.current.countAnd(runs.words, words)
        case (.bitmap, _), (.runs, _): return other.intersectionCount(with: self)
        case (_, .runs(let toggles)):
            var at = 0
            var count = 0
            forEachBit { bit in
                while at < toggles.count, Int(toggles[at]) <= bit { at &+= 1 }
                count &+= at & 1
            }
            return count
        default:
            // `self` is a list. Merging steps past what a search would have to look for again.
            guard case .bitmap(let words) = other else { return Self.mergedCount(self, other) }
            var count = 0
            forEachBit { count &+= Int(words[$0 &>> 6] &>> UInt64($0 & 63) & 1) }
            return count
        }
    }

    // MARK: Parts

    public static func count(of words: UnsafePointer<UInt64>) -> Int {
        BitKernels.current.count(words)
    }

    /// The first index whose element is not below `value`.
    @inlinable static func lowerBound(_ list: UnsafeBufferPointer<UInt16>, _ value: UInt16) -> Int {
        var low = 0
        var high = list.count
        while low < high {
            let middle = (low &+ high) &>> 1
            if list[middle] < value { low = middle &+ 1 } else { high = middle }
        }
        return low
    }

    /// The bits of a run, none of which is past the block's even where what is stored is damaged.
    @inlinable static func run(
        _ toggles: UnsafeBufferPointer<UInt16>, _ index: Int
    ) -> Range<Int> {
        let first = min(Int(toggles[2 &* index]), BlockGeometry.bitsPerBlock)
        let end = min(Int(toggles[2 &* index &+ 1]), BlockGeometry.bitsPerBlock)
        return first..<max(first, end)
    }

    @inlinable static func count(ofRuns toggles: UnsafeBufferPointer<UInt16>) -> Int {
        var count = 0
        for index in 0..<toggles.count / 2 { count &+= run(toggles, index).count }
        return count
    }

    /// The bit of a wide list's element.
    @inlinable static func wideBit(_ bytes: UnsafeRawBufferPointer, _ index: Int) -> Int {
        let raw = bytes.loadUnaligned(fromByteOffset: index &* 4, as: UInt32.self)
        return Int(UInt32(littleEndian: raw) & BlockGeometry.bitMask)
    }

    /// Element of a list of either width.
    @inlinable package func listBit(_ index: Int) -> Int {
        switch self {
        case .list(let list): Int(list[index])
        case .wideList(let bytes): Self.wideBit(bytes, index)
        default: preconditionFailure("Only lists have elements.")
        }
    }

    /// What two runs have in common reaches from the higher begin to the lower end.
    private static func commonCount(
        _ a: UnsafeBufferPointer<UInt16>, _ b: UnsafeBufferPointer<UInt16>
    ) -> Int {
        var (i, j, count) = (0, 0, 0)
        while i < a.count / 2, j < b.count / 2 {
            let (x, y) = (run(a, i), run(b, j))
            count += max(
                0, min(x.upperBound, y.upperBound) - max(x.lowerBound, y.lowerBound))
            if x.upperBound <= y.upperBound { i += 1 }
            if y.upperBound <= x.upperBound { j += 1 }
        }
        return count
    }

    private static func mergedCount(_ a: BlockView, _ b: BlockView) -> Int {
        let (aCount, bCount) = (a.count, b.count)
        var (i, j, count) = (0, 0, 0)
        while i < aCount, j < bCount {
            let (x, y) = (a.listBit(i), b.listBit(j))
            if x == y { count += 1 }
            if x <= y { i += 1 }
            if y <= x { j += 1 }
        }
        return count
    }
}

extension BlockView {
    /// Writes this set as a bitmap to 512 words, of which the last two become zero.
    package func write(toWords words: UnsafeMutablePointer<UInt64>) {
        switch self {
        case .empty: words.update(repeating: 0, count: 512)
        case .full: words.update(repeating: ~0, count: BlockGeometry.wordsPerBlock)
        case .list(let list):
            words.update(repeating: 0, count: BlockGeometry.wordsPerBlock)
            scatter(list, into: words)
        case .wideList(let bytes):
            words.update(repeating: 0, count: BlockGeometry.wordsPerBlock)
            scatterWide(bytes, into: words)
        case .runs(let toggles):
            words.update(repeating: 0, count: BlockGeometry.wordsPerBlock)
            set(runs: toggles, in: words)
        case .bitmap(let other): words.update(from: other, count: BlockGeometry.wordsPerBlock)
        }
        words[510] = 0
        words[511] = 0
    }

    /// Writes where the runs of set bits begin and end; nil if there is no room for all of them. Finds
    /// out early where the bits are no runs.
    package func writeToggles(into target: UnsafeMutableBufferPointer<UInt16>) -> Int? {
        switch self {
        case .empty: return 0
        case .full:
            guard target.count >= 2 else { return nil }
            target[0] = 0
            target[1] = UInt16(truncatingIfNeeded: BlockGeometry.bitsPerBlock)
            return 2
        case .runs(let toggles):
            guard toggles.count <= target.count else { return nil }
            for index in toggles.indices { target[index] = toggles[index] }
            return toggles.count
        case .bitmap(let words): return toggles(of: words, into: target)
        case .list, .wideList:
            var written = 0
            var index = 0
            let end = count
            while index < end {
                guard written &+ 2 <= target.count else { return nil }
                let first = listBit(index)
                var last = first
                index &+= 1
                while index < end, listBit(index) == last &+ 1 {
                    last &+= 1
                    index &+= 1
                }
                target[written] = UInt16(truncatingIfNeeded: first)
                target[written &+ 1] = UInt16(truncatingIfNeeded: last &+ 1)
                written &+= 2
            }
            return written
        }
    }

    /// Sets or clears the bits of this list in 512 words, of which the last two become zero.
    package func apply(_ value: Bool, toWords words: UnsafeMutablePointer<UInt64>) {
        switch (self, value) {
        case (.list(let list), true): scatter(list, into: words)
        case (.list(let list), false): clear(list, in: words)
        case (.wideList(let bytes), true): scatterWide(bytes, into: words)
        case (.wideList(let bytes), false): clearWide(bytes, in: words)
        default: preconditionFailure("Only lists are applied.")
        }
        words[510] = 0
        words[511] = 0
    }

    /// How many elements of this list are set in 512 words.
    package func membersFound(inWords words: UnsafePointer<UInt64>) -> Int {
        switch self {
        case .list(let list): lookUp(list, in: words)
        case .wideList(let bytes): lookUpWide(bytes, in: words)
        default: preconditionFailure("Only lists are looked up.")
        }
    }
}
