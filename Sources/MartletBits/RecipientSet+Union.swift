// SPDX-License-Identifier: Apache-2.0
//
// Recipient sets made from ordinals and from other recipient sets. Rests on `RecipientSetBuilder`.

public import MartletBase

extension RecipientSet {
    /// The set of the given ordinals.
    ///
    /// - Parameter ordinals: in any order; repetitions are allowed.
    public static func of(_ ordinals: [Ordinal]) -> RecipientSet {
        var rest = ordinals.sorted()[...]
        var builder = RecipientSetBuilder()
        var members = BlockBuffer()
        while let block = rest.first?.blockIndex {
            members.removeAll()
            var count = 0
            while let next = rest.first, next.blockIndex == block {
                if members.insert(bit: next.bitIndex) { count += 1 }
                rest = rest.dropFirst()
            }
            builder.append(block: block, buffer: members, count: count)
        }
        return builder.finish()
    }

    /// The instances in any of the sets. If a single set has members, the result is that set, not a copy.
    public static func union(of sets: [RecipientSet]) -> RecipientSet {
        let sets = sets.filter { $0.count > 0 }
        guard sets.count > 1 else { return sets.first ?? .none }
        var next = [Int](repeating: 0, count: sets.count)
        var union = BlockBuffer()
        var builder = RecipientSetBuilder()
        while true {
            var lowest: UInt32?
            for (set, at) in zip(sets, next) where at < set.view.blockCount {
                lowest = min(lowest ?? .max, set.view.block(at: at).block)
            }
            guard let lowest else { return builder.finish() }
            var only: (view: BlockView, count: Int)?
            var foundCount = 0
            for (index, set) in sets.enumerated() where next[index] < set.view.blockCount {
                let found = set.view.block(at: next[index])
                guard found.block == lowest else { continue }
                next[index] += 1
                foundCount += 1
                if let first = only, foundCount == 2 { union.assign(first.view) }
                if foundCount == 1 { only = (found.view, found.count) }
                if foundCount > 1 { union.formUnion(found.view) }
            }
            if foundCount == 1, let only {
                builder.append(block: lowest, view: only.view, count: only.count)
            } else {
                builder.append(block: lowest, buffer: union, count: union.count)
            }
        }
    }

    /// The instances in both sets.
    public func intersection(_ other: RecipientSet) -> RecipientSet {
        filtered(by: other) { $0.formIntersection($1) }
    }

    /// The instances of the set without those in `other`.
    public func subtracting(_ other: RecipientSet) -> RecipientSet {
        filtered(by: other) { $0.subtract($1) }
    }

    private func filtered(
        by other: RecipientSet, _ form: (inout BlockBuffer, BlockView) -> Void
    ) -> RecipientSet {
        var builder = RecipientSetBuilder()
        var members = BlockBuffer()
        let view = view
        let others = other.view
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            members.assign(block.view)
            form(&members, others.view(ofBlock: block.block))
            let count = members.count
            if count > 0 { builder.append(block: block.block, buffer: members, count: count) }
        }
        return builder.finish()
    }
}
