// SPDX-License-Identifier: Apache-2.0
//
// Delivery before and after the store knows when the last connection ended and what was discarded meanwhile, and
// acknowledgements that the store refused (STO-1). Rests on Loopback.

import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import Testing

@Suite("Delivery after an absence")
struct AbsenceTests {
    private let address = Address(project: 0, ordinal: 1)

    private func limits(stored: Int, burst: Int = 0) -> BrokerLimits {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = stored
        limits.collapsibleBurst = burst
        return limits
    }

    private func attachment(hasLostConnection: Bool) -> MartletDelivery.Attachment {
        var mailbox = MailboxState(
            acknowledged: LaneMarks(.none), awayFrom: .none,
            throttleFull: Instant(rawValue: 0), seen: Instant(rawValue: 0))
        mailbox.hasLostConnection = hasLostConnection
        return Attachment(
            owner: MailboxOwner(
                project: ProjectNumber(0), ordinal: Ordinal(1), platform: .android,
                appKey: CollapseDigest(rawValue: 1)),
            holder: Holder(keyDigest: SecretDigest(bytes: [UInt8](repeating: 1, count: 32))),
            mailbox: mailbox, position: MessageSequence(3), connectionNumber: 1)
    }

    @Test("STO-1: no mailbox is read before the store knows where the last connection ended")
    func lostConnection() {
        for isLost in [false, true] {
            var delivery = Delivery(capacity: 1, limits: limits(stored: 2))
            delivery.open(0)
            let now = Instant(millisecondsSince1970: 0)
            _ = delivery.attach(0, attachment(hasLostConnection: isLost), now: now)
            let early = delivery.nextReading()
            #expect((early == nil) == isLost)
            delivery.stored(0, connectionNumber: 1)
            let reading = delivery.nextReading()
            #expect((reading != nil) == isLost)
        }
    }

    @Test("STO-1: an overfull doze behind a lost connection ends where the store has trouble")
    func overfullAfterLostConnection() {
        var delivery = Delivery(capacity: 1, limits: limits(stored: 2))
        delivery.open(0)
        let now = Instant(millisecondsSince1970: 0)
        _ = delivery.attach(0, attachment(hasLostConnection: true), now: now)
        delivery.stored(0, connectionNumber: 1)
        let reading = delivery.nextReading()!
        let plan = delivery.finish(reading, through: MessageSequence(3), now: now)!
        delivery.caughtUp(plan)
        delivery.setState(0, .doze)
        for sequence in 4...6 as ClosedRange<UInt64> {
            let fanout = Fanout(
                project: ProjectNumber(0),
                header: MessageHeader(
                    sequence: MessageSequence(sequence), number: sequence, accepted: now,
                    expires: Instant(rawValue: .max), kind: .token, priority: .normal, from: ""),
                body: [], recipients: .one(Ordinal(1)), position: MessageSequence(sequence))
            _ = delivery.reserve(24, .direct)
            delivery.enqueue(fanout, byteCount: 24, now: now)
        }
        _ = delivery.step(budget: 100, now: now)
        let asking = delivery.nextOverfull()
        #expect(asking == 0)
        delivery.notStored(0)
        delivery.setState(0, .active)
        let again = delivery.nextReading()
        #expect(again != nil, "the mailbox is read without the store's answer")
    }

