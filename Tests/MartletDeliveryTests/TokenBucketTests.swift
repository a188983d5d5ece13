// SPDX-License-Identifier: Apache-2.0
//
// The bucket of QUO-3 and QUO-4 against a naive model that counts tokens in whole parts, under random
// requests, pauses and clocks. Rests on TokenBucket.

import MartletBase
import MartletDelivery
import MartletEngine
import Testing

/// Tokens in parts of which a token is `milliseconds` and a millisecond brings `capacity`.
private struct NaiveTokens {
    let capacity: Int64
    let milliseconds: Int64
    var parts: Int64

    init(capacity: Int, milliseconds: Int64) {
        self.capacity = Int64(capacity)
        self.milliseconds = milliseconds
        parts = Int64(capacity) * milliseconds
    }

    var full: Int64 { capacity * milliseconds }

    mutating func wait(_ passed: Int64) { parts = min(full, parts + passed * capacity) }

    /// Parts that must be there for so many tokens: a full bucket is enough for any number.
    func needed(_ count: Int) -> Int64 { min(Int64(count) * milliseconds, full) }

    /// Milliseconds until there are so many parts.
    func wait(for needed: Int64) -> Int64 {
        needed <= parts ? 0 : (needed - parts + capacity - 1) / capacity
    }
}

private let start = Instant(millisecondsSince1970: 1_800_000_000_000)

@Suite("QUO-3, QUO-4: a bucket of tokens")
struct TokenBucketTests {
    struct Setting: Sendable, CustomTestStringConvertible {
        var count: Int
        var milliseconds: UInt64
        var takenMax: Int
        var pauseMax: Int64
        var testDescription: String { "\(count) in \(milliseconds) ms" }
    }

    static let settings = [
        Setting(count: 3000, milliseconds: 1000, takenMax: 1000, pauseMax: 300),
        Setting(count: 400, milliseconds: 60_000, takenMax: 3, pauseMax: 400),
        Setting(count: 7, milliseconds: 1000, takenMax: 3, pauseMax: 400),
        Setting(count: 1, milliseconds: 60_000, takenMax: 1, pauseMax: 50_000),
        Setting(count: 10, milliseconds: 1000, takenMax: 25, pauseMax: 2000),
        Setting(count: 1_500_000, milliseconds: 60_000, takenMax: 200_000, pauseMax: 9000),
        Setting(count: 999_999_937, milliseconds: 60_000, takenMax: 99_999_999, pauseMax: 4000),
        Setting(count: 1_000_000_000, milliseconds: 1000, takenMax: 999_999_999, pauseMax: 900),
    ]

