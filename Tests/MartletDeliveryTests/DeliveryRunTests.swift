// SPDX-License-Identifier: Apache-2.0
//
// Messages for the same instances are delivered as one run of bytes. Whatever is put together, each
// session gets what a naive model says, in order and once: random fanouts, stored and not, to equal
// and to different sets, sessions that come late or cannot keep up, small and large budgets.

import Glibc
import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Delivery of runs")
struct DeliveryRunTests {
    static let project = ProjectNumber(1)

    /// A frame is its length, its sequence, and filling.
    static func frame(_ sequence: UInt64, _ bytes: Int, _ target: UnsafeMutableRawBufferPointer) {
        target.storeBytes(of: UInt32(bytes), as: UInt32.self)
        target.storeBytes(of: sequence, toByteOffset: 8, as: UInt64.self)
    }

    struct World: ~Copyable {
        var delivery = Delivery(capacity: 64, limits: .none)
        /// Stored messages and who they are for.
        var stored: [(sequence: UInt64, members: Set<UInt32>)] = []
        /// Bytes that each session was sent.
        var sent: [[UInt8]] = Array(repeating: [], count: 64)
        let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 64)

        deinit { vectors.deallocate() }

        mutating func attach(_ index: UInt32, ordinal: UInt32? = nil) {
            delivery.open(index)
            let last = MessageSequence(stored.last?.sequence ?? 0)
            let address = Address(project: 1, ordinal: ordinal ?? index)
            _ = delivery.attach(
                index,
                Attachment(
                    owner: MailboxOwner(
                        project: DeliveryRunTests.project, ordinal: Ordinal(address.ordinal),
                        platform: .android, appKey: CollapseDigest(rawValue: 0)),
                    holder: address.holder,
                    mailbox: MailboxState(
                        acknowledged: LaneMarks(last), awayFrom: last,
                        throttleFull: .longAgo, seen: .longAgo),
                    position: last, connectionNumber: 1), now: .longAgo)
        }

        mutating func catchUp() {
            while var reading = delivery.nextReading() {
                for message in stored where message.sequence > reading.after.rawValue {
                    guard message.members.contains(reading.owner.ordinal.rawValue) else { continue }
                    reading.add(
                        LogEntry(
                            sequence: MessageSequence(message.sequence), accepted: .longAgo,
                            expires: Instant(rawValue: 1), priority: .normal,
                            content: .message(collapse: nil)))
                }
                let last = MessageSequence(stored.last?.sequence ?? 0)
                guard var plan = delivery.finish(reading, through: last, now: .longAgo) else {
                    continue
                }
                if queue(&plan) { delivery.caughtUp(plan) }
            }
        }

        /// Says whether there was room for everything.
        mutating func queue(_ plan: inout MailboxPlan) -> Bool {
            for step in plan.steps {
                guard case .message(let entry) = step,
                    case .open = delivery.offer(entry, of: &plan, now: .longAgo)
                else { return false }
                let bytes = 24
                DeliveryRunTests.frame(
                    entry.sequence.rawValue, bytes, delivery.reserve(bytes, .direct))
                guard delivery.catchUp(entry, of: plan, byteCount: bytes, now: .longAgo) else {
                    return false
                }
            }
            return true
        }

        /// Sends for everybody who is ready, except those who are stuck.
        mutating func send(stuck: Set<UInt32>, short: Bool) {
            var waiting: [UInt32] = []
            while let index = delivery.nextReady() {
                if stuck.contains(index) { waiting.append(index) } else { send(index, short) }
            }
            stuckNow.formUnion(waiting)
        }

        var stuckNow: Set<UInt32> = []

        mutating func send(_ index: UInt32, _ short: Bool) {
            let count = delivery.gather(index, into: vectors)
            var total = vectors[..<count].reduce(0) { $0 + $1.iov_len }
            if short, total > 1 { total = Int.random(in: 1...total) }
            var left = total
            for vector in vectors[..<count] where left > 0 {
                let bytes = UnsafeRawBufferPointer(
                    start: vector.iov_base, count: min(left, vector.iov_len))
                sent[Int(index)] += bytes
                left -= bytes.count
            }
            delivery.sent(index, byteCount: total)
        }

