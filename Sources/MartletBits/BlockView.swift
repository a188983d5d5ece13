// SPDX-License-Identifier: Apache-2.0
//
// One set inside one block, borrowed from its storage: the map of LMDB, a blob, or a working buffer. A view neither
// copies nor owns bytes, so it is valid only as long as the read transaction or buffer behind it. Rests on the
// kernels.
//
// Alignment: lists and runs need 2 bytes, bitmaps 8; wide lists need none, because they are read unaligned.

/// A borrowed view of one set in one block.
public enum BlockView {
    /// No bit is set.
    case empty
    /// All 32,640 bits are set.
    case full
    /// The positions of the set bits, ascending and distinct.
    case list(UnsafeBufferPointer<UInt16>)
    /// Ordinals of the block as four little-endian bytes each, ascending and distinct; the low 15 bits are the
    /// position. A small topic keeps all its ordinals in one row, and a wide list is a slice of the row.
    case wideList(UnsafeRawBufferPointer)
    /// Pairs of toggles: the first bit of a run, and the first bit behind the run. Toggles ascend strictly, are
    /// even in number, and are at most 32,640.
    case runs(UnsafeBufferPointer<UInt16>)
    /// A bitmap of 510 words.
    case bitmap(UnsafePointer<UInt64>)

    /// The number of set bits.
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

    /// The number of elements of a list or wide list; nil for other forms.
    @inlinable package var listCount: Int? {
        switch self {
        case .list(let list): list.count
        case .wideList(let bytes): bytes.count / 4
        case .empty, .full, .runs, .bitmap: nil
        }
    }

    /// Whether the bit is set.
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
            // A bit is set exactly if an odd number of toggles is not above the bit.
            let above = Self.lowerBound(toggles, UInt16(truncatingIfNeeded: bit &+ 1))
            return above & 1 != 0
        case .bitmap(let words):
            return Self.has(bit, words)
        }
    }

    /// Calls `body` with the position of every set bit, ascending.
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

    /// Writes the positions of the set bits, ascending. `target` has room for `count` positions and 32 more, which
    /// the call may overwrite.
    ///
    /// - Returns: the number of positions.
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

    /// Makes `buffer` hold the set.
    @inlinable public func write(into buffer: inout BlockBuffer) { buffer.assign(self) }

    /// The number of bits set in both views.
    public func intersectionCount(with other: BlockView) -> Int {
        switch (self, other) {
        case (.empty, _), (_, .empty): return 0
        case (.full, let view), (let view, .full): return view.count
        case (.bitmap(let a), .bitmap(let b)): return BitKernels.current.countAnd(a, b)
        case (.runs(let a), .runs(let b)): return Self.commonCount(a, b)
        case (.runs(let toggles), .bitmap(let words)):
            if count <= Self.countedByWordMax { return Self.commonCount(toggles, words) }
            let runs = BlockBuffer(self)
            return runs.withView { $0.intersectionCount(with: other) }
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
            // `self` is a list. For a second list, a merge is cheaper than a search per element.
            guard case .bitmap(let words) = other else { return Self.mergedCount(self, other) }
            var count = 0
            forEachBit { count &+= Self.has($0, words) ? 1 : 0 }
            return count
        }
    }

    // MARK: Parts

    /// The number of bits that are set in a bitmap of 510 words.
    public static func count(of words: UnsafePointer<UInt64>) -> Int {
        BitKernels.current.count(words)
    }

    /// Whether a bitmap of 510 words has the bit. A damaged list may name positions past the words. They are not
    /// read, because a stored bitmap ends with its last word.
    @inlinable package static func has(_ bit: Int, _ words: UnsafePointer<UInt64>) -> Bool {
        UInt(bitPattern: bit) < UInt(BlockGeometry.bitsPerBlock)
            && words[bit &>> 6] &>> UInt64(bit & 63) & 1 != 0
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

    /// The bits of a run, clamped to the block's bits because stored toggles may be damaged.
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

    /// The position of a wide list's element.
    @inlinable static func wideBit(_ bytes: UnsafeRawBufferPointer, _ index: Int) -> Int {
        let raw = bytes.loadUnaligned(fromByteOffset: index &* 4, as: UInt32.self)
        return Int(UInt32(littleEndian: raw) & BlockGeometry.bitMask)
    }

    /// The position of an element of a list or wide list.
    @inlinable package func listBit(_ index: Int) -> Int {
        switch self {
        case .list(let list): Int(list[index])
        case .wideList(let bytes): Self.wideBit(bytes, index)
        default: preconditionFailure("Only lists have elements.")
        }
    }

    /// Counts the common bits of two views with runs. The intersection of two runs reaches from the higher begin to
    /// the lower end.
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

    /// The most bits of runs that are counted word by word. A kernel is cheaper for more, though it needs a bitmap of the
    /// runs.
    private static let countedByWordMax = 1024

    /// Counts the bits of runs that a bitmap of 510 words has.
    private static func commonCount(
        _ toggles: UnsafeBufferPointer<UInt16>, _ words: UnsafePointer<UInt64>
    ) -> Int {
        var count = 0
        for index in 0..<toggles.count / 2 {
            var rest = run(toggles, index)
            while !rest.isEmpty {
                let (word, first) = (rest.lowerBound &>> 6, rest.lowerBound & 63)
                let end = min(rest.upperBound, (word &+ 1) &<< 6)
                let mask = ~(0 as UInt64) &>> UInt64(64 &- (end &- rest.lowerBound))
                count &+= (words[word] & mask &<< UInt64(first)).nonzeroBitCount
                rest = end..<rest.upperBound
            }
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
    /// Writes the set as a bitmap to 512 words, of which the last two become zero.
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

    /// Writes the toggles of the set's runs. Stops as soon as `target` is full, so the call is cheap for a set
    /// without runs.
    ///
    /// - Returns: the number of toggles; nil if `target` has no room for all of them.
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

    /// Sets or clears the list's bits in 512 words, of which the last two become zero.
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

    /// Counts the list's elements whose bit is set in 512 words.
    package func membersFound(inWords words: UnsafePointer<UInt64>) -> Int {
        switch self {
        case .list(let list): lookUp(list, in: words)
        case .wideList(let bytes): lookUpWide(bytes, in: words)
        default: preconditionFailure("Only lists are looked up.")
        }
    }
}
