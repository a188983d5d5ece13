// SPDX-License-Identifier: Apache-2.0
//
// Who is served when there is more to do than a turn can: projects equally, the fanouts of each
// equally, messages for one instance before all of them; in the order of each session's messages
// whatever the turns are.

import EngineBench
import Glibc
import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("Fair turns of projects and fanouts")
struct FairnessTests {
    /// Sessions of several projects on one loop. A frame is its length and its sequence.
    struct World: ~Copyable {
        var delivery: Delivery
        let vectors = UnsafeMutableBufferPointer<iovec>.allocate(capacity: 64)
        /// By project, then by sequence: how often the message was sent.
        var sent: [[UInt64: Int]]
        /// By session: sequences in the order in which they were sent.
        var inboxes: [[UInt64]]
        private var lastSequence: [UInt64]
        private let perProject: Int

        /// Session `i` of project `p` has ordinal `i`, spread over three blocks.
        init(projects: Int, sessionsEach: Int, arrivalsMax: UInt32 = .max) {
            delivery = Delivery(
                capacity: projects * sessionsEach, limits: .none, arrivalsMax: arrivalsMax)
            sent = Array(repeating: [:], count: projects)
            inboxes = Array(repeating: [], count: projects * sessionsEach)
            lastSequence = Array(repeating: 0, count: projects)
            perProject = sessionsEach
            for project in 0..<projects {
                for session in 0..<sessionsEach { connect(project, session) }
            }
            while let reading = delivery.nextReading() {
                guard let plan = delivery.finish(reading, through: .none, now: .longAgo) else {
                    continue
                }
                delivery.caughtUp(plan)
            }
        }

        deinit { vectors.deallocate() }

        static func ordinal(_ session: Int) -> Ordinal {
            Ordinal(block: UInt32(session % 3), bit: session / 3 * 7)
        }

        private mutating func connect(
            _ project: Int, _ session: Int, position: MessageSequence = .none
        ) {
            let index = UInt32(project * perProject + session)
            delivery.open(index)
            let ordinal = Self.ordinal(session)
            let address = Address(project: UInt32(project), ordinal: ordinal.rawValue)
            _ = delivery.attach(
                index,
                Attachment(
                    owner: MailboxOwner(
                        project: ProjectNumber(UInt32(project)), ordinal: ordinal,
                        platform: .android, appKey: CollapseDigest(rawValue: 0)),
                    holder: address.holder,
                    mailbox: MailboxState(
                        acknowledged: LaneMarks(.none), awayFrom: .none, throttleFull: .longAgo,
                        seen: .longAgo),
                    position: position, connectionNumber: UInt64(index) + 1), now: .longAgo)
        }

        /// The session ends, and its instance connects again and has read its mailbox.
        mutating func reconnect(_ project: Int, _ session: Int) {
            delivery.close(UInt32(project * perProject + session), now: .longAgo)
            let last = MessageSequence(lastSequence[project])
            connect(project, session, position: last)
            while let reading = delivery.nextReading() {
                guard let plan = delivery.finish(reading, through: last, now: .longAgo) else {
                    continue
                }
                delivery.caughtUp(plan)
            }
        }

        static func set(_ sessions: some Sequence<Int>) -> RecipientSet {
            var builder = RecipientSetBuilder()
            let ordinals = sessions.map { ordinal($0) }
            for block in 0..<3 as Range<UInt32> {
                var buffer = BlockBuffer()
                var count = 0
                for ordinal in ordinals where ordinal.blockIndex == block {
                    buffer.insert(bit: ordinal.bitIndex)
                    count += 1
                }
                if count > 0 { builder.append(block: block, buffer: buffer, count: count) }
            }
            return builder.finish()
        }

        /// - Returns: the message's sequence.
        @discardableResult
        mutating func send(
            _ project: Int, _ recipients: Recipients, weight: Int = 1,
            expires: Instant = Instant(rawValue: .max)
        ) -> UInt64 {
            lastSequence[project] += 1
            let sequence = lastSequence[project]
            let fanout = Fanout(
                project: ProjectNumber(UInt32(project)),
                header: MessageHeader(
                    sequence: MessageSequence(sequence), number: sequence, accepted: .longAgo,
                    expires: expires, kind: .topic, priority: .normal, from: ""),
                body: [], recipients: recipients, position: MessageSequence(sequence),
                weight: weight)
            let bytes = delivery.reserve(24, fanout.frameKind)
            bytes.storeBytes(of: sequence, toByteOffset: 8, as: UInt64.self)
            delivery.enqueue(fanout, byteCount: 24, now: .longAgo)
            return sequence
        }

