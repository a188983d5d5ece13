// SPDX-License-Identifier: Apache-2.0
//
// Seeded generators make every choice in a simulated world, so a seed determines the whole world. Rests on
// SeededGenerator.

import MartletBase

/// The choices of a world.
package struct Randomness: RandomNumberGenerator {
    private var generator: SeededGenerator

    package init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    package mutating func next() -> UInt64 { generator.next() }

    package mutating func chance(_ perThousand: Int) -> Bool {
        Int(next() % 1000) < perThousand
    }

    package mutating func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    package mutating func one<Choices: RandomAccessCollection>(
        of choices: Choices
    ) -> Choices.Element {
        choices[choices.index(choices.startIndex, offsetBy: Int(next() % UInt64(choices.count)))]
    }

    /// A pause, mostly short, now and then long: an exponential distribution, cut at ten times its mean.
    package mutating func pause(mean: Int64) -> Int64 {
        let unit = Double(next() >> 11) / Double(1 << 53)
        var (left, sum) = (unit, 0.0)
        // -ln(1 - x) by halving: exact enough, and equal on all machines.
        while left >= 0.5, sum < 10 {
            sum += 0.6931471805599453
            left = (left - 0.5) * 2
        }
        sum += left * 1.3862943611198906
        return Int64(Double(mean) * min(sum, 10)) + 1
    }
}
