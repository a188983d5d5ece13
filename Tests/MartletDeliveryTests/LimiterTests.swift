// SPDX-License-Identifier: Apache-2.0
//
// The limit on messages to one device, beside a naive model that keeps two buckets per device as whole numbers, under random
// histories with failing transactions (QUO-1). Rests on DeviceRates.

import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// Tokens of one bucket, counted in parts of which a token is `milliseconds` and a millisecond brings
/// `capacity`: whole numbers, whatever the limits.
private struct NaiveBucket {
    let capacity: Int64
    let milliseconds: Int64
    var parts: Int64
    var at: Int64 = 0

    init(capacity: Int, milliseconds: Int64) {
        self.capacity = Int64(capacity)
        self.milliseconds = milliseconds
        parts = Int64(capacity) * milliseconds
    }

    mutating func refill(_ now: Int64) {
        parts = min(capacity * milliseconds, parts + (now - at) * capacity)
        at = now
    }

    var hasToken: Bool { capacity == 0 || parts >= milliseconds }
    mutating func take() { if capacity > 0 { parts -= milliseconds } }

    /// By trying.
    func delay() -> Int64 {
        guard !hasToken else { return 0 }
        return (milliseconds - parts + capacity - 1) / capacity
    }
}

/// Everyone's buckets.
private struct NaiveRates {
    let perMinute: Int
    let perHour: Int
    var devices: [UInt32: (minute: NaiveBucket, hour: NaiveBucket)] = [:]

    mutating func take(_ ordinal: UInt32, _ now: Int64) -> Bool {
        var device =
            devices[ordinal] ?? (
                NaiveBucket(capacity: perMinute, milliseconds: 60_000),
                NaiveBucket(capacity: perHour, milliseconds: 3_600_000)
            )
        device.minute.refill(now)
        device.hour.refill(now)
        defer { devices[ordinal] = device }
        guard device.minute.hasToken, device.hour.hasToken else { return false }
        device.minute.take()
        device.hour.take()
        return true
    }

    /// Whole tokens of both buckets.
    func left(_ ordinal: UInt32, _ now: Int64) -> MessagesLeft {
        func left(_ bucket: NaiveBucket?, _ capacity: Int) -> UInt64? {
            guard capacity > 0 else { return nil }
            guard var bucket else { return UInt64(capacity) }
            bucket.refill(now)
            return UInt64(bucket.parts / bucket.milliseconds)
        }
        let device = devices[ordinal]
        return MessagesLeft(
            minute: left(device?.minute, perMinute), hour: left(device?.hour, perHour))
    }

    func delay(_ ordinal: UInt32) -> Int64 {
        guard let device = devices[ordinal] else { return 0 }
        return max(device.minute.delay(), device.hour.delay())
    }
}

/// `ordinals` is sorted.
private func set(of ordinals: [UInt32]) -> RecipientSet {
    var builder = RecipientSetBuilder()
    var rest = ordinals[...]
    while let first = rest.first {
        let block = Ordinal(first).blockIndex
        let members = rest.prefix { Ordinal($0).blockIndex == block }
        var buffer = BlockBuffer()
        for member in members { buffer.insert(bit: Ordinal(member).bitIndex) }
        builder.append(block: block, buffer: buffer, count: members.count)
        rest = rest.dropFirst(members.count)
    }
    return builder.finish()
}

private func members(of recipients: Recipients) -> [UInt32] {
    switch recipients {
    case .one(let ordinal): return [ordinal.rawValue]
    case .many(let set):
        var found: [UInt32] = []
        for index in 0..<set.view.blockCount {
            let block = set.view.block(at: index)
            block.view.forEachBit {
                found.append(Ordinal(block: block.block, bit: $0).rawValue)
            }
        }
        return found
    }
}

private let start = Instant(millisecondsSince1970: 1_800_000_000_000)
private let project = ProjectNumber(0)

@Suite("QUO-1: the limiter of devices")
struct LimiterTests {
    struct Setting: Sendable, CustomTestStringConvertible {
        var perMinute: Int
        var perHour: Int
        /// Milliseconds between commands, at most.
        var pauses: [Int64]
        var testDescription: String { "\(perMinute)/min, \(perHour)/h, pauses \(pauses)" }
    }

    /// Ordinals of several pages and blocks: 80 devices in all, most of them in one page.
    private static let ordinals: [UInt32] =
        (0..<40 as Range<UInt32>).map { $0 * 3 } + (0..<20 as Range<UInt32>).map { 1020 + $0 }
        + (0..<20 as Range<UInt32>).map { 32_768 * 2 + 5 + $0 }