        /// One turn of a loop.
        /// - Returns: whether there is more to do.
        mutating func turn(
            sendsMax: Int = 64, deliveriesMax: Int = .max, now: Instant = .longAgo
        ) -> Bool {
            let isBusy = delivery.step(
                budget: 4096, sendsMax: sendsMax, deliveriesMax: deliveriesMax, now: now)
            while let index = delivery.nextReady() {
                let count = delivery.gather(index, into: vectors)
                var total = 0
                for vector in vectors[..<count] {
                    let bytes = UnsafeRawBufferPointer(
                        start: vector.iov_base, count: vector.iov_len)
                    for at in stride(from: 0, to: bytes.count, by: 24) {
                        let sequence = bytes.loadUnaligned(
                            fromByteOffset: at + 8, as: UInt64.self)
                        sent[Int(index) / perProject][sequence, default: 0] += 1
                        inboxes[Int(index)].append(sequence)
                    }
                    total += bytes.count
                }
                delivery.sent(index, byteCount: total)
            }
            return isBusy
        }

        var delivered: UInt64 { delivery.counters.fanoutDelivered }

        func total(_ project: Int) -> Int { sent[project].values.reduce(0, +) }
    }

    /// 1 if all are equal; 1/n if one has everything.
    static func jain(_ values: [Double]) -> Double {
        let sum = values.reduce(0, +)
        return sum * sum / (Double(values.count) * values.reduce(0) { $0 + $1 * $1 })
    }

    @Test("FAN-2 FAN-4: whether others have messages is known for as long as that matters")
    func activity() {
        let world = Loopback(capacity: 4)
        for project in 0..<3 as Range<UInt32> {
            world.connect(Address(project: project, ordinal: 1), at: project)
        }
        world.settle()
        func others(_ project: UInt32) -> Bool {
            world.delivery.hasOthers(than: ProjectNumber(project), now: world.now)
        }
        func pass(_ milliseconds: Int64) {
            world.now = Instant(rawValue: world.now.rawValue + milliseconds)
        }
        #expect(!others(0))
        world.accept(0, to: [1], bodyBytes: 5)
        world.accept(0, to: [1], bodyBytes: 5, single: true)
        #expect(!others(0), "it is alone")
        #expect(others(1))
        pass(60)
        world.accept(1, to: [1], bodyBytes: 5)
        #expect(others(0) && others(1) && others(2))
        pass(60)
        #expect(others(0) && !others(1) && others(2), "the first has had none for long")
        world.accept(1, to: [1], bodyBytes: 5, single: true)
        pass(99)
        #expect(others(0) && !others(1))
        pass(1)
        #expect(!others(0) && !others(1) && !others(2))
    }

    @Test(
        "FAN-2: projects with work get equal shares, whatever the number and the size of their fanouts",
        arguments: [[1, 1], [1, 40], [1, 5, 25, 125]])
    func projects(fanouts: [Int]) {
        var world = World(projects: fanouts.count, sessionsEach: 600)
        let everybody = World.set(0..<600)
        for (project, count) in fanouts.enumerated() {
            // Those with many fanouts have them for other recipients each.
            for number in 0..<count {
                let others = (0..<600).filter { ($0 + number) % 4 > 0 }
                world.send(project, .many(count == 1 ? everybody : World.set(others)))
            }
        }
        let work = fanouts.map { $0 == 1 ? 600 : $0 * 450 }
        var before = fanouts.indices.map { world.total($0) }
        var windows = 0
        while world.turn() {
            let totals = fanouts.indices.map { world.total($0) }
            guard zip(totals, work).allSatisfy({ $0 < $1 }) else { break }
            let window = zip(totals, before).map { Double($0 - $1) }
            guard window.reduce(0, +) >= Double(fanouts.count) * 300 else { continue }
            #expect(Self.jain(window) >= 0.99, "\(window)")
            before = totals
            windows += 1
        }
        #expect(windows >= 1)
        while world.turn() {}
        for (project, count) in work.enumerated() {
            let total = world.total(project)
            #expect(total == count)
        }
    }

    @Test("FAN-2: a project with three times the weight gets three times as much")
    func weights() {
        var world = World(projects: 2, sessionsEach: 3000)
        world.send(0, .many(World.set(0..<3000)), weight: 3)
        world.send(1, .many(World.set(0..<3000)))
        while world.total(0) < 2400, world.turn() {}
        let ratio = Double(world.total(0)) / Double(world.total(1))
        #expect(ratio > 2.8 && ratio < 3.2)
    }

    @Test(
        "FAN-3: each of two fanouts of a project sees half, whatever their sizes and whoever they share",
        arguments: [(0..<3000, 0..<3000), (0..<3000, 1500..<3000), (0..<1500, 1500..<3000)])
    func twoFanouts(first: Range<Int>, second: Range<Int>) {
        var world = World(projects: 1, sessionsEach: 3000)
        let a = world.send(0, .many(World.set(first)))
        let b = world.send(0, .many(World.set(second)))
        var isBusy = true
        while isBusy {
            isBusy = world.turn()
            let (one, other) = (world.sent[0][a] ?? 0, world.sent[0][b] ?? 0)
            guard one < first.count, other < second.count, one + other > 1000 else { continue }
            #expect(abs(one - other) * 50 <= one + other, "\(one) and \(other)")
        }
        let (one, other) = (world.sent[0][a], world.sent[0][b])
        #expect(one == first.count && other == second.count)
    }

