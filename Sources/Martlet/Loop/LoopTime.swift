// SPDX-License-Identifier: Apache-2.0
//
// The clock of a loop. A loop that was away, because its process was frozen or got no processor, finds the messages of
// that time in the kernel. So its clock stands still meanwhile, and no deadline of a peer is over. Rests on no other type.

/// A loop's time since it began, read once in a turn.
struct LoopTime {
    /// With this many milliseconds between two turns the loop was away (OPS-7, NET-11). A loop waits at most a second for
    /// events, and a device may connect to another node before a lease ends.
    private static let awayMilliseconds: Int64 = 2000
    /// How many seconds the HELLOs of devices are held after an absence (OPS-7). What the kernel accepted meanwhile is
    /// read a few turns later.
    private static let returnSeconds: UInt32 = 2

    /// In milliseconds of the monotonic clock.
    private var began: Int64
    /// Milliseconds at the beginning of the turn.
    private var turn: Int64 = 0
    /// Seconds at the beginning of the turn.
    private(set) var second: UInt32 = 0
    /// OPS-7: the second before which HELLOs of devices are held, because the loop was away.
    private(set) var returnEnds: UInt32 = 0

    init(monotonic: Int64) { began = monotonic }

    /// Reads the clock. After an absence (NET-11) a second has passed, that of a tick.
    /// - Returns: whether another second has begun.
    mutating func beginTurn(at monotonic: Int64) -> Bool {
        let away = monotonic - began - turn
        let isBack = away > Self.awayMilliseconds
        if isBack { began += away - 1000 }
        turn = monotonic - began
        let before = second
        second = UInt32(turn / 1000)
        if isBack { returnEnds = second &+ Self.returnSeconds }
        return second != before
    }

    /// Seconds since the loop began.
    func seconds(at monotonic: Int64) -> UInt32 { UInt32((monotonic - began) / 1000) }
}
