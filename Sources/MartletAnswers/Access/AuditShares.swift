// SPDX-License-Identifier: Apache-2.0
//
// What stays of a full log: each kind of entries, those of a person and an action, has a fair share. A person who acts very
// often pushes out the oldest of these entries alone, and never those of others. Pure.

import FoundationEssentials

/// Decides what stays of a full log.
enum AuditShares {
    private struct Kind: Hashable {
        var who: String
        var action: String
    }

    /// The lines that stay, in their order.
    /// - Parameters:
    ///   - lines: lines with their entries; nil for a line that a crash has cut.
    ///   - bytesMax: bytes of all lines that stay.
    static func newest(
        _ lines: [(line: Data.SubSequence, entry: AuditEntry?)], bytesMax: Int
    ) -> [Data.SubSequence] {
        var places: [Kind: [Int]] = [:]
        for (place, (_, entry)) in lines.enumerated() {
            guard let entry else { continue }
            places[Kind(who: entry.who, action: entry.action), default: []].append(place)
        }
        func bytes(_ place: Int) -> Int { lines[place].line.count + 1 }
        let share = share(
            of: places.values.map { $0.reduce(0) { $0 + bytes($1) } }, bytesMax: bytesMax)
        var stay = Set<Int>()
        for own in places.values {
            var left = share
            for place in own.reversed() {
                left -= bytes(place)
                guard left >= 0 else { break }
                stay.insert(place)
            }
        }
        return lines.indices.filter { stay.contains($0) }.map { lines[$0].line }
    }

    /// The largest share with which all kinds have room: a kind that needs less leaves the rest to the others.
    private static func share(of sizes: [Int], bytesMax: Int) -> Int {
        var (left, rest) = (sizes.count, bytesMax)
        for size in sizes.sorted() {
            guard size <= rest / left else { return rest / left }
            rest -= size
            left -= 1
        }
        return bytesMax
    }
}