    @Test("FAN-3: a small fanout of the same project is done long before a large one")
    func smallBesideLarge() {
        var world = World(projects: 1, sessionsEach: 3000)
        let large = world.send(0, .many(World.set(0..<3000)))
        _ = world.turn()
        let small = world.send(0, .many(World.set(2000..<2100)))
        while (world.sent[0][small] ?? 0) < 100, world.turn() {}
        let count = world.sent[0][large] ?? 0
        #expect(count < 500, "the large one had \(count) meanwhile")
        while world.turn() {}
        for session in 2000..<2100 {
            let inbox = world.inboxes[session]
            #expect(inbox == [large, small])
        }
    }

    @Test(
        "FAN-4: a project alone has every turn, and all that is for a session leaves in one send")
    func alone() {
        var world = World(projects: 3, sessionsEach: 500)
        for _ in 0..<30 { world.send(1, .many(World.set(0..<500))) }
        var turns = 0
        while world.turn(sendsMax: 50) { turns += 1 }
        let (total, sends) = (world.total(1), world.delivery.counters.sends)
        #expect(total == 15_000)
        #expect(sends == 500)
        // Ten of 50 sends, and what it takes to look at 30 times 500 sessions, 4096 in a turn.
        #expect(turns <= 14)
    }

    @Test(
        "FAN-5: a message for one instance leaves in the next turn, behind what is in progress for it"
    )
    func directFirst() {
        var world = World(projects: 1, sessionsEach: 3000)
        let all = world.send(0, .many(World.set(0..<3000)))
        let some = world.send(0, .many(World.set(stride(from: 0, to: 3000, by: 2))))
        let one = world.send(0, .one(World.ordinal(2998)))
        let other = world.send(0, .one(World.ordinal(2999)))
        let isBusy = world.turn()
        #expect(isBusy)
        let (first, second) = (world.inboxes[2998], world.inboxes[2999])
        #expect(first == [all, some, one])
        #expect(second == [all, other])
        while world.turn() {}
        let after = world.inboxes[2998]
        #expect(after == [all, some, one])
    }

    @Test(
        "who connects while a message has not begun to be given out gets the next one for the same instances"
    )
    func connectingMeanwhile() {
        var world = World(projects: 1, sessionsEach: 6)
        let everybody = World.set(0..<6)
        let first = world.send(0, .many(everybody))
        world.reconnect(0, 4)
        let second = world.send(0, .many(everybody))
        while world.turn() {}
        for session in 0..<6 {
            let inbox = world.inboxes[session]
            // The other has the first from its mailbox.
            #expect(inbox == (session == 4 ? [second] : [first, second]))
        }
    }

    @Test("nothing is put together with a message that has expired")
    func expiredMeanwhile() {
        var world = World(projects: 1, sessionsEach: 6)
        let late = Instant(millisecondsSince1970: 10)
        let everybody = World.set(0..<6)
        let first = world.send(0, .many(World.set(0..<6)))
        world.send(0, .many(everybody), expires: Instant(millisecondsSince1970: 5))
        _ = world.turn(deliveriesMax: 1, now: late)
        let third = world.send(0, .many(everybody))
        while world.turn(now: late) {}
        for session in 0..<6 {
            let inbox = world.inboxes[session]
            #expect(inbox == [first, third])
        }
    }

    @Test(
        "whatever is in progress, each session gets what is for it, in order and once, and fanouts may be numbered anew",
        arguments: 1...rounds(30) as ClosedRange<UInt64>)
    func order(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = World(
            projects: 2, sessionsEach: 90, arrivalsMax: seed % 2 == 0 ? 5 : .max)
        var expected = Array(repeating: [UInt64](), count: 180)
        for _ in 0..<400 {
            if random.chance(40) {
                let project = random.number(0...1)
                if random.chance(20) {
                    let session = random.number(0...89)
                    let sequence = world.send(project, .one(World.ordinal(session)))
                    expected[project * 90 + session].append(sequence)
                } else {
                    let part = random.number(1...5)
                    let members = (0..<90).filter { _ in random.chance(part * 20) } + [7]
                    let sequence = world.send(project, .many(World.set(Set(members))))
                    for session in Set(members) {
                        expected[project * 90 + session].append(sequence)
                    }
                }
            } else {
                _ = world.turn(sendsMax: random.number(1...20))
            }
        }
        while world.turn() {}
        for (session, inbox) in expected.enumerated() {
            let got = world.inboxes[session]
            #expect(got == inbox, "session \(session)")
        }
        #expect(world.delivery.fanoutCount == 0)
    }
}
