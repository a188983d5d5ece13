// SPDX-License-Identifier: Apache-2.0
//
// Walks LMDB's trees page by page, without LMDB: a page that is not what it should be is an error here, and the end of the
// process there. The layout of pages and nodes is described in DataFile.

import MartletBase

extension DataFile {
    /// The record of a tree.
    struct Tree {
        var depth: UInt16
        var entryCount: UInt64
        var root: UInt64

        /// - Parameter record: 48 bytes.
        init(_ record: some RandomAccessCollection<UInt8>) {
            let record = Array(record)
            (depth, entryCount, root) = (record.u16(6), record.u64(32), record.u64(40))
        }
    }

    /// An entry of a leaf.
    struct Entry {
        /// The page of the leaf.
        var page: UInt64
        var flags: UInt16
        /// The value, or, if it is large, the number of its first page.
        var value: ArraySlice<UInt8>
        /// The length of the value, in bytes.
        var byteCount: Int
        var isLarge: Bool { flags & Flag.isLarge != 0 }
    }

    /// Requires that a checkpoint can be read: its trees have the shape that their records tell, keys rise, and no page is in
    /// two places. What the rows say is not looked at.
    ///
    /// - Parameter base: the checkpoint's meta page.
    /// - Throws: `StoreOpenError.damaged`.
    static func requireWhole(_ base: [UInt8], at path: String) throws(StoreOpenError) {
        guard var file = try DataFile(at: path) else { return }
        let meta = try file.meta(base, "checkpoint's")
        var taken = PageSet(lastPage: meta.lastPage)
        func take(_ pages: ClosedRange<UInt64>) throws(StoreOpenError) {
            guard taken.insert(pages) else { throw file.notWhole(pages.lowerBound) }
        }
        try file.forEachEntry(of: meta.free, meta, isFree: true, pages: take) {
            (entry) throws(StoreOpenError) in
            for page in try file.freePages(entry) { try take(page...page) }
        }
        try file.forEachEntry(of: meta.main, meta, pages: take) { (entry) throws(StoreOpenError) in
            guard entry.flags & Flag.isTree != 0 else { return }
            guard entry.value.count == 48 else { throw file.notWhole(entry.page) }
            try file.forEachEntry(of: Tree(entry.value), meta, pages: take)
        }
    }

    private func notWhole(_ page: UInt64) -> StoreOpenError {
        damaged("page \(page) is not what it should be")
    }

    /// A page of a tree to be walked, and the keys between which its keys lie.
    private struct Step {
        var page: UInt64
        var depth: UInt16
        var from: [UInt8]?
        var to: [UInt8]?
    }

    /// Calls `body` for the entries of a tree. The order is not that of the keys.
    /// - Parameters:
    ///   - isFree: whether the tree is that of free pages, whose keys are numbers.
    ///   - pages: called with the pages of the tree and of its large values.
    func forEachEntry(
        of tree: Tree, _ meta: Meta, isFree: Bool = false,
        pages: (ClosedRange<UInt64>) throws(StoreOpenError) -> Void,
        _ body: (Entry) throws(StoreOpenError) -> Void = { _ in }
    ) throws(StoreOpenError) {
        guard tree.root != Self.noPage else { return }
        var steps = [Step(page: tree.root, depth: 1)]
        var (pageCount, entryCount) = (UInt64(0), UInt64(0))
        while let step = steps.popLast() {
            pageCount += 1
            let page = try page(step.page, meta)
            let isBranch = page.u16(10) & Flag.branch != 0
            // A way that leads to itself is longer than the tree is deep, or has more pages than there are.
            guard isBranch == (step.depth < tree.depth), step.depth <= Self.depthMax,
                pageCount <= self.pageCount
            else { throw notWhole(step.page) }
            try pages(step.page...step.page)
            let count = (Int(page.u16(12)) - Self.headerBytes) / 2
            var before = step.from
            let first = steps.count
            for index in 0..<count {
                let node = Int(page.u16(Self.headerBytes + 2 * index))
                guard node + 8 <= page.count, node + 8 + Int(page.u16(node + 6)) <= page.count
                else { throw notWhole(step.page) }
                let start = node + 8 + Int(page.u16(node + 6))
                let low = UInt64(page.u16(node)) | UInt64(page.u16(node + 2)) << 16
                let flags = page.u16(node + 4)
                // The first key of a branch stands for all that are lower.
                let isLowest = isBranch && index == 0
                let key = isLowest ? step.from : Array(page[(node + 8)..<start])
                if !isLowest, let key {
                    let isHigher = before.map { Self.isAscending($0, key, isFree: isFree) } ?? true
                    // The first key of a leaf may be the one that leads to it.
                    guard isHigher || index == 0 && before == key,
                        step.to.map({ Self.isAscending(key, $0, isFree: isFree) }) ?? true
                    else { throw notWhole(step.page) }
                }
                if isBranch {
                    if index > 0 { steps[steps.count - 1].to = key }
                    steps.append(
                        Step(
                            page: low | UInt64(flags) << 32, depth: step.depth + 1, from: key,
                            to: step.to))
                } else {
                    entryCount += 1
                    let isLarge = flags & Flag.isLarge != 0
                    let end = start + (isLarge ? 8 : Int(low))
                    guard end <= page.count else { throw notWhole(step.page) }
                    if isLarge { try pages(largePages(page.u64(start), Int(low), meta)) }
                    try body(
                        Entry(
                            page: step.page, flags: flags, value: page[start..<end],
                            byteCount: Int(low)))
                }
                before = key
            }
            guard !isBranch || steps.count > first else { throw notWhole(step.page) }
        }
        guard entryCount == tree.entryCount else {
            throw damaged("a tree has \(entryCount) entries instead of \(tree.entryCount)")
        }
    }

