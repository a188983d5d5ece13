// SPDX-License-Identifier: Apache-2.0
//
// A disk with troubles: commits fail because the map is full or the disk fails, and snapshots cannot be opened. Rests
// on the store's faults.

import MartletEngine
import MartletRows
import MartletStore
import Synchronization

/// Decides which operations fail.
final class SimulatedDisk: Sendable {
    private struct State {
        var random: Randomness
        var isFaulty = false
        /// Full maps that may still be simulated. Each full map doubles the map, and the map's size has an end.
        var fullsLeft = 5
    }

    private let state: Mutex<State>
    private let commitChance: Int
    private let readChance: Int

    init(random: Randomness, commitChance: Int, readChance: Int) {
        state = Mutex(State(random: random))
        self.commitChance = commitChance
        self.readChance = readChance
    }

    func setFaulty(_ isFaulty: Bool) { state.withLock { $0.isFaulty = isFaulty } }

    /// Runs `look` without faults and without random numbers, so the world's course stays the same.
    func quietly<Result>(_ look: () -> Result) -> Result {
        let wasFaulty = state.withLock { state in
            defer { state.isFaulty = false }
            return state.isFaulty
        }
        defer { setFaulty(wasFaulty) }
        return look()
    }

    var faults: StoreFaults {
        StoreFaults(
            beforeRead: { [self] in
                state.withLock { state in
                    guard state.isFaulty, state.random.chance(readChance) else { return nil }
                    return StorageError(
                        operation: "begin read", code: 5, text: "simulated", isFull: false)
                }
            },
            beforeCommit: { [self] in
                state.withLock { state in
                    guard state.isFaulty, state.random.chance(commitChance) else { return nil }
                    let isFull = state.fullsLeft > 0 && state.random.chance(100)
                    if isFull { state.fullsLeft -= 1 }
                    return StorageError(
                        operation: "commit", code: 5, text: "simulated", isFull: isFull)
                }
            },
            // The simulated disk has room, so no room of the machine's memory is taken in advance.
            hasNoRoom: { false })
    }
}
