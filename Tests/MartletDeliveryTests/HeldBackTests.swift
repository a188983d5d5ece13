// SPDX-License-Identifier: Apache-2.0
//
// What delivery holds back, drops, discards and brings forward: dialogues for each rule, and a seeded
// random one in which all of them happen at once, checked against what can be said without knowing
// how delivery works. Rests on Loopback.

import EngineBench
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Delivery that is held back")
struct HeldBackTests {
    private let address = Address(project: 0, ordinal: 1)

    private func limits(stored: Int = 0, keys: Int = 0, burst: Int = 0) -> BrokerLimits {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = stored
        limits.collapseKeysPerInstanceMax = keys
        limits.collapsibleBurst = burst
        return limits
    }

    @Test("PRI-1: a doze holds normal messages back, not high ones, and releases them in order")
    func doze() {
        let world = Loopback(capacity: 1, limits: limits(stored: 100))
        world.connect(address, at: 0)
        world.settle()
        world.setState(0, .doze)
        for number in 0..<6 {
            world.accept(
                0, to: [1], bodyBytes: 5, single: number < 3,
                priority: number % 2 == 0 ? .normal : .high)
        }
        world.accept(0, to: [1], bodyBytes: 5, isStored: false)
        world.accept(0, to: [1], bodyBytes: 5, isStored: false, priority: .high)
        world.settle()
        #expect(world.connections[0]!.stored == [2, 4, 6])
        #expect(world.connections[0]!.passing.count == 1, "TTL-2: now or never")
        world.setState(0, .background)
        world.accept(0, to: [1], bodyBytes: 5)
        world.settle()
        #expect(world.connections[0]!.stored == [2, 4, 6, 1, 3, 5, 7])
    }

