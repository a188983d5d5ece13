// SPDX-License-Identifier: Apache-2.0
//
// One project's instances while it is checked: each one's app, and a sum over the topics that it subscribes to. Comparing sums
// instead of pairs, two indexes of any size take one pass each and no search; only if sums differ do we search for the
// cause. Memory: ten bytes and a bit per ordinal of the blocks that have instances. Rests on MartletBits.

import MartletBits

struct Universe {
    /// Where each block's entries begin; `noPlace` if it has no instances. As long as the highest block that has some.
    private var places: [Int] = []
    private var apps: [UInt16] = []
    private var sums: [UInt64] = []
    /// Instances in the inactive set, a bit each. Empty until there is one.
    private var inactive: [UInt64] = []
    private(set) var count: UInt64 = 0

    private static let noPlace = -1
    private static let stride = 1 << Int(BlockGeometry.strideShift)
    private static let nobody = UInt16.max
    /// Stands for the app of an instance whose record is unreadable. Above all app numbers.
    static let unknownApp = UInt32(UInt16.max - 1)

    /// Where a block's entries begin.
    private func place(ofBlock block: UInt32) -> Int? {
        guard Int(block) < places.count, case let place = places[Int(block)],
            place != Self.noPlace
        else { return nil }
        return place
    }

    private func index(_ ordinal: UInt32) -> Int? {
        place(ofBlock: ordinal >> BlockGeometry.strideShift).map {
            $0 + Int(ordinal & BlockGeometry.bitMask)
        }
    }

    mutating func insert(_ ordinal: UInt32, app: UInt32) {
        let block = ordinal >> BlockGeometry.strideShift
        let place = place(ofBlock: block) ?? addBlock(block)
        apps[place + Int(ordinal & BlockGeometry.bitMask)] = UInt16(min(app, Self.unknownApp))
        count += 1
    }

    private mutating func addBlock(_ block: UInt32) -> Int {
        if Int(block) >= places.count {
            places += repeatElement(Self.noPlace, count: Int(block) + 1 - places.count)
        }
        let place = apps.count
        places[Int(block)] = place
        apps += repeatElement(Self.nobody, count: Self.stride)
        sums += repeatElement(0, count: Self.stride)
        return place
    }

    func contains(_ ordinal: UInt32) -> Bool {
        index(ordinal).map { apps[$0] != Self.nobody } ?? false
    }

    // MARK: Sets

    /// Compares a set's members with the instances.
    ///
    /// - Parameters:
    ///   - members: members in one block.
    ///   - belongs: whether an app's instances belong in the set, by app number; nil: all do.
    ///   - stranger: called with each member that is no instance, or whose app doesn't belong in the set.
    /// - Returns: how many members belong in the set.
    func count(
        _ members: BlockView, ofBlock block: UInt32, belongs: ((UInt32) -> Bool)?,
        stranger: (UInt32) -> Void
    ) -> UInt64 {
        var found: UInt64 = 0
        let first = block << BlockGeometry.strideShift
        guard let place = place(ofBlock: block) else {
            members.forEachBit { stranger(first | UInt32($0)) }
            return 0
        }
        apps.withUnsafeBufferPointer { apps in
            // Neighbours mostly have the same app.
            var last = (app: Self.nobody, belongs: false)
            members.forEachBit { bit in
                let app = apps[place + bit]
                if app != last.app {
                    last = (app, UInt32(app) == Self.unknownApp || belongs?(UInt32(app)) ?? true)
                }
                if app != Self.nobody, last.belongs {
                    found += 1
                } else {
                    stranger(first | UInt32(bit))
                }
            }
        }
        return found
    }

    /// Adds a topic to the sums of its subscribers.
    ///
    /// - Parameters:
    ///   - members: subscribers in one block.
    ///   - stranger: called with each subscriber that is no instance.
    mutating func add(
        topic: UInt32, to members: BlockView, ofBlock block: UInt32, stranger: (UInt32) -> Void
    ) {
        let first = block << BlockGeometry.strideShift
        guard let place = place(ofBlock: block) else {
            return members.forEachBit { stranger(first | UInt32($0)) }
        }
        let weight = Self.weight(topic)
        sums.withUnsafeMutableBufferPointer { sums in
            apps.withUnsafeBufferPointer { apps in
                members.forEachBit { bit in
                    if apps[place + bit] != Self.nobody {
                        sums[place + bit] &+= weight
                    } else {
                        stranger(first | UInt32(bit))
                    }
                }
            }
        }
    }

    /// Marks inactive instances.
    mutating func setInactive(_ members: BlockView, ofBlock block: UInt32) {
        guard let place = place(ofBlock: block) else { return }
        if inactive.count < apps.count / 64 {
            inactive += repeatElement(0, count: apps.count / 64 - inactive.count)
        }
        members.forEachBit { bit in
            inactive[(place + bit) / 64] |= 1 << UInt64((place + bit) % 64)
        }
    }

    func isInactive(_ ordinal: UInt32) -> Bool {
        guard !inactive.isEmpty, let index = index(ordinal) else { return false }
        return inactive[index / 64] >> UInt64(index % 64) & 1 != 0
    }

    // MARK: Lists of topics

    /// Compares an instance's sum with that of its list of topics, and clears it.
    /// - Returns: whether they are equal.
    mutating func settle(_ ordinal: UInt32, sum: UInt64) -> Bool {
        guard let index = index(ordinal) else { return false }
        defer { sums[index] = 0 }
        return sums[index] == sum
    }

    /// Calls `body` with each instance whose sum was not cleared: it has subscriptions, but no list.
    func forEachUnsettled(_ body: (UInt32) -> Void) {
        for (block, place) in places.enumerated() where place != Self.noPlace {
            for bit in 0..<Self.stride where sums[place + bit] != 0 {
                body(UInt32(block) << BlockGeometry.strideShift | UInt32(bit))
            }
        }
    }

    /// Spreads topic numbers over 64 bits, so different sets have different sums. Source: the finaliser of SplitMix64
    /// (Steele, Lea, Flood, 2014).
    static func weight(_ topic: UInt32) -> UInt64 {
        var z = (UInt64(topic) &+ 1) &* 0x9E37_79B9_7F4A_7C15
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
