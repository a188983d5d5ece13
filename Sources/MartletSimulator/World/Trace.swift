// SPDX-License-Identifier: Apache-2.0
//
// The events of a world: a hash on which two runs of a seed must agree, and words for a reader of a single run. Rests
// on SimulatedClock.

/// The record of a world's events.
final class Trace {
    /// FNV-1a, 64 bits (Source: Fowler, Noll, Vo).
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private let tell: ((String) -> Void)?
    private let clock: SimulatedClock

    init(clock: SimulatedClock, tell: ((String) -> Void)?) {
        self.clock = clock
        self.tell = tell
    }

    /// Whether the words have a reader.
    var isTold: Bool { tell != nil }

    func note(_ what: StaticString, _ first: Int, _ second: Int = 0, _ third: Int = 0) {
        what.withUTF8Buffer { mix(UnsafeRawBufferPointer($0)) }
        mix(UInt64(bitPattern: clock.now))
        mix(UInt64(bitPattern: Int64(first)))
        mix(UInt64(bitPattern: Int64(second)))
        mix(UInt64(bitPattern: Int64(third)))
        guard let tell else { return }
        var time = String(clock.now)
        time = String(repeating: " ", count: max(0, 10 - time.count)) + time
        tell("\(time) µs  \(what) \(first) \(second) \(third)")
    }

    /// Adds words to the latest note, for a reader. The hash stays.
    func explain(_ text: @autoclosure () -> String) { tell?("               " + text()) }

    func mix(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    private func mix(_ word: UInt64) { hash = (hash ^ word) &* 0x100_0000_01B3 }
}
