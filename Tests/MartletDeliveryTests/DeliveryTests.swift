// SPDX-License-Identifier: Apache-2.0
//
// Dialogues with the delivery of one loop, and a seeded random one in which everything happens that
// may. What arrives is decoded from the very vectors that a socket would be given. Rests on Loopback.

import EngineBench
import MartletBase
import MartletDelivery
import MartletEngine
import TestSupport
import Testing

@Suite("Delivery")
struct DeliveryTests {
    private let chunk = 256 * 1024 + 4096

    @Test("A fanout reaches the connected ones among its recipients, each once")
    func live() {
        let world = Loopback(capacity: 8)
        for ordinal in 0..<4 as Range<UInt32> {
            world.connect(Address(project: 0, ordinal: ordinal * 20_000), at: ordinal)
        }
        world.settle()
        world.accept(0, to: [0, 7, 40_000, 99_000], bodyBytes: 10)
        world.settle()
        #expect(world.connections[0]!.stored == [1])
        #expect(world.connections[1]!.stored == [])
        #expect(world.connections[2]!.stored == [1])
        #expect(world.delivery.fanoutCount == 0)
    }

    @Test("TTL-3: what was stored before the connection comes first, in order, then what is live")
    func mailboxFirst() {
        let world = Loopback(capacity: 2)
        let address = Address(project: 3, ordinal: 5)
        for _ in 0..<3 { world.accept(3, to: [5], bodyBytes: 5, single: true) }
        world.connect(address, at: 0)
        world.accept(3, to: [5, 6], bodyBytes: 5)
        world.settle()
        world.accept(3, to: [5], bodyBytes: 5, single: true)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3, 4, 5])
    }

    @Test("TTL-2: a message that is not stored reaches who is live and is never repeated")
    func notStored() {
        let world = Loopback(capacity: 3)
        world.connect(Address(project: 0, ordinal: 1), at: 0)
        world.settle()
        world.accept(0, to: [1, 2], bodyBytes: 8, isStored: false)
        world.connect(Address(project: 0, ordinal: 2), at: 1)
        world.settle()
        #expect(world.connections[0]!.passing.count == 1)
        #expect(world.connections[1]!.passing.count <= 1)
        world.close(0)
        world.connect(Address(project: 0, ordinal: 1), at: 0)
        world.settle()
        #expect(world.connections[0]!.passing.isEmpty)
    }

    @Test("NET-4: a new connection of an instance replaces its old one, which gets nothing more")
    func replaced() {
        let world = Loopback(capacity: 2)
        let address = Address(project: 0, ordinal: 9)
        world.connect(address, at: 0)
        world.settle()
        world.accept(0, to: [9], bodyBytes: 5, single: true)
        world.settle()
        #expect(world.connect(address, at: 1) == 0)
        world.accept(0, to: [9], bodyBytes: 5, single: true)
        world.settle()
        #expect(world.connections[0]!.stored == [1])
        #expect(world.connections[1]!.stored == [1, 2])
        // The end of the old one does not touch the new one.
        world.close(0)
        world.accept(0, to: [9], bodyBytes: 5, single: true)
        world.settle()
        #expect(world.connections[1]!.stored == [1, 2, 3])
    }

    @Test(
        "A device cannot acknowledge what it was never sent, and is told again what it did not acknowledge"
    )
    func acknowledgement() {
        let world = Loopback(capacity: 2)
        let address = Address(project: 0, ordinal: 1)
        world.connect(address, at: 0)
        world.settle()
        for _ in 0..<3 { world.accept(0, to: [1], bodyBytes: 5) }
        #expect(!world.acknowledge(0, through: 1), "nothing was queued yet")
        world.settle()
        #expect(!world.acknowledge(0, through: 4))
        #expect(!world.acknowledge(0, through: 1, single: [9]))
        #expect(!world.hasAcknowledgements)
        #expect(world.acknowledge(0, through: 2))
        #expect(world.acknowledge(0, through: 1), "an old one is no fault")
        world.takeAcknowledgements()
        #expect(world.watermark(address) == 2)
        world.close(0)
        world.connect(address, at: 1)
        world.settle()
        #expect(world.connections[1]!.stored == [3])
    }

    @Test("An acknowledgement survives the end of its connection, and the number's next holder")
    func acknowledgedAndClosed() {
        let world = Loopback(capacity: 1)
        let address = Address(project: 0, ordinal: 1)
        world.connect(address, at: 0)
        world.settle()
        world.accept(0, to: [1], bodyBytes: 5, single: true)
        world.settle()
        #expect(world.acknowledge(0, through: 1))
        world.close(0)
        world.connect(Address(project: 0, ordinal: 2), at: 0)
        world.takeAcknowledgements()
        #expect(world.watermark(address) == 1)
        #expect(world.watermark(Address(project: 0, ordinal: 2)) <= 1)
    }

    @Test(
        "FAN-6: a session whose sends never end is behind, holds a bounded queue, and delays nobody"
    )
    func slowConsumer() {
        let world = Loopback(capacity: 2)
        world.connect(Address(project: 0, ordinal: 0), at: 0)
        world.connect(Address(project: 0, ordinal: 1), at: 1)
        world.settle()
        world.stick(0)
        var most = 0
        // As many bytes in fewer messages reach the bound too.
        let count = rounds(4000)
        for _ in 0..<count {
            world.accept(0, to: [0, 1], bodyBytes: 4_000_000 / count)
            world.settle()
            most = max(most, world.delivery.queuedBytes(0))
        }
        #expect(world.connections[1]!.stored.count == count)
        #expect(most > OutputBounds.bytesPerSessionMax / 2, "the bound was never reached")
        #expect(most <= OutputBounds.bytesPerSessionMax)
        #expect(world.delivery.counters.fellBehind == 1)
        #expect(world.delivery.frameBytes <= 24 * chunk)
        // It takes bytes again: everything comes, in order, from its mailbox.
        world.completeSend(0, byteCount: world.inFlightBytes(0))
        while world.connections[0]!.stored.count < count {
            let before = world.connections[0]!.stored.count
            world.catchUpOne()
            while world.sendOne() == 0 { world.completeSend(0, byteCount: world.inFlightBytes(0)) }
            guard world.connections[0]!.stored.count > before else { break }
        }
        #expect(world.connections[0]!.stored == Array(1...UInt64(count)))
    }

    @Test("OPS-5: memory that is given back leaves what is queued, and messages go on")
    func releasedMemory() {
        let world = Loopback(capacity: 2)
        world.connect(Address(project: 0, ordinal: 0), at: 0)
        world.connect(Address(project: 0, ordinal: 1), at: 1)
        world.settle()
        world.delivery.releaseMemory()
        #expect(world.delivery.frameBytes == 0)
        // One of them does not read: its frames are kept.
        world.stick(0)
        world.accept(0, to: [0, 1], bodyBytes: 1000)
        world.settle()
        world.delivery.releaseMemory()
        #expect(world.delivery.frameBytes == chunk)
        world.accept(0, to: [0, 1], bodyBytes: 1000)
        world.settle()
        world.completeSend(0, byteCount: world.inFlightBytes(0))
        while world.sendOne() == 0 { world.completeSend(0, byteCount: world.inFlightBytes(0)) }
        #expect(world.connections[0]!.stored == [1, 2])
        #expect(world.connections[1]!.stored == [1, 2])
    }

    @Test("FAN-6: chunks of frames come back when the readers that held them are gone")
    func chunksComeBack() {
        let world = Loopback(capacity: 64)
        for index in 0..<64 as Range<UInt32> {
            world.connect(Address(project: 0, ordinal: index), at: index)
        }
        world.settle()
        // Every session holds on to one frame of another chunk.
        for index in 0..<64 as Range<UInt32> {
            world.stick(index)
            world.accept(0, to: [index], bodyBytes: 4000, single: true)
            world.settle()
            let count = rounds(70)
            for _ in 0..<count {
                world.accept(0, to: [63], bodyBytes: 280_000 / count, single: true)
            }
            world.settle()
        }
        let peak = world.delivery.frameBytes
        #expect(peak >= 60 * chunk, "the sessions did not hold enough for this to prove anything")
        for index in world.open { world.close(index) }
        #expect(world.delivery.frameBytes <= 18 * chunk)
        // And are used again.
        world.connect(Address(project: 0, ordinal: 70), at: 0)
        world.settle()
        let count = rounds(2000)
        for _ in 0..<count {
            world.accept(0, to: [70], bodyBytes: 8_000_000 / count, single: true)
            world.settle()
        }
        #expect(world.delivery.frameBytes <= 18 * chunk)
    }

    @Test(
        "A fanout that is postponed or finds a reconnected instance is read from the mailbox, once")
    func reconnectAmidFanout() {
        let world = Loopback(capacity: 4)
        let far = Address(project: 0, ordinal: 70_000)
        world.connect(Address(project: 0, ordinal: 1), at: 0)
        world.connect(far, at: 1)
        world.settle()
        world.accept(0, to: [1, 70_000], bodyBytes: 9)
        // The first block only.
        #expect(world.step(budget: 1))
        world.connect(far, at: 2)
        world.accept(0, to: [1, 70_000], bodyBytes: 9, .postponed)
        world.accept(0, to: [1, 70_000], bodyBytes: 9)
        world.settle()
        #expect(world.connections[0]!.stored == [1, 2, 3])
        #expect(world.connections[1]!.stored == [])
        #expect(world.connections[2]!.stored == [1, 2, 3])
    }

    @Test(
        "TTL-4 NET-4 FAN-6: whatever happens, a session gets exactly its stored messages, in order, each once, byte for byte",
        // The third is the first that is crowded.
        arguments: (1...max(3, rounds(24)) as ClosedRange<UInt64>).filter { $0 != 12 })
    func simulation(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let world = Loopback(capacity: 24)
        // In every third simulation messages are large and sockets slow, so that queues fill up.
        let isCrowded = seed % 3 == 0
        let ordinals: [UInt32] = (0..<12).map { $0 % 3 << 15 | $0 * 2500 }
        let addresses = (0..<3 as Range<UInt32>).flatMap { project in
            ordinals.map { Address(project: project, ordinal: $0) }
        }
        // One takes nothing at first: in every simulation a session falls behind.
        world.connect(addresses[0], at: 0)
        world.settle()
        while world.delivery.counters.fellBehind == 0 {
            world.accept(0, to: [addresses[0].ordinal], bodyBytes: 60_000, single: true)
            _ = world.step(budget: 1)
        }
        for _ in 0..<3000 {
            switch random.number(0...99) {
            case ..<10:
                let address = addresses.randomElement(using: &random)!
                guard let index = world.freeIndex else { break }
                // It may say what it has taken, whatever the broker knows of that.
                let has = (world.arrived[address] ?? []).sorted()
                let taken = random.chance(50) ? has.filter { _ in random.chance(60) } : []
                world.connect(address, at: index, taken: taken)
                if random.chance(8) { world.stick(index) }
            case ..<(isCrowded ? 11 : 15):
                if let index = world.open.randomElement(using: &random) { world.close(index) }
            case ..<40:
                let project = UInt32(random.number(0...2))
                let isSingle = random.chance(30)
                let count = isSingle ? 1 : random.number(1...ordinals.count)
                let to = Set(ordinals.shuffled(using: &random).prefix(count))
                // Now and then larger ones than a queue can hold many of.
                let bytes =
                    random.chance(isCrowded ? 70 : 5)
                    ? random.number(20_000...60_000) : random.number(0...300)
                world.accept(
                    project, to: to, bodyBytes: bytes, isStored: random.chance(85),
                    single: isSingle, !isCrowded && random.chance(10) ? .postponed : .live)
            case ..<55: _ = world.step(budget: random.number(1...6))
            case ..<65:
                world.rowsMax = random.chance(30) ? random.number(1...20) : .max
                world.catchUpOne()
            case ..<80: world.sendOne(vectorsMax: random.number(1...64))
            case ..<92:
                let sending = world.open.filter {
                    world.connections[$0]!.inFlight != nil && !world.connections[$0]!.isStuck
                }
                guard let index = sending.randomElement(using: &random) else { break }
                if isCrowded, random.chance(80) { break }
                let all = world.inFlightBytes(index)
                world.completeSend(
                    index, byteCount: random.chance(40) ? random.number(0...all) : all)
            case ..<97:
                guard let index = world.open.randomElement(using: &random) else { break }
                let connection = world.connections[index]!
                #expect(
                    !world.acknowledge(index, through: world.last(connection.address.project) + 1))
                if let through = connection.stored.randomElement(using: &random) {
                    #expect(world.acknowledge(index, through: through))
                }
            default: world.takeAcknowledgements()
            }
        }
        world.settle()
        world.takeAcknowledgements()
        var complete = 0
        for index in world.open {
            let connection = world.connections[index]!
            guard !connection.isStuck, !connection.isReplaced else { continue }
            let stored = connection.stored.filter { !world.isTaken($0, connection.address) }
            #expect(stored == world.expected(connection))
            complete += 1
        }
        #expect(complete > 3, "too few sessions were left to prove anything")
        #expect(world.delivery.fanoutCount == 0)
        for index in world.open { world.close(index) }
        world.takeAcknowledgements()
        #expect(world.delivery.frameBytes <= 18 * chunk)
    }
}