    @Test("STO-1: a device that has caught up and falls behind waits for no answer of the store")
    func behindWithoutAnswer() {
        let world = Loopback(capacity: 1, limits: limits(stored: 2))
        // A node that is behind the cluster's log: the mailbox looks empty, and the answer takes long.
        world.connect(address, at: 0, isStored: false)
        world.settle()
        for _ in 0..<4 { world.accept(0, to: [1], bodyBytes: 5, .postponed) }
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4])
        #expect(world.connections[0]!.deleted.isEmpty, "no absence was long enough")
        world.delivery.stored(0, connectionNumber: world.connections[0]!.number)
        world.accept(0, to: [1], bodyBytes: 5)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4, 5])
    }

    @Test("STO-1: a device that has caught up is told of discards that its store learns of later")
    func laterDiscards() {
        let world = Loopback(capacity: 1, limits: limits(stored: 2))
        world.connect(address, at: 0, state: .doze, isStored: false)
        world.settle()
        for _ in 0..<4 { world.accept(0, to: [1], bodyBytes: 5) }
        world.accept(0, to: [1], bodyBytes: 5, priority: .high)
        world.settle()
        #expect(world.connections[0]!.stored == [5])
        // For the node that decided, the device was away.
        world.discard(address, through: 4, count: 4)
        world.setState(0, .active)
        world.settle()
        #expect(world.connections[0]!.stored == [5])
        #expect(world.connections[0]!.deleted.map(\.through) == [4])
        #expect(world.connections[0]!.deleted.map(\.count) == [4])
        world.accept(0, to: [1], bodyBytes: 5)
        world.settle()
        #expect(world.connections[0]!.stored == [5, 6])
    }

    /// Seven messages for the instance, of which the first four were discarded; the notice has the stream ID 8, which no
    /// message of the instance has.
    private func discarded(_ world: Loopback, bodyBytes: Int) {
        for _ in 0..<7 { world.accept(0, to: [1], bodyBytes: bodyBytes) }
        world.accept(0, to: [2], bodyBytes: 5)
        world.discard(address, through: 4, count: 4, notice: 8)
    }

    @Test("OPS-7 STO-1: messages before a notice with an ID of its own are acknowledged before it")
    func acknowledgedBeforeNotice() {
        let world = Loopback(capacity: 1, limits: limits(stored: 3))
        discarded(world, bodyBytes: 40_000)
        world.connect(address, at: 0)
        // Two messages fill the queue, so the third message and the notice wait.
        _ = world.catchUpOne()
        while world.sendOne() != nil {
            world.completeSend(0, byteCount: world.inFlightBytes(0))
        }
        #expect(world.connections[0]!.stored == [5, 6])
        #expect(world.connections[0]!.deleted.isEmpty)
        #expect(world.acknowledge(0, through: 6))
        world.takeAcknowledgements()
        world.close(0)
        world.takeAcknowledgements()
        #expect(world.watermark(address) == 6)
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.stored == [7])
        #expect(world.connections[0]!.deleted.map(\.through) == [8])
        #expect(world.connections[0]!.deleted.map(\.count) == [4])
        #expect(world.acknowledge(0, through: 8))
        world.close(0)
        world.takeAcknowledgements()
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.deleted.isEmpty)
    }

    @Test("OPS-7 STO-1: a notice acknowledged during a long reading is not told again")
    func acknowledgedWhileReading() {
        let world = Loopback(capacity: 1, limits: limits(stored: 3))
        discarded(world, bodyBytes: 5)
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.deleted.map(\.through) == [8])
        for _ in 0..<6 { world.accept(0, to: [1], bodyBytes: 5, .postponed) }
        world.rowsMax = 2
        _ = world.catchUpOne()
        #expect(world.acknowledge(0, through: 8))
        world.takeAcknowledgements()
        world.settle()
        #expect(world.connections[0]!.stored == [5, 6, 7, 9, 10, 11, 12, 13, 14])
        #expect(world.connections[0]!.deleted.map(\.through) == [8])
    }

    @Test(
        "OPS-7 STO-1: a device that has more than the store knew of is told of discards in a later doze"
    )
    func toldBehindMarks() {
        let world = Loopback(capacity: 1, limits: limits(stored: 2, burst: 1))
        world.connect(address, at: 0)
        world.settle()
        // The throttle holds the second message back.
        for key in [1, 2] as [UInt64] { world.accept(0, to: [1], bodyBytes: 5, key: key) }
        for _ in 0..<3 { world.accept(0, to: [1], bodyBytes: 5) }
        world.accept(0, to: [2], bodyBytes: 5)
        world.accept(0, to: [1], bodyBytes: 5)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 3, 4, 5, 7])
        #expect(world.acknowledge(0, through: 7))
        // For the store, the device was away.
        world.discard(address, through: 5, count: 4, notice: 6)
        world.setState(0, .doze)
        world.accept(0, to: [1], bodyBytes: 5, priority: .high, .postponed)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 3, 4, 5, 7, 8])
        #expect(world.acknowledge(0, through: 8))
        world.takeAcknowledgements()
        world.close(0)
        world.takeAcknowledgements()
        #expect(world.watermark(address) < 6, "a client drops a notice up to the lowest mark")
        world.connect(address, at: 0)
        world.settle()
        #expect(world.connections[0]!.deleted.map(\.through) == [6])
    }

    @Test("STO-1: a long reading delivers nothing that the absence may still discard")
    func longReading() {
        var delivery = Delivery(capacity: 1, limits: limits(stored: 2))
        delivery.open(0)
        let now = Instant(millisecondsSince1970: 0)
        var attachment = attachment(hasLostConnection: false)
        attachment.mailbox.awayFrom = MessageSequence(1)
        attachment.position = MessageSequence(20_000)
        _ = delivery.attach(0, attachment, now: now)
        guard var reading = delivery.nextReading() else {
            Issue.record("a session that has just connected reads its mailbox")
            return
        }
        func add(_ sequence: UInt64, _ collapse: CollapseDigest?) {
            reading.add(
                LogEntry(
                    sequence: MessageSequence(sequence), accepted: now,
                    expires: Instant(rawValue: .max), priority: .normal,
                    content: .message(collapse: collapse)))
        }
        // The first message is older than the absence. An overflow further on discards it too.
        add(1, nil)
        for sequence in 2...17_000 as ClosedRange<UInt64> {
            add(sequence, CollapseDigest(rawValue: 7))
        }
        let plan = delivery.pause(reading, through: MessageSequence(17_000), now: now)
        #expect(plan == nil)
        let early = delivery.nextReading()
        #expect(early == nil, "the store's answer tells of the discards")
        delivery.stored(0, connectionNumber: 1)
        let again = delivery.nextReading()
        #expect(again?.after == MessageSequence.none, "the reading begins anew")
    }

    @Test("STO-1: a departure that could not be written is handed on again, first")
    func keptDeparture() {
        var delivery = Delivery(capacity: 1, limits: limits(stored: 2))
        let now = Instant(millisecondsSince1970: 0)
        delivery.open(0)
        _ = delivery.attach(0, attachment(hasLostConnection: false), now: now)
        delivery.close(0, now: now)
        let lost = delivery.takeAcknowledgements()
        #expect(lost.map { $0.departure?.connectionNumber } == [1])
        var next = attachment(hasLostConnection: false)
        next.connectionNumber = 2
        delivery.open(0)
        _ = delivery.attach(0, next, now: now)
        delivery.close(0, now: now)
        delivery.keep(lost)
        let waitingCount = delivery.queuedAcknowledgementCount
        #expect(waitingCount == 2)
        let again = delivery.takeAcknowledgements()
        #expect(again.map { $0.departure?.connectionNumber } == [1, 2])
        let isMore = delivery.hasAcknowledgements
        #expect(!isMore)
    }

    @Test(
        "STO-1: a list that could not be written is handed on again, first, if it has room; a departure always",
        arguments: [0, 1])
    func keptList(isAboveBound: Int) throws {
        var delivery = Delivery(capacity: 1, limits: limits(stored: 2))
        let now = Instant(millisecondsSince1970: 0)
        delivery.open(0)
        _ = delivery.attach(0, attachment(hasLostConnection: false), now: now)
        delivery.close(0, now: now)
        let departure = try #require(delivery.takeAcknowledgements().first)
        func list(_ count: Int) -> Acknowledgement {
            Acknowledgement(
                project: departure.project, ordinal: departure.ordinal, holder: departure.holder,
                through: departure.through, single: (0..<count).map { UInt64($0 + 1) })
        }
        delivery.keep([list(2)])
        let returned = list(Delivery.singleAcknowledgementsMax - 2 + isAboveBound)
        delivery.keep([returned, departure])
        let again = delivery.takeAcknowledgements()
        let kept = isAboveBound == 0 ? [returned.single.count, 0, 2] : [0, 2]
        #expect(again.map(\.single.count) == kept)
        #expect(again.map { $0.departure != nil } == kept.map { $0 == 0 })
        // The lists that were taken have made room.
        delivery.keep([returned])
        let nextCount = delivery.queuedAcknowledgementCount
        #expect(nextCount == 1)
    }
}