    @Test(
        "QUO-1: whoever is over a limit is exactly whom a model of every device's buckets says, also after transactions that failed and while devices come and go",
        arguments: [
            Setting(perMinute: 5, perHour: 20, pauses: [0, 1, 3000, 12_000, 200_000]),
            Setting(perMinute: 240, perHour: 5000, pauses: [0, 1, 40]),
            Setting(perMinute: 7, perHour: 11, pauses: [0, 100, 9000, 400_000]),
            Setting(perMinute: 0, perHour: 9, pauses: [0, 1000, 100_000]),
            Setting(perMinute: 3, perHour: 0, pauses: [0, 1000, 30_000]),
            Setting(perMinute: 4, perHour: 6, pauses: [0, 86_400_000 * 20, 60_000]),
        ], 1...rounds(6) as ClosedRange<UInt64>)
    func model(setting: Setting, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var rates = DeviceRates(perMinute: setting.perMinute, perHour: setting.perHour)
        var model = NaiveRates(perMinute: setting.perMinute, perHour: setting.perHour)
        let topics = (0..<4).map { topic in
            RecipientSetAndMembers(
                Self.ordinals.filter { _ in topic == 0 || Int.random(in: 0..<3, using: &random) == 0
                })
        }
        var now: Int64 = 0
        var refusedCount = 0
        var armedCount = 0
        for _ in 0..<400 {
            let limit = setting.pauses.randomElement(using: &random)!
            now += Int64.random(in: 0...limit, using: &random)
            let fails = Int.random(in: 0..<5, using: &random) == 0
            let before = model
            let instant = Instant(rawValue: start.rawValue + now)
            for _ in 0..<Int.random(in: 1...25, using: &random) {
                let asked = Self.ordinals.randomElement(using: &random)!
                #expect(
                    rates.left(Ordinal(asked), in: project, at: instant) == model.left(asked, now))
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<6:
                    let topic = topics.randomElement(using: &random)!
                    let granted = rates.take(.many(topic.set), in: project, at: instant)
                    let expected = topic.members.filter { model.take($0, now) }
                    refusedCount += topic.members.count - expected.count
                    switch granted {
                    case .everyone: #expect(expected == topic.members)
                    case .some(let some): #expect(members(of: some) == expected)
                    case .nobody: Issue.record("A set is not one device.")
                    }
                case 6..<9:
                    let ordinal = Self.ordinals.randomElement(using: &random)!
                    let expected = model.take(ordinal, now)
                    switch rates.take(.one(Ordinal(ordinal)), in: project, at: instant) {
                    case .everyone: #expect(expected)
                    case .some: Issue.record("One device is all or nobody.")
                    case .nobody(let delay):
                        #expect(!expected)
                        #expect(Int64(delay) == model.delay(ordinal))
                        refusedCount += 1
                    }
                default:
                    let ordinal = Self.ordinals.randomElement(using: &random)!
                    rates.renew(Ordinal(ordinal), in: project, at: instant)
                    model.devices[ordinal] = nil
                }
            }
            if fails {
                rates.abandon()
                model = before
            } else {
                rates.committed()
            }
            if rates.state(of: project).isArmed { armedCount += 1 }
        }
        #expect(refusedCount > 0)
        #expect(armedCount > 0)
    }

    /// A set and its members.
    private struct RecipientSetAndMembers {
        let set: RecipientSet
        let members: [UInt32]
        init(_ members: [UInt32]) {
            self.members = members
            set = MartletDeliveryTests.set(of: members)
        }
    }

    @Test("QUO-1: 240 in a minute, then one every 250 ms; 5000 in an hour, then one every 720 ms")
    func documented() {
        var rates = DeviceRates(
            perMinute: Limits.deviceMessagesPerMinute, perHour: Limits.deviceMessagesPerHour)
        var now = start
        func count(_ attempts: Int) -> Int {
            (0..<attempts).count { _ in
                if case .everyone = rates.take(.one(Ordinal(9)), in: project, at: now) {
                    true
                } else {
                    false
                }
            }
        }
        #expect(count(300) == 240)
        now = Instant(rawValue: now.rawValue + 249)
        #expect(count(1) == 0)
        now = Instant(rawValue: now.rawValue + 1)
        #expect(count(2) == 1)
        // Minute after minute, until the hour's are used up: 5000 and what came back meanwhile.
        var total = 241
        for _ in 0..<60 {
            now = now.advanced(bySeconds: 60)
            total += count(300)
        }
        let passed = now.rawValue - start.rawValue
        #expect(total == 5000 + Int(passed / 720))
        guard case .nobody(let delay) = rates.take(.one(Ordinal(9)), in: project, at: now) else {
            Issue.record("There is no token left.")
            return
        }
        #expect(delay == UInt64(720 - passed % 720))
        // Another device, another project.
        #expect(
            {
                if case .everyone = rates.take(.one(Ordinal(8)), in: project, at: now) {
                    true
                } else {
                    false
                }
            }())
        // An hour later everybody's buckets are full, and none is kept.
        now = now.advanced(bySeconds: 3600)
        #expect(count(1) == 1)
        #expect(rates.state(of: project).isArmed == false)
    }

    @Test("QUO-1: a clock that is set back holds nobody up for long, and refills nothing")
    func clock() {
        var rates = DeviceRates(perMinute: 2, perHour: 0)
        func isTaken(_ seconds: Int64) -> Bool {
            let now = start.advanced(bySeconds: seconds)
            if case .everyone = rates.take(.one(Ordinal(1)), in: project, at: now) { return true }
            return false
        }
        #expect(isTaken(0))
        #expect(isTaken(0))
        #expect(!isTaken(0))
        #expect(!isTaken(-86_400))
        #expect(!isTaken(-86_400 + 29))
        #expect(isTaken(-86_400 + 30))
    }

    @Test("QUO-1: limits of 0 are none")
    func off() {
        var rates = DeviceRates(perMinute: 0, perHour: 0)
        for _ in 0..<20_000 {
            guard case .everyone = rates.take(.one(Ordinal(1)), in: project, at: start) else {
                Issue.record("There is no limit.")
                return
            }
        }
        #expect(rates.state(of: project).bytes == 0)
    }
}
