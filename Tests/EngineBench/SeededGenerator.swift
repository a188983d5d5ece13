// SPDX-License-Identifier: Apache-2.0
//
// What tests of random histories ask of their randomness. Rests on SeededGenerator.

package import MartletBase

extension SeededGenerator {
    package mutating func chance(_ percent: Int) -> Bool { Int(next() % 100) < percent }

    package mutating func number(_ range: ClosedRange<Int>) -> Int {
        Int.random(in: range, using: &self)
    }

    package mutating func one<Choices: RandomAccessCollection>(
        of choices: Choices
    ) -> Choices.Element {
        choices[choices.index(choices.startIndex, offsetBy: Int(next() % UInt64(choices.count)))]
    }
}
