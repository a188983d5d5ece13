// SPDX-License-Identifier: Apache-2.0
//
// How good a world's network is. Times are microseconds, chances are per thousand. Rests on nothing.

/// What connections of one world have to bear.
struct NetworkConditions {
    var delayMean: Int64 = 400
    /// A chunk that takes a hundred times as long.
    var slowChance = 0
    /// A send that the kernel takes only a part of.
    var shortSendChance = 0
    /// Bytes that arrive in several pieces.
    var splitChance = 0
    /// What a socket holds of what its peer has not read.
    var socketBytes = 64 * 1024
    /// An end that destroys what is on its way.
    var resetChance = 0

    /// Everything arrives at once and whole.
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
