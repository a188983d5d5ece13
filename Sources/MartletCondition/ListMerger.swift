// SPDX-License-Identifier: Apache-2.0
//
// Computes the whole answer of a condition over short lists of ordinals, in one merge over all blocks. The lists
// have few elements per block, so walking block by block would cost more than the elements. The count for one or
// two lists is arithmetic on their lengths and on the number of common ordinals, without a merge. Rests on
// `TruthTable` and the kernels.

internal import MartletBits

/// Merges lists through a truth table of at most five inputs.
final class ListMerger {
    private let bits: UInt64
    /// The given lists, each valid as long as the source's transaction.
    private var lists: [UnsafeRawBufferPointer] = []
    private var elements = 0
    /// Matching ordinals, once computed; `resultCount` is their number.
    private var result: UnsafeMutablePointer<UInt32>?
    private var resultCount = 0
    /// The number of results that were yielded or skipped.
    private var passed = 0

    /// - Parameter bits: the table over the slots, in the order in which their lists will be given.
    init(_ bits: UInt64) { self.bits = bits }

    deinit { result?.deallocate() }

    var listCount: Int { lists.count }

    func give(_ list: UnsafeRawBufferPointer) {
        lists.append(list)
        elements += list.count / 4
    }

    /// The number of results from `block` on; none was yielded before.
    func count(from block: Int) -> UInt64 {
        if result == nil, block == 0 { return UInt64(countAll()) }
        skip(to: block)
        return UInt64(resultCount - passed)
    }

    /// The first block with results that is not below `block`.
    func next(from block: Int) -> EvaluatedBlock? {
        skip(to: block)
        guard let result, passed < resultCount else { return nil }
        let found = Self.block(result[passed])
        let start = passed
        while passed < resultCount, Self.block(result[passed]) == found { passed += 1 }
        let slice = UnsafeRawBufferPointer(
            UnsafeBufferPointer(start: result + start, count: passed - start))
        return EvaluatedBlock(
            block: UInt32(found), view: .wideList(slice), count: passed - start)
    }

    private func skip(to block: Int) {
        if result == nil {
            let target = UnsafeMutablePointer<UInt32>.allocate(capacity: elements + 1)
            resultCount = merge(into: target)
            for index in 0..<resultCount { target[index] = target[index].littleEndian }
            result = target
        }
        while passed < resultCount, Self.block(result![passed]) < block { passed += 1 }
    }

    private func countAll() -> Int {
        guard lists.count <= 2 else { return merge(into: nil) }
        let counts = lists.map { $0.count / 4 }
        if counts.count == 1 { return bits & 0b10 != 0 ? counts[0] : 0 }
        let common = BitKernels.current.countCommon(lists[0], lists[1])
        return (bits & 0b0010 != 0 ? counts[0] - common : 0)
            + (bits & 0b0100 != 0 ? counts[1] - common : 0) + (bits & 0b1000 != 0 ? common : 0)
    }

    /// Merges copies of the lists, each followed by the sentinel.
    private func merge(into target: UnsafeMutablePointer<UInt32>?) -> Int {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: elements + lists.count) { copies in
            withUnsafeTemporaryAllocation(
                of: UnsafePointer<UInt32>.self, capacity: lists.count
            ) { starts in
                var at = copies.baseAddress!
                for (index, list) in lists.enumerated() {
                    starts[index] = UnsafePointer(at)
                    let count = list.count / 4
                    if let start = list.baseAddress {
                        UnsafeMutableRawPointer(at).copyMemory(from: start, byteCount: count * 4)
                    }
                    for index in 0..<count { at[index] = UInt32(littleEndian: at[index]) }
                    at[count] = BitKernels.sentinel
                    at += count + 1
                }
                return BitKernels.merge(
                    truthTable: UInt32(truncatingIfNeeded: bits),
                    lists: UnsafeBufferPointer(starts), into: target)
            }
        }
    }

    private static func block(_ ordinal: UInt32) -> Int {
        Int(UInt32(littleEndian: ordinal) >> BlockGeometry.strideShift)
    }
}