    private static func isAscending(_ first: [UInt8], _ second: [UInt8], isFree: Bool) -> Bool {
        guard isFree else { return first.lexicographicallyPrecedes(second) }
        return first.count == 8 && second.count == 8 && first.u64(0) < second.u64(0)
    }

    /// The pages of a large value.
    private func largePages(
        _ first: UInt64, _ count: Int, _ meta: Meta
    ) throws(StoreOpenError) -> ClosedRange<UInt64> {
        let pages = UInt64((Self.headerBytes + count - 1) / pageBytes + 1)
        guard first >= 2, first <= meta.lastPage, pages <= meta.lastPage - first + 1,
            first + pages <= pageCount
        else { throw damaged("page \(first), which it needs, is not in it: it was cut off") }
        let header = try bytes(at: Int(first) * pageBytes, count: Self.headerBytes)
        guard header.u64(0) == first, header.u16(10) & Flag.overflow != 0 else {
            throw notWhole(first)
        }
        return first...(first + pages - 1)
    }

    /// The pages of a list of free pages: its length, followed by their numbers.
    func freePages(_ entry: Entry) throws(StoreOpenError) -> [UInt64] {
        var list = entry.value
        if entry.isLarge {
            let first = entry.value.u64(0)
            guard first < pageCount,
                Int(pageCount - first) * pageBytes >= Self.headerBytes + entry.byteCount
            else { throw damaged("page \(first), which it needs, is not in it: it was cut off") }
            let start = Int(first) * pageBytes + Self.headerBytes
            list = try bytes(at: start, count: entry.byteCount)[...]
        }
        let numbers = stride(from: 0, to: list.count / 8 * 8, by: 8).map { list.u64($0) }
        guard list.count % 8 == 0, let length = numbers.first,
            length <= UInt64(numbers.count - 1)
        else {
            throw damaged(
                "the list of free pages on page \(entry.page) is not what it should be")
        }
        return Array(numbers.dropFirst().prefix(Int(length)))
    }
}

/// Pages that were found in one place.
private struct PageSet {
    private let lastPage: UInt64
    private var words: [UInt64]

    /// Pages 0 and 1 are the meta pages.
    init(lastPage: UInt64) {
        self.lastPage = lastPage
        words = [UInt64](repeating: 0, count: Int(lastPage / 64) + 1)
        words[0] = 3
    }

    /// - Returns: false if a page was there before, or is beyond the last one.
    mutating func insert(_ pages: ClosedRange<UInt64>) -> Bool {
        guard pages.upperBound <= lastPage else { return false }
        for page in pages {
            let bit = UInt64(1) << (page % 64)
            guard words[Int(page / 64)] & bit == 0 else { return false }
            words[Int(page / 64)] |= bit
        }
        return true
    }
}