    @Test("TTL-4: what came late is not acknowledged by what was sent before it came")
    func late() {
        let world = Loopback(capacity: 1, limits: limits(stored: 100))
        world.connect(address, at: 0, state: .doze)
        world.settle()
        world.accept(0, to: [1], bodyBytes: 5)
        world.accept(0, to: [1], bodyBytes: 5, priority: .high)
        world.settle()
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.stored == [2, 1])
        // Sent when only the second had come.
        #expect(world.acknowledge(0, through: 2))
        world.takeAcknowledgements()
        world.close(0)
        world.takeAcknowledgements()
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.stored == [1])
        #expect(world.acknowledge(0, through: 1))
        world.close(0)
        world.takeAcknowledgements()
        #expect(world.watermark(address) == 2)
    }

    @Test("COL-4: past the burst collapsible messages wait for a token each, and only they")
    func throttle() {
        let world = Loopback(capacity: 1, limits: limits(burst: 3))
        world.connect(address, at: 0)
        world.settle()
        // As one run, so that the run is taken apart.
        for number in 0..<5 {
            world.accept(
                0, to: [1], bodyBytes: 5, single: true, key: number == 1 ? nil : UInt64(number))
        }
        world.accept(0, to: [1], bodyBytes: 5, isStored: false, key: 1)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4])
        #expect(world.connections[0]!.passing.count == 1, "QUO-6")
        world.accept(0, to: [1], bodyBytes: 5, key: 9)
        world.accept(0, to: [1], bodyBytes: 5, key: 9)
        world.accept(0, to: [1], bodyBytes: 5)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4, 8])
        #expect(world.delivery.nextWake == Instant(rawValue: 180_000))
        world.now = Instant(rawValue: 179_999)
        world.settle()
        #expect(world.connections[0]!.stored.count == 5)
        world.now = Instant(rawValue: 180_000)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4, 8, 5])
        // The bucket goes with the instance, not with the connection.
        world.close(0)
        world.takeAcknowledgements()
        world.connect(address, at: 0, taken: [1, 2, 3, 4, 5, 8])
        world.settle()
        #expect(world.connections[0]!.stored == [])
        world.now = Instant(rawValue: 360_000)
        world.settle()
        #expect(world.connections[0]!.stored == [7], "COL-1: the sixth was collapsed meanwhile")
        world.now = Instant(rawValue: 540_000)
        world.settle()
        #expect(world.delivery.nextWake == nil)
    }

    @Test("COL-4: a clock that is set back delays the next token by no more than it takes to come")
    func clockSetBack() {
        let world = Loopback(capacity: 2, limits: limits(burst: 3))
        world.now = Instant(rawValue: 100_000_000)
        world.connect(address, at: 0)
        world.settle()
        for number in 0..<4 {
            world.accept(0, to: [1], bodyBytes: 5, single: true, key: UInt64(number))
        }
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3])
        #expect(world.delivery.nextWake == Instant(rawValue: 100_180_000))
        world.now = Instant(rawValue: 1_000_000)
        world.settle()
        #expect(world.delivery.nextWake == Instant(rawValue: 1_180_000))
        world.now = Instant(rawValue: 1_180_000)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4])
        // Of a bucket that nobody waits for, too.
        world.now = Instant(rawValue: 2_000)
        world.settle()
        world.accept(0, to: [1], bodyBytes: 5, single: true, key: 9)
        world.settle()
        #expect(world.delivery.nextWake == Instant(rawValue: 182_000))
    }

    @Test("STO-1: who is awake stores nothing; what overflows in a doze or away is told once")
    func overflow() {
        let world = Loopback(capacity: 1, limits: limits(stored: 10))
        world.connect(address, at: 0)
        world.settle()
        for _ in 0..<50 { world.accept(0, to: [1], bodyBytes: 5) }
        world.settle()
        #expect(world.connections[0]!.stored.count == 50, "who is awake stores nothing")
        #expect(world.acknowledge(0, through: 50))
        world.takeAcknowledgements()
        world.setState(0, .doze)
        for _ in 0..<13 { world.accept(0, to: [1], bodyBytes: 5) }
        world.accept(0, to: [1], bodyBytes: 5, priority: .high)
        world.settle()
        #expect(world.connections[0]!.deleted.isEmpty, "not before it wakes")
        #expect(world.acknowledge(0, through: 64))
        world.takeAcknowledgements()
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.stored == Array(1...50) + [64, 62, 63])
        #expect(world.connections[0]!.deleted.map(\.count) == [11])
        #expect(world.connections[0]!.deleted.map(\.through) == [61])
        #expect(world.acknowledge(0, through: 64, single: [61, 62, 63]))
        world.close(0)
        world.takeAcknowledgements()
        for _ in 0..<13 { world.accept(0, to: [1], bodyBytes: 5) }
        world.connect(address, at: 0, state: .doze)
        world.settle()
        #expect(world.connections[0]!.stored.isEmpty)
        #expect(world.connections[0]!.deleted.map(\.count) == [11])
        #expect(world.connections[0]!.deleted.map(\.through) == [75])
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.stored == [76, 77])
        #expect(world.connections[0]!.deleted.count == 1)
        #expect(world.acknowledge(0, through: 77))
        world.close(0)
        world.takeAcknowledgements()
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.deleted.isEmpty)
        #expect(world.connections[0]!.stored.isEmpty)
    }

    @Test(
        "STO-1: what a doze discards and the store could not write is written with the next message",
        arguments: [0, 1, 2])
    func overflowRefused(_ refusals: Int) {
        let world = Loopback(capacity: 1, limits: limits(stored: 10))
        world.connect(address, at: 0, state: .doze)
        world.settle()
        world.refusalsLeft = refusals
        for _ in 0..<13 {
            world.accept(0, to: [1], bodyBytes: 5)
            world.settle()
        }
        #expect(world.refusalsLeft == 0)
        #expect(world.connections[0]!.stored.isEmpty)
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.deleted.map(\.count) == [11])
        #expect(world.connections[0]!.deleted.map(\.through) == [11])
        #expect(world.connections[0]!.stored == [12, 13])
    }

    @Test("STO-1: nothing is discarded before the store knows what the last connection left")
    func discardsNothingEarly() {
        let world = Loopback(capacity: 2, limits: limits(stored: 10))
        world.connect(address, at: 0)
        world.settle()
        for _ in 0..<30 { world.accept(0, to: [1], bodyBytes: 5) }
        world.settle()
        world.close(0)
        world.connect(address, at: 1, isStored: false)
        world.settle()
        #expect(world.connections[1]!.deleted.isEmpty)
        world.takeAcknowledgements()
        world.delivery.stored(1, connectionNumber: 2)
        world.settle()
        #expect(world.connections[1]!.deleted.isEmpty)
        #expect(world.connections[1]!.stored == Array(1...30))
    }

    @Test("MSG-10: a fanout in progress goes on without what was cancelled")
    func cancels() {
        let world = Loopback(capacity: 2, limits: limits(stored: 100))
        world.connect(Address(project: 0, ordinal: 0), at: 0)
        world.connect(Address(project: 0, ordinal: 40_000), at: 1)
        world.settle()
        for _ in 0..<3 { world.accept(0, to: [0, 40_000], bodyBytes: 5) }
        // The first instance has all of them then.
        #expect(world.step(budget: 1))
        world.cancel(0, 1)
        world.cancel(0, 3)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3])
        #expect(world.connections[1]!.stored == [2])
    }

    @Test("A mailbox that is long is read and delivered in parts")
    func long() {
        let world = Loopback(capacity: 1)
        let count = rounds(20_000) as UInt64
        for _ in 0..<count { world.accept(0, to: [1], bodyBytes: 5, single: true) }
        world.rowsMax = Int(count) / 20
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.stored == Array(1...count))
    }

    @Test("PRI-1: a long mailbox of normal messages does not keep a dozing device from a high one")
    func longInDoze() {
        let world = Loopback(capacity: 1, limits: limits(keys: 4))
        let count = rounds(20_000) as UInt64
        for _ in 0..<count { world.accept(0, to: [1], bodyBytes: 5, single: true) }
        world.accept(0, to: [1], bodyBytes: 5, single: true, priority: .high)
        world.rowsMax = Int(count) / 20
        world.connect(address, at: 0, state: .doze)
        world.settle()
        #expect(world.connections[0]!.stored == [count + 1])
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.stored == [count + 1] + Array(1...count))
    }

    @Test("CONFIRMED: who acknowledges much is told what is on disk, and not before it is")
    func confirmed() {
        let world = Loopback(capacity: 1)
        world.connect(address, at: 0)
        world.settle()
        var told: [UInt64?] = []
        for number in 1...9 as ClosedRange<UInt64> {
            for _ in 0..<16 { world.accept(0, to: [1], bodyBytes: 5) }
            world.settle()
            #expect(world.acknowledge(0, through: number * 16))
            _ = world.delivery.takeAcknowledgements()
            // The fourth batch is lost.
            world.delivery.acknowledgementsSettled(number, areStored: number != 4)
            told.append(world.delivery.takeConfirmation(0))
        }
        #expect(told == [nil, nil, nil, nil, nil, nil, nil, 128, nil])
        #expect(world.delivery.takeConfirmable() == [0])
        #expect(world.delivery.takeConfirmable().isEmpty)
    }

    @Test(
        "PRI-1 COL-1 COL-4 TTL-3 STO-1 MSG-10: whatever happens, each gets what is its own, in order, and nothing waits for ever",
        arguments: 1...max(4, rounds(24)) as ClosedRange<UInt64>)
    func simulation(seed: UInt64) {
        let burst = seed % 3 == 0 ? 0 : 4
        let world = Loopback(
            capacity: 24, limits: limits(stored: seed % 4 == 0 ? 0 : 12, keys: 4, burst: burst))
        var play = Play(world: world, random: SeededGenerator(seed: seed))
        for _ in 0..<3000 { play.move() }
        play.connectAll()
        // Everybody wakes, and time goes by until every token has come.
        for index in world.open { world.setState(index, .active) }
        world.settle()
        for _ in 0..<200 where world.delivery.nextWake != nil {
            world.now = max(world.now, world.delivery.nextWake!)
            world.settle()
        }
        #expect(world.delivery.nextWake == nil && !world.delivery.hasDueReadings)
        world.takeAcknowledgements()
        var complete = 0
        for index in world.open where !world.connections[index]!.isReplaced {
            let missing = play.missing(world.connections[index]!.address)
            #expect(missing.isEmpty, "session \(index) waits for ever")
            complete += 1
        }
        #expect(complete > 1, "too few sessions were left to prove anything")
        if burst > 0 { play.checkThrottle(burst) }
        #expect(world.delivery.fanoutCount == 0)
        for index in world.open { world.close(index) }
    }
}

