// SPDX-License-Identifier: Apache-2.0
//
// The whole answer of a condition all of whose sets are short lists of ordinals: one merge over all
// blocks. Such lists have a few elements a block, and going block by block would cost more than the
// elements do. Rests on `TruthTable` and the kernels.

internal import MartletBits

/// Merges lists through a truth table of at most five inputs.
final class ListMerger {
    private let bits: UInt32
    /// The lists, copied and each followed by the sentinel.
    private var copies: [UnsafePointer<UInt32>] = []
    private var elements = 0
    /// Matching ordinals, once they have been asked for; the number of those that matched.
    private var result: UnsafeMutablePointer<UInt32>?
    private var resultCount = 0
    /// Results that have been yielded or skipped.
    private var passed = 0

    /// - Parameter table: over the slots whose lists will be given, in that order.
    init(_ table: TruthTable) { bits = table.bits }

    deinit {
        for copy in copies { copy.deallocate() }
        result?.deallocate()
    }

    var listCount: Int { copies.count }

    func give(_ list: UnsafeRawBufferPointer) {
        let count = list.count / 4
        let copy = UnsafeMutablePointer<UInt32>.allocate(capacity: count + 1)
        for index in 0..<count {
            (copy + index).initialize(
                to: UInt32(
                    littleEndian: list.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self)))
        }
        (copy + count).initialize(to: BitKernels.sentinel)
        copies.append(UnsafePointer(copy))
        elements += count
    }

    /// Results from `block` on, none of which has been yielded.
    func count(from block: Int) -> UInt64 {
        if result == nil, block == 0 { return UInt64(merge(into: nil)) }
        skip(to: block)
        return UInt64(resultCount - passed)
    }

    /// The first block not below `block` that has results.
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

    private func merge(into target: UnsafeMutablePointer<UInt32>?) -> Int {
        copies.withUnsafeBufferPointer {
            BitKernels.merge(truthTable: bits, lists: $0, into: target)
        }
    }

    private static func block(_ ordinal: UInt32) -> Int {
        Int(UInt32(littleEndian: ordinal) >> BlockGeometry.strideShift)
    }
}
