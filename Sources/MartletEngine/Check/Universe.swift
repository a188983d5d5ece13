// SPDX-License-Identifier: Apache-2.0
//
// The instances of one project during its check: for each the app, and a sum over the topics with the instance as a
// subscriber. The check compares sums instead of pairs, so two indexes of any size need one pass each and no search.
// Only for differing sums does the check search the cause. Memory: ten bytes for each ordinal of the blocks with
// instances. Rests on MartletBits.

import MartletBits

struct Universe {
    /// The index of a block's first entry.
    private var places: [UInt32: Int] = [:]
    private var apps: [UInt16] = []
    private var sums: [UInt64] = []
    private(set) var count: UInt64 = 0

    private static let nobody = UInt16.max
    /// The app of an instance whose record cannot be read. The value is above all app numbers.
    static let unknownApp = UInt32(UInt16.max - 1)

    private func index(_ ordinal: UInt32) -> Int? {
        places[ordinal >> BlockGeometry.strideShift].map {
            $0 + Int(ordinal & BlockGeometry.bitMask)
        }
    }

    mutating func insert(_ ordinal: UInt32, app: UInt32) {
        let block = ordinal >> BlockGeometry.strideShift
        if places[block] == nil {
            places[block] = apps.count
            let stride = 1 << Int(BlockGeometry.strideShift)
            apps.append(contentsOf: repeatElement(Self.nobody, count: stride))
            sums.append(contentsOf: repeatElement(0, count: stride))
        }
        apps[index(ordinal)!] = UInt16(min(app, Self.unknownApp))
        count += 1
    }

    /// The app number of an instance, or `unknownApp`; nil: there is no such instance.
    func app(of ordinal: UInt32) -> UInt16? {
        guard let index = index(ordinal), apps[index] != Self.nobody else { return nil }
        return apps[index]
    }

    func contains(_ ordinal: UInt32) -> Bool { app(of: ordinal) != nil }

    /// Adds a subscription to an instance's sum.
    mutating func add(topic: UInt32, to ordinal: UInt32) {
        if let index = index(ordinal) { sums[index] &+= Self.weight(topic) }
    }

    /// Compares an instance's sum with its list of topics, and clears the sum.
    /// - Returns: whether both are equal.
    mutating func settle(_ ordinal: UInt32, topics: some Sequence<UInt32>) -> Bool {
        guard let index = index(ordinal) else { return false }
        defer { sums[index] = 0 }
        return topics.reduce(0 as UInt64) { $0 &+ Self.weight($1) } == sums[index]
    }

    /// Calls `body` with each instance whose sum was not cleared: instances with subscriptions but without a list.
    func forEachUnsettled(_ body: (UInt32) -> Void) {
        for (block, place) in places {
            for bit in 0..<(1 << Int(BlockGeometry.strideShift)) where sums[place + bit] != 0 {
                body(block << BlockGeometry.strideShift | UInt32(bit))
            }
        }
    }

    /// Spreads topic numbers over 64 bits, so that different sets have different sums. Source: the finaliser of
    /// SplitMix64 (Steele, Lea, Flood, 2014).
    private static func weight(_ topic: UInt32) -> UInt64 {
        var z = (UInt64(topic) &+ 1) &* 0x9E37_79B9_7F4A_7C15
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