/// Random moves, and what must have come of them.
private struct Play {
    let world: Loopback
    var random: SeededGenerator
    let addresses: [Address] = (0..<8 as Range<UInt32>).map {
        Address(project: $0 % 2, ordinal: $0 / 2 << 15 | $0 * 2500)
    }
    /// Acknowledgements that are on their way.
    var underWay: [UInt32: (through: UInt64, single: [UInt64])] = [:]

    mutating func move() {
        switch random.number(0...99) {
        case ..<8: connect(addresses.randomElement(using: &random)!)
        case ..<10:
            guard let index = world.open.randomElement(using: &random) else { return }
            world.close(index)
            underWay[index] = nil
        case ..<38: accept()
        case ..<50: _ = world.step(budget: random.number(1...6))
        case ..<62:
            world.rowsMax = random.chance(30) ? random.number(1...20) : .max
            world.catchUpOne()
        case ..<75: world.sendOne()
        case ..<83:
            guard
                let index = world.open.filter({ world.connections[$0]!.inFlight != nil })
                    .randomElement(using: &random)
            else { return }
            world.completeSend(index, byteCount: world.inFlightBytes(index))
        case ..<87:
            guard let index = world.open.randomElement(using: &random) else { return }
            world.setState(index, random.chance(50) ? .doze : .background)
        case ..<89: world.now = world.now.advanced(bySeconds: Int64(random.number(1...120)))
        case ..<91:
            let project = UInt32(random.number(0...1))
            guard world.last(project) > 0 else { return }
            let last = Int(world.last(project))
            world.cancel(project, UInt64(random.number(max(1, last - 20)...last)))
        case ..<97: acknowledge()
        default: world.takeAcknowledgements()
        }
    }

