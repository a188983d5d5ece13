// SPDX-License-Identifier: Apache-2.0
//
// Seeded randomness and sets of every density in every form, for the tests of this module.

import MartletBase
import MartletBits
import TestSupport

enum Density: CaseIterable {
    case none, single, sparse, clustered, scattered, mixed, dense, full

    /// Each density with each, or without optimisation with one other.
    static var pairs: [(Density, Density)] {
        (0..<rounds(allCases.count)).flatMap { distance in
            allCases.indices.map { index in
                (allCases[index], allCases[(index + distance + 3) % allCases.count])
            }
        }
    }

    /// A random set of bits of one block.
    func members(_ random: inout SeededGenerator) -> Set<Int> {
        let all = 0..<BlockGeometry.bitsPerBlock
        switch self {
        case .none: return []
        case .single: return [Int.random(in: all, using: &random)]
        case .sparse: return Set((0..<40).map { _ in Int.random(in: all, using: &random) })
        case .clustered:
            return (0..<Int.random(in: 1...15, using: &random)).reduce(into: []) { set, _ in
                let first = Int.random(in: all, using: &random)
                let end = min(first + Int.random(in: 3...3000, using: &random), all.upperBound)
                set.formUnion(first..<end)
            }
        case .scattered: return Set((0..<900).map { _ in Int.random(in: all, using: &random) })
        case .mixed:
            // Runs of empty, full and random words.
            var set = Set<Int>()
            for word in 0..<BlockGeometry.wordsPerBlock {
                let bits: UInt64 =
                    switch random.next() % 4 {
                    case 0: ~0
                    case 1: random.next()
                    default: 0
                    }
                for bit in 0..<64 where bits >> UInt64(bit) & 1 != 0 { set.insert(word * 64 + bit) }
            }
            return set
        case .dense: return Set(all.filter { _ in random.next() % 16 != 0 })
        case .full: return Set(all)
        }
    }
}

extension BlockBuffer {
    init(members: Set<Int>) {
        self.init()
        for bit in members { insert(bit: bit) }
    }

    /// The set bits, found without the kernels.
    var members: Set<Int> {
        withBytes { bytes in Bitmap.members(of: bytes.bindMemory(to: UInt64.self)) }
    }
}

extension RecipientSet {
    /// Whether the blob passes the check of blobs from outside.
    var isSound: Bool { withBytes { RecipientSetView(validating: $0) != nil } }
}

enum Bitmap {
    /// The set bits of a block's 510 words.
    static func members(of words: UnsafeBufferPointer<UInt64>) -> Set<Int> {
        var set = Set<Int>()
        for word in 0..<BlockGeometry.wordsPerBlock where words[word] != 0 {
            for bit in 0..<64 where words[word] >> UInt64(bit) & 1 != 0 {
                set.insert(word * 64 + bit)
            }
        }
        return set
    }
}

/// 512 words for the kernels, alive until the end of the scope that holds them.
struct WordBlock: ~Copyable {
    let words: UnsafeMutablePointer<UInt64>

    init(members: Set<Int> = []) {
        words = .allocate(capacity: 512)
        words.initialize(repeating: 0, count: 512)
        for bit in members { words[bit / 64] |= 1 << UInt64(bit % 64) }
    }

    deinit { words.deallocate() }

    var members: Set<Int> { Bitmap.members(of: UnsafeBufferPointer(start: words, count: 510)) }
}

/// Calls `body` with every form of view that can hold a set.
func withForms(of members: Set<Int>, block: UInt32 = 3, _ body: (BlockView) throws -> Void) rethrows
{
    let sorted = members.sorted()
    if members.isEmpty { try body(.empty) }
    if members.count == BlockGeometry.bitsPerBlock { try body(.full) }
    try sorted.map { UInt16($0) }.withUnsafeBufferPointer { try body(.list($0)) }
    // Ordinals at an address that is 2 more than a multiple of 4: wide lists need no alignment.
    let raw = UnsafeMutableRawBufferPointer.allocate(byteCount: sorted.count * 4 + 2, alignment: 8)
    defer { raw.deallocate() }
    for (index, bit) in sorted.enumerated() {
        let ordinal = (block << 15 | UInt32(bit)).littleEndian
        (raw.baseAddress! + 2 + index * 4).storeBytes(of: ordinal, as: UInt32.self)
    }
    try body(.wideList(UnsafeRawBufferPointer(rebasing: raw[2...])))
    try Runs.toggles(of: sorted).withUnsafeBufferPointer { try body(.runs($0)) }
    try BlockBuffer(members: members).withView { try body($0) }
}

/// Runs, found one member after the other.
enum Runs {
    /// - Parameter members: ascending.
    static func toggles(of members: [Int]) -> [UInt16] {
        var toggles: [UInt16] = []
        for member in members {
            if let end = toggles.last, Int(end) == member {
                toggles[toggles.count - 1] += 1
            } else {
                toggles += [UInt16(member), UInt16(member + 1)]
            }
        }
        return toggles
    }

    /// Members of one block in at most `count` runs, some of which touch the block's borders, and some
    /// of which begin where those of other sets end.
    static func members(_ count: Int, _ random: inout SeededGenerator) -> Set<Int> {
        var members = Set<Int>()
        for _ in 0..<count {
            let grid = random.next() % 2 == 0 ? 1 : 320
            let first = Int.random(in: 0..<BlockGeometry.bitsPerBlock / grid, using: &random) * grid
            let length = Int.random(in: 1...1500, using: &random) * (grid == 1 ? 1 : 320) % 6000 + 1
            members.formUnion(first..<min(first + length, BlockGeometry.bitsPerBlock))
        }
        if random.next() % 4 == 0 { members.insert(0) }
        if random.next() % 4 == 0 { members.insert(BlockGeometry.bitsPerBlock - 1) }
        return members
    }
}
