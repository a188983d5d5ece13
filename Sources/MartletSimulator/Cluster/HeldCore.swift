// SPDX-License-Identifier: Apache-2.0
//
// A core for the threads of a world. The threads run one after the other, and a thread wakes another thread of its core
// sooner than a thread of another core. A world takes two thirds of the time. Rests on CAffinity.

import CAffinity
import Synchronization

/// Keeps a thread, and the threads started by it, on a core.
struct HeldCore {
    /// Cores that the system may have, in bits.
    private static let coresMax = 1024
    /// The count of worlds with a core so far. The count chooses the core of the next world.
    private static let turns = Atomic(0)

    /// The cores of the thread before; empty: the system does not tell.
    private let former: [UInt8]

    init() {
        var cores = [UInt8](repeating: 0, count: Self.coresMax / 8)
        let count = martlet_get_cores(&cores, UInt(cores.count))
        former = count > 0 ? Array(cores.prefix(count)) : []
        let numbers = (0..<8 * former.count).filter { [former] in
            former[$0 / 8] >> ($0 % 8) & 1 == 1
        }
        guard !numbers.isEmpty else { return }
        let turn = Self.turns.add(1, ordering: .relaxed).oldValue
        let number = numbers[turn % numbers.count]
        var single = [UInt8](repeating: 0, count: former.count)
        single[number / 8] = 1 << (number % 8)
        // A failure leaves the thread as it was, which is slower and no worse.
        _ = martlet_set_cores(single, UInt(single.count))
    }

    func giveBack() {
        guard !former.isEmpty else { return }
        _ = martlet_set_cores(former, UInt(former.count))
    }
}