    /// Whoever is not there comes.
    mutating func connectAll() {
        for address in addresses {
            let isHere = world.connections.values.contains {
                $0.address == address && !$0.isReplaced
            }
            if !isHere { connect(address) }
        }
    }

    private mutating func connect(_ address: Address) {
        guard let index = world.freeIndex else { return }
        // What an earlier connection took is on disk by then, in order.
        for other in world.open where world.connections[other]!.address == address {
            world.close(other)
            underWay[other] = nil
        }
        world.takeAcknowledgements()
        let has = (world.arrived[address] ?? []).sorted()
        world.connect(
            address, at: index, taken: random.chance(70) ? has : [],
            state: random.chance(25) ? .doze : .active)
    }

    private mutating func accept() {
        let project = UInt32(random.number(0...1))
        let all = addresses.filter { $0.project == project }.map(\.ordinal)
        let isSingle = random.chance(30)
        let to = Set(all.shuffled(using: &random).prefix(isSingle ? 1 : random.number(1...4)))
        world.accept(
            project, to: to, bodyBytes: random.number(0...300), isStored: random.chance(90),
            single: isSingle, priority: random.chance(35) ? .high : .normal,
            key: random.chance(40) ? UInt64(random.number(1...6)) : nil,
            secondsToLive: random.chance(20) ? Int64(random.number(1...300)) : nil,
            random.chance(10) ? .postponed : .live)
    }

    /// The device acknowledges what has come so far; that is heard of some time later.
    private mutating func acknowledge() {
        guard let index = world.open.randomElement(using: &random) else { return }
        if let one = underWay.removeValue(forKey: index) {
            #expect(world.acknowledge(index, through: one.through, single: one.single))
            return
        }
        let stored = world.connections[index]!.stored
        let deleted = world.connections[index]!.deleted.map(\.through)
        guard let through = stored.max() else { return }
        var highest: UInt64 = 0
        var late: [UInt64] = []
        for sequence in stored {
            if sequence < highest { late.append(sequence) }
            highest = max(highest, sequence)
        }
        underWay[index] = (max(through, deleted.max() ?? 0), late)
    }

    /// What an instance should have got and never did.
    func missing(_ address: Address) -> [UInt64] {
        let all = world.mailbox(address, after: 0)
        let arrived = world.arrived[address] ?? []
        let discarded = world.deletedThrough[address] ?? 0
        return all.filter { message in
            guard message.expires > world.now, !arrived.contains(message.sequence),
                message.sequence > discarded
            else { return false }
            guard let key = message.key else { return true }
            let newer = all.filter { $0.sequence > message.sequence }.compactMap(\.key)
            return !newer.contains(key) && Set(newer).count < 4
        }.map(\.sequence)
    }

    /// COL-4: over all connections nobody got more than the burst and one for each interval.
    func checkThrottle(_ burst: Int) {
        for address in addresses {
            let count = world.arrivals(address).filter {
                world.message(address.project, $0).key != nil
            }.count
            let tokens = burst + Int(world.now.rawValue / 180_000)
            #expect(count <= tokens, "\(address)")
        }
    }
}
