// SPDX-License-Identifier: Apache-2.0
//
// The quality of a world's network. Times are microseconds, chances are per thousand. Rests on Randomness.

/// Properties of all connections in a world.
struct NetworkConditions {
    var delayMean: Int64 = 400
    /// Chance of a chunk that takes a hundred times as long.
    var slowChance = 0
    /// Chance of a send that the kernel takes only in part.
    var shortSendChance = 0
    /// Chance of bytes that arrive in several pieces.
    var splitChance = 0
    /// Capacity of a socket for bytes that the peer has not read, in bytes.
    var socketBytes = 64 * 1024
    /// Chance of a close by the loop that destroys the bytes on their way.
    var resetChance = 0

    /// A network without troubles: bytes arrive whole and almost at once.
    static let perfect = NetworkConditions(delayMean: 20, socketBytes: 1 << 20)

    static func random(_ random: inout Randomness) -> NetworkConditions {
        guard !random.chance(150) else { return .perfect }
        return NetworkConditions(
            delayMean: random.one(of: [50, 400, 3000, 20_000]),
            slowChance: random.one(of: [0, 5, 30]),
            shortSendChance: random.one(of: [0, 100, 500]),
            splitChance: random.one(of: [0, 100, 500]),
            socketBytes: random.one(of: [700, 4096, 64 * 1024, 1 << 20]),
            resetChance: random.one(of: [0, 300, 700]))
    }
}
