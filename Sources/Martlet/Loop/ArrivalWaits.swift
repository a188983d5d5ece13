// SPDX-License-Identifier: Apache-2.0
//
// Bounds of the waits of a busy loop (`Loop.awaitArrivals`). Peers on the same machine answer within a wait. Peers on
// other machines answer later, so turns without a wait follow a wait in vain. Rests on no other type.

/// When a loop waits for arrivals. Each wait in vain doubles the number of turns before the next wait.
package struct ArrivalWaits {
    /// Wait for each send of the last turn. A send costs 3–4 µs of CPU, so a wait costs a tenth at most.
    package static let nanosecondsPerSend = 300
    /// Longest wait. An answer from another core of the machine takes 10 to 20 µs.
    package static let nanosecondsMax = 20_000
    /// Fewest sends of a turn before a wait: a shorter wait would end before any answer.
    package static let sendsMin = 24
    /// Most turns without a wait after a wait in vain.
    package static let restMax = 16

    private var rest = 0
    private var restLeft = 0

    package init() {}

    /// The wait before the next turn.
    /// - Parameter sends: sends of the last turn.
    /// - Returns: nanoseconds; 0: no wait.
    package mutating func next(afterSends sends: Int) -> Int {
        guard sends >= Self.sendsMin else { return 0 }
        guard restLeft == 0 else {
            restLeft -= 1
            return 0
        }
        return min(sends * Self.nanosecondsPerSend, Self.nanosecondsMax)
    }

    /// Notes whether a wait brought more arrivals.
    package mutating func ended(hasBrought: Bool) {
        rest = hasBrought ? 0 : min(max(2 * rest, 1), Self.restMax)
        restLeft = rest
    }
}