    @Test(
        "QUO-3 QUO-4 what is taken, refused, left, and to be waited for is exactly what a model says",
        arguments: settings, 1...5 as ClosedRange<UInt64>)
    func model(setting: Setting, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var bucket = TokenBucket(
            count: setting.count, milliseconds: setting.milliseconds, at: start)
        var model = NaiveTokens(
            capacity: setting.count, milliseconds: Int64(setting.milliseconds))
        var now = start
        var refusedCount = 0
        for _ in 0..<3000 {
            let pause =
                Int.random(in: 0..<3, using: &random) == 0
                ? 0 : Int64.random(in: 0...setting.pauseMax, using: &random)
            now = Instant(rawValue: now.rawValue + pause)
            model.wait(pause)
            let count = Int.random(in: 1...setting.takenMax, using: &random)
            let delay = model.wait(for: model.needed(count))
            #expect(bucket.take(count, at: now) == UInt64(delay))
            if delay == 0 {
                model.parts -= Int64(count) * model.milliseconds
            } else {
                refusedCount += 1
            }
            #expect(
                bucket.remaining(at: now) == Int(max(0, model.parts) / model.milliseconds))
            #expect(bucket.untilFull(at: now) == UInt64(model.wait(for: model.full)))
            // The delay is the shortest: a millisecond earlier it is refused still.
            if delay > 1, Int.random(in: 0..<8, using: &random) == 0 {
                now = Instant(rawValue: now.rawValue + delay - 1)
                model.wait(delay - 1)
                #expect(bucket.take(count, at: now) == 1)
            }
        }
        #expect(refusedCount > 100)
    }

    @Test(
        "QUO-3 QUO-4 over any time no more is taken than is there at once and comes back meanwhile, and no more than a token less by whoever always asks",
        arguments: settings.filter { $0.takenMax <= $0.count }, 1...3 as ClosedRange<UInt64>)
    func windows(setting: Setting, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var bucket = TokenBucket(
            count: setting.count, milliseconds: setting.milliseconds, at: start)
        var taken: [(at: Int64, count: Int64)] = []
        var now: Int64 = 0
        for _ in 0..<400 {
            // Takes as much as there is, by and by.
            while true {
                let instant = Instant(rawValue: start.rawValue + now)
                let left = bucket.remaining(at: instant)
                guard left > 0 else { break }
                let count = Int.random(in: max(1, left / 2)...left, using: &random)
                #expect(bucket.take(count, at: instant) == 0)
                taken.append((now, Int64(count)))
            }
            now += Int64.random(in: 1...setting.pauseMax, using: &random)
        }
        let (capacity, milliseconds) = (Int64(setting.count), Int64(setting.milliseconds))
        for _ in 0..<2000 {
            let first = Int.random(in: 0..<taken.count, using: &random)
            let last = min(taken.count - 1, first + Int.random(in: 0..<60, using: &random))
            let sum = taken[first...last].reduce(0) { $0 + $1.count }
            let passed = taken[last].at - taken[first].at
            #expect((sum - capacity) * milliseconds <= passed * capacity)
        }
        // From the beginning on nothing was lost but what the full bucket could not hold.
        var model = NaiveTokens(capacity: setting.count, milliseconds: milliseconds)
        var before: Int64 = 0
        for one in taken {
            model.wait(one.at - before)
            model.parts -= one.count * milliseconds
            before = one.at
        }
        #expect(model.parts >= 0 && model.parts < milliseconds)
    }

    @Test(
        "QUO-4 more than the bucket holds is to be had when it is full, and comes back like the rest"
    )
    func larger() {
        var bucket = TokenBucket(count: 10, milliseconds: 1000, at: start)
        func at(_ milliseconds: Int64) -> Instant {
            Instant(rawValue: start.rawValue + milliseconds)
        }
        #expect(bucket.take(25, at: start) == 0)
        #expect(bucket.remaining(at: start) == 0 && bucket.untilFull(at: start) == 2500)
        #expect(bucket.take(1, at: start) == 1600)
        #expect(bucket.take(25, at: at(1000)) == 1500)
        #expect(bucket.take(1, at: at(1599)) == 1)
        #expect(bucket.take(1, at: at(1600)) == 0)
        #expect(bucket.take(25, at: at(2599)) == 1)
        #expect(bucket.take(25, at: at(2600)) == 0)
    }

    @Test("QUO-3 QUO-4 a clock that is set back neither gives tokens nor locks anybody out")
    func clockSetBack() {
        var bucket = TokenBucket(count: 60, milliseconds: 60_000, at: start)
        #expect(bucket.take(60, at: start) == 0)
        let hourAgo = start.advanced(bySeconds: -3600)
        #expect(bucket.take(1, at: hourAgo) == 1000)
        #expect(bucket.take(1, at: hourAgo.advanced(bySeconds: 1)) == 0)
        #expect(bucket.take(1, at: hourAgo.advanced(bySeconds: 1)) == 1000)
        // And one that is put far ahead fills it once.
        let farAhead = Instant(rawValue: .max / 2)
        #expect(bucket.take(60, at: farAhead) == 0)
        #expect(bucket.take(1, at: farAhead) == 1000)
    }
}