        /// The sequences that a session was sent.
        func sequences(_ ordinal: UInt32) -> [UInt64] {
            sent[Int(ordinal)].withUnsafeBytes { bytes in
                var at = 0
                var result: [UInt64] = []
                while at + 4 <= bytes.count {
                    let length = Int(bytes.loadUnaligned(fromByteOffset: at, as: UInt32.self))
                    result.append(bytes.loadUnaligned(fromByteOffset: at + 8, as: UInt64.self))
                    at += length
                }
                return result
            }
        }
    }

    static func set(_ members: Set<UInt32>) -> RecipientSet {
        var builder = RecipientSetBuilder()
        for block in Set(members.map { Ordinal($0).blockIndex }).sorted() {
            let list = members.filter { Ordinal($0).blockIndex == block }.map {
                UInt16(Ordinal($0).bitIndex)
            }.sorted()
            list.withUnsafeBufferPointer {
                builder.append(block: block, view: .list($0), count: list.count)
            }
        }
        return builder.finish()
    }

    @Test(
        "each session gets every message that is for it, in order and once",
        arguments: 0..<rounds(60))
    func equalsModel(seed: Int) {
        var random = Random(state: UInt64(seed) &* 977 &+ 5)
        var world = World()
        let ordinals = Array(UInt32(0)..<20)
        for ordinal in ordinals { world.attach(ordinal) }
        world.catchUp()
        let groups: [Set<UInt32>] = (0..<3).map { _ in
            Set(ordinals.filter { _ in random.below(3) > 0 } + [0])
        }
        let sets = groups.map { Self.set($0) }
        // Large frames fill queues, so that sessions fall behind; then nothing that is not stored
        // is sent, which would be dropped.
        let isCrowded = seed % 2 == 1
        var sequence: UInt64 = 0
        var unstored: UInt64 = 0
        var expected: [[UInt64]] = Array(repeating: [], count: 20)
        for _ in 0..<120 {
            let group = random.below(3) > 0 ? 0 : Int(random.below(3))
            for _ in 0..<random.below(12) {
                let isStored = isCrowded || random.below(4) > 0
                if isStored { sequence += 1 } else { unstored += 1 }
                let raw = isStored ? sequence : MessageSequence.nowOrNeverBit | unstored
                // The same set as an object of its own is not put together; the result is the same.
                let recipients = random.below(5) == 0 ? Self.set(groups[group]) : sets[group]
                let fanout = Fanout(
                    project: Self.project,
                    header: MessageHeader(
                        sequence: MessageSequence(raw), number: raw, accepted: .longAgo,
                        expires: Instant(rawValue: 1), kind: .topic, priority: .normal, from: ""),
                    body: [], recipients: .many(recipients), position: MessageSequence(sequence))
                let bytes = isCrowded ? 7000 + Int(random.below(7000)) : 24 + Int(random.below(99))
                Self.frame(raw, bytes, world.delivery.reserve(bytes, .shared))
                world.delivery.enqueue(fanout, byteCount: bytes, now: .longAgo)
                if isStored { world.stored.append((raw, groups[group])) }
                for ordinal in groups[group] { expected[Int(ordinal)].append(raw) }
            }
            let stuck =
                isCrowded && random.below(9) > 0 ? Set(ordinals.filter { $0 % 3 == 0 }) : []
            _ = world.delivery.step(budget: Int(random.below(40)) + 1, now: .longAgo)
            world.catchUp()
            if stuck.isEmpty {
                for index in world.stuckNow { world.send(index, false) }
                world.stuckNow = []
            }
            world.send(stuck: stuck.union(world.stuckNow), short: random.below(2) == 0)
        }
        for _ in 0..<2000 {
            for index in world.stuckNow { world.send(index, false) }
            world.stuckNow = []
            _ = world.delivery.step(budget: 1000, now: .longAgo)
            world.catchUp()
            world.send(stuck: [], short: false)
        }
        for ordinal in ordinals {
            #expect(world.sequences(ordinal) == expected[Int(ordinal)], "session \(ordinal)")
        }
        if isCrowded { #expect(world.delivery.counters.fellBehind > 0) }
    }

    @Test("TTL-3 of messages that go together, those that expire on the way are given to nobody")
    func dropsExpired() {
        var world = World()
        // Two blocks of instances, so that time passes between them.
        let far = Ordinal(block: 1, bit: 0).rawValue
        world.attach(0)
        world.attach(1, ordinal: far)
        world.catchUp()
        let both = Self.set([0, far])
        for (raw, expires) in [(1, 100), (2, 50), (3, 100), (4, 60)] as [(UInt64, Int64)] {
            let fanout = Fanout(
                project: Self.project,
                header: MessageHeader(
                    sequence: MessageSequence(raw), number: raw, accepted: .longAgo,
                    expires: Instant(rawValue: expires), kind: .topic, priority: .normal, from: ""),
                body: [], recipients: .many(both), position: MessageSequence(raw))
            Self.frame(raw, 24, world.delivery.reserve(24, .shared))
            world.delivery.enqueue(fanout, byteCount: 24, now: .longAgo)
        }
        let isBusy = world.delivery.step(budget: 1, now: Instant(rawValue: 49))
        let isStillBusy = world.delivery.step(budget: 1, now: Instant(rawValue: 60))
        world.send(stuck: [], short: false)
        let (early, late) = (world.sequences(0), world.sequences(1))
        #expect(isBusy && !isStillBusy)
        #expect(early == [1, 2, 3, 4])
        #expect(late == [1, 3])
    }
}

/// xorshift: the same numbers on every machine.
private struct Random {
    var state: UInt64

    mutating func below(_ bound: UInt64) -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state % bound
    }
}
