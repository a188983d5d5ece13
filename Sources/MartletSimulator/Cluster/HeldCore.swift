// SPDX-License-Identifier: Apache-2.0
//
// A core for the threads of a world. They run one at a time, and a core wakes the next one sooner than another core does:
// worlds take two thirds of the time. Rests on CAffinity.

import CAffinity
import Synchronization

/// Keeps a thread, and the threads started by it, on a core.
struct HeldCore {
    /// Cores that the system may have, in bits.
    private static let coresMax = 1024
    /// Worlds that have taken a core: each takes the next one.
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
