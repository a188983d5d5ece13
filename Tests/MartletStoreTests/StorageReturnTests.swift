// SPDX-License-Identifier: Apache-2.0
//
// Storage comes back: what was acknowledged, has expired or was replaced leaves no rows, and under a
// steady load the file stays as large as it is. Rests on Bench.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletStore
import TestSupport
import Testing

@Suite("Storage that comes back")
struct StorageReturnTests {
    @Test(
        "TTL-4: a message goes with its last acknowledgement, and a fanout after the last of many")
    func acknowledged() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(200, in: "tides")
        try bench.change(.subscribe, "few", instances[..<3], in: project)
        try bench.change(.subscribe, "all", instances, in: project)
        _ = try bench.accepted(.token(instances[0].token.text), in: project)
        _ = try bench.accepted(.topic("few"), in: project)
        #expect(try bench.store.check().counts.messages == 2)
        try bench.acknowledge(instances[0], 2)
        #expect(try bench.store.check().counts.messages == 1)
        try bench.acknowledge(instances[1], 2)
        #expect(try bench.store.check().counts.recipients == 1)
        try bench.acknowledge(instances[2], 2)
        #expect(try bench.store.check().counts.messages == 0)
        for _ in 0..<5 { _ = try bench.accepted(.topic("all"), in: project) }
        for instance in instances.dropLast() { try bench.acknowledge(instance, 7) }
        try bench.acknowledge(instances[199], 4)
        try bench.sweep()
        #expect(try bench.store.check().counts.messages == 5, "collected too early")
        bench.now = bench.now.advanced(bySeconds: 86_400)
        try bench.sweep(rowsMax: 7)
        #expect(try bench.pending(instances[199]).map(\.sequence) == [5, 6, 7])
        #expect(try bench.store.check().counts.messages == 3)
        try bench.expectClean()
        try bench.acknowledge(instances[199], 7)
        bench.now = bench.now.advanced(bySeconds: 86_400)
        try bench.sweep(rowsMax: 7)
        #expect(try bench.store.check().counts.messages == 0)
        try bench.expectClean()
    }

    @Test("TTL-4: a collection that was begun without a count of its fanouts loses none")
    func uncounted() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(200, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        for _ in 0..<5 { _ = try bench.accepted(.topic("all"), in: project) }
        for instance in instances.dropLast() { try bench.acknowledge(instance, 5) }
        try bench.acknowledge(instances[199], 2)
        bench.now = bench.now.advanced(bySeconds: 86_400)
        let key = withUnsafeBytes(of: project.rawValue.bigEndian) { Array($0) }
        let (phaseAt, leftAt) = (24, 41)
        var row: [UInt8] = []
        for _ in 0..<50 where row.isEmpty || row[phaseAt] == 0 {
            let (now, limits) = (bench.now, bench.limits)
            _ = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: 1)
            }
            try bench.reopen {
                row = try #require(try RawStore(folder: $0).get("collections", key))
            }
        }
        try #require(row.count == 49 && row[phaseAt] == 3 && row[leftAt] == 5)
        try bench.reopen { folder in
            row[phaseAt] = 1
            row[leftAt] = 0
            try RawStore(folder: folder).change("collections", key, row)
        }
        try bench.sweep(rowsMax: 7)
        #expect(try bench.pending(instances[199]).map(\.sequence) == [3, 4, 5])
        #expect(try bench.store.check().counts.messages == 3)
        try bench.expectClean()
    }

    @Test("A collection ends for the project with the highest number as well")
    func highestProject() throws {
        let bench = try StoredBench()
        try bench.reopen { folder in
            let raw = RawStore(folder: folder)
            let project = big(UInt32.max)
            // Its phase is the marking of fanouts, of which there are none.
            let rest = [UInt8](repeating: 0, count: 24)
            try raw.change("collections", project, rest + [1] + rest)
            try raw.change("due", [9] + big(0 as UInt64) + project, [])
        }
        try bench.sweep()
        #expect(try bench.rowCounts([.collections, .due]) == [1, 0])
    }

    @Test(
        "Devices that leave a thousand topics each make the file little larger, and the room is free behind them"
    )
    func leaving() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(120, in: "tides")
        for topic in 0..<1000 {
            _ = try bench.change(.subscribe, "topic-\(topic)", instances, in: project)
        }
        try bench.files.checkpoint()
        let before = try bench.fileBytes
        for instance in instances {
            _ = try bench.apply(.unregisterToken(project: project, token: instance.token.text))
        }
        // Without checkpoints in between it would be a megabyte for each.
        #expect(try bench.fileBytes - before < 100 << 20)
        try bench.sweep()
        try bench.files.checkpoint()
        #expect(bench.files.size.used < 4 << 20)
        try bench.expectClean()
    }

    @Test("COL-1: of what one device's messages replace, few rows are left, and no bodies")
    func collapsed() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instance = try bench.register(1, in: "tides")[0]
        let body = [UInt8](repeating: 7, count: 4000)
        let count = rounds(2000)
        for index in 0..<count {
            _ = try bench.accepted(
                .token(instance.token.text), in: project, body: body,
                collapse: .named("k\(index % 3)"))
            guard index % 10 == 0 else { continue }
            try bench.sweep()
            // Behind a checkpoint freed pages are used again.
            try bench.files.checkpoint()
        }
        let last = (count - 2...count).map(UInt64.init)
        #expect(try bench.pending(instance).map(\.sequence) == last)
        #expect(try bench.store.check().counts.messages < 50)
        #expect(bench.files.size.used < 1 << 20)
        try bench.expectClean()
    }

    @Test(
        "TTL-3 STO-1 COL-1: weeks of a steady load leave the file as large as the first ones did, whoever is away"
    )
    func steady() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 100
        limits.collapseKeysPerInstanceMax = 4
        limits.reportSeconds = 86_400
        let bench = try StoredBench(limits: limits)
        let project = try bench.project("tides")
        let instances = try bench.register(300, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        let body = [UInt8](repeating: 7, count: 500)
        var sequence: UInt64 = 0
        var messages: [UInt64] = []
        var used: [Int] = []
        for hour in 0..<(24 * 28) {
            var commands: [Command] = []
            func send(_ target: SendCommand.Target, _ seconds: UInt32, _ collapse: CollapseKey) {
                commands.append(
                    .send(
                        project: project,
                        message: SendCommand(
                            target: target, body: body, lifespan: .seconds(seconds),
                            collapse: collapse)))
            }
            for (index, seconds) in [3600, 86_400, 3 * 86_400].enumerated() {
                let one = instances[(hour * 7 + index) % instances.count]
                send(
                    .topic("all"), UInt32(seconds), index == 1 ? .named("k\(hour % 5)") : .none)
                send(.token(one.token.text), UInt32(seconds), .none)
            }
            sequence += 6
            // Two of three are there every day; the others never are.
            for (index, instance) in instances.enumerated()
            where index % 3 != 0 && index % 24 == hour % 24 {
                commands.append(
                    .acknowledge([
                        Acknowledgement(
                            project: project, ordinal: instance.ordinal,
                            through: .even(sequence))
                    ]))
            }
            _ = try bench.apply(commands)
            bench.now = bench.now.advanced(bySeconds: 3600)
            try bench.sweep(rowsMax: 500)
            if hour % 24 == 23 {
                messages.append(try bench.store.check().counts.messages)
                used.append(bench.files.size.used)
            }
        }
        try bench.expectClean()
        // Of 4032 messages.
        #expect(messages.max()! < 400, "\(messages)")
        #expect(messages.suffix(14).max()! < messages.prefix(14).max()! * 5 / 4, "\(messages)")
        #expect(used.last! < used[13] * 5 / 4, "\(used)")
    }

    @Test("TTL-3: messages with one time to live are due as one, and each expires at its time")
    func expiryLine() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(100, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        func dueCount() throws -> Int { try bench.rowCounts([.due])[0] }
        let others = try dueCount()
        for number in 0..<20 {
            let target: SendCommand.Target =
                number % 2 == 0 ? .topic("all") : .token(instances[0].token.text)
            _ = try bench.accepted(target, in: project, timeToLive: 60)
            bench.now = bench.now.advanced(bySeconds: 1)
        }
        let before = try dueCount()
        // The line, the oldest report, the day and the project's collection.
        #expect(before <= others + 4)
        _ = try bench.accepted(.topic("all"), in: project, timeToLive: 5)
        #expect(try dueCount() == before + 1)
        // The first half is taken, and the line is not told.
        for instance in instances { try bench.acknowledge(instance, 10) }
        func waiting() throws -> [UInt64] {
            try bench.mailbox(instances[0]).waiting.map(\.sequence)
        }
        bench.now = bench.now.advanced(bySeconds: 5)
        try bench.sweep()
        #expect(try waiting() == Array(11...20))
        // The line's first time has come: it goes on to the first message that is left.
        bench.now = bench.now.advanced(bySeconds: 44)
        try bench.sweep()
        #expect(try waiting() == Array(11...20))
        try bench.expectClean()
        bench.now = bench.now.advanced(bySeconds: 4)
        try bench.sweep()
        #expect(try waiting() == Array(15...20))
        try bench.expectClean()
        bench.now = bench.now.advanced(bySeconds: 90_000)
        try bench.sweep()
        #expect(try bench.store.check().counts.messages == 0)
        #expect(try dueCount() <= others + 3)
        _ = try bench.accepted(.topic("all"), in: project, timeToLive: 60)
        bench.now = bench.now.advanced(bySeconds: 60)
        try bench.sweep()
        #expect(try waiting() == [])
        try bench.expectClean()
    }

    @Test("STO-1: a mailbox that ran over says so however much later, and how many it were")
    func discarded() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 3
        let bench = try StoredBench(limits: limits)
        let project = try bench.project("tides")
        let instances = try bench.register(100, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        for _ in 0..<4 { _ = try bench.accepted(.topic("all"), in: project, timeToLive: 60) }
        _ = try bench.accepted(.topic("all"), in: project, timeToLive: 90)
        bench.now = bench.now.advanced(bySeconds: 70)
        try bench.sweep()
        #expect(try bench.mailbox(instances[0]).waiting.map(\.sequence) == [5])
        for _ in 0..<3 {
            bench.now = bench.now.advanced(bySeconds: 90_000)
            try bench.sweep()
        }
        #expect(try bench.store.check().counts.messages == 0)
        let mailbox = try bench.mailbox(instances[0])
        #expect(mailbox.waiting.isEmpty && mailbox.discardedCount == 4)
        #expect(mailbox.state.discardedThrough.rawValue == 4)
        // Told: singly, or with marks that pass it.
        try bench.acknowledge(instances[0], 0, [4])
        #expect(try bench.mailbox(instances[0]).discardedCount == 0)
        try bench.acknowledge(instances[1], 5, [4])
        #expect(try bench.mailbox(instances[1]).discardedCount == 0)
        #expect(try bench.mailbox(instances[2]).discardedCount == 4)
        try bench.expectClean()
    }
}

@Suite("Mailboxes on disk")
struct MailboxStateTests {
    private static func marks(_ normal: UInt64, _ high: UInt64) -> LaneMarks {
        var marks = LaneMarks.even(normal)
        marks[Lane(.high, isCollapsible: false)] = MessageSequence(high)
        return marks
    }

    @Test(
        "PRI-1 COL-4 STO-1: how far an instance is comes back as it was written, also after reopening"
    )
    func states() throws {
        let bench = try StoredBench()
        let instance = try bench.register(in: "tides")
        let project = instance.project
        for _ in 0..<9 { _ = try bench.accepted(.token(instance.token.text), in: project) }
        var expected = try bench.mailbox(instance).state
        #expect(expected.seen == bench.now && expected.acknowledged.isEven)
        func apply(_ through: LaneMarks, _ departure: Acknowledgement.Departure?) throws {
            _ = try bench.apply(
                .acknowledge([
                    Acknowledgement(
                        project: project, ordinal: instance.ordinal, through: through,
                        departure: departure)
                ]))
            try bench.reopen()
            #expect(try bench.mailbox(instance).state == expected)
            try bench.expectClean()
        }
        expected.acknowledged = Self.marks(2, 5)
        try apply(Self.marks(2, 5), nil)
        // Marks never go back.
        try apply(Self.marks(1, 4), nil)
        let later = bench.now.advanced(bySeconds: 50)
        expected.awayFrom = MessageSequence(7)
        expected.throttleFull = later.advanced(bySeconds: 9)
        expected.seen = later
        try apply(
            .even(0),
            Acknowledgement.Departure(
                connectionNumber: 1, position: MessageSequence(7),
                throttleFull: expected.throttleFull, seen: later))
        #expect(try bench.pending(instance).map(\.sequence) == [3, 4, 5, 6, 7, 8, 9])
        expected.acknowledged = .even(9)
        expected.awayFrom = .none
        try apply(.even(9), nil)
        #expect(try bench.store.check().counts.messages == 0)
    }

    @Test(
        "STO-2: who is away for more than 30 days becomes inactive, who comes back is not any more")
    func inactive() throws {
        let limits = BrokerLimits()
        let bench = try StoredBench(limits: limits)
        let instance = try bench.register(in: "tides")
        let project = instance.project
        func inactiveCount() throws -> UInt64 {
            try bench.sweep(rowsMax: 1)
            return try bench.accepted(.token(instance.token.text), in: project).0.inactiveCount
        }
        bench.now = bench.now.advanced(bySeconds: Int64(limits.inactiveSeconds))
        #expect(try inactiveCount() == 0)
        bench.now = Instant(millisecondsSince1970: bench.now.millisecondsSince1970 + 1)
        #expect(try inactiveCount() == 1)
        try bench.expectClean()
        #expect(try bench.mailbox(instance).waiting.count == 1)
        #expect(try bench.mailbox(instance).discardedCount == 1)
        _ = try bench.apply(
            .connected(
                project: project, ordinal: instance.ordinal, holder: instance.holder,
                connection: ConnectionStart(number: 1, position: .none)))
        #expect(try inactiveCount() == 0)
        try bench.expectClean()
        // Told until 28 days after.
        bench.now = bench.now.advanced(bySeconds: Int64(Limits.discardNoticeSeconds) - 1)
        try bench.sweep()
        #expect(try bench.mailbox(instance).discardedCount == 1)
        bench.now = bench.now.advanced(bySeconds: 1)
        try bench.sweep()
        #expect(try bench.mailbox(instance).discardedCount == 0)
        #expect(try bench.store.check().counts.messages == 0)
        try bench.expectClean()
    }

    @Test("TTL-4: a device writes a row for what it has, and for no other number that it names")
    func foreignNumbers() throws {
        let bench = try StoredBench()
        let project = try bench.project("tides")
        let instances = try bench.register(140, in: "tides")
        let mine = instances[0]
        try bench.change(.subscribe, "others", instances[70...], in: project)
        try bench.change(.subscribe, "ours", instances[..<70], in: project)
        for _ in 0..<10 {
            _ = try bench.accepted(.token(instances[1].token.text), in: project)
            _ = try bench.accepted(.topic("others"), in: project)
        }
        let last = try bench.store.read { (transaction) throws in
            try transaction.projects.project(project)!.lastSequence.rawValue
        }
        let (_, direct) = try bench.accepted(.token(mine.token.text), in: project)
        let (_, fanout) = try bench.accepted(.topic("ours"), in: project)
        let own = try [direct, fanout].map { try #require($0).header.sequence.rawValue }
        try bench.acknowledge(mine, 0, Array(1...last) + [.max, 1 << 63, 1 << 40])
        #expect(try bench.rowCounts([.acknowledged]) == [0])
        #expect(try bench.pending(mine).map(\.sequence) == own)
        try bench.acknowledge(mine, 0, own + [last])
        #expect(try bench.rowCounts([.acknowledged]) == [2])
        #expect(try bench.pending(mine).isEmpty)
        try bench.expectClean()
    }

    @Test(
        "REG-3: nothing of an instance is left anywhere, and the next with its ordinal is no heir")
    func nothingLeft() throws {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 2
        limits.collapseKeysPerInstanceMax = 1
        limits.inactiveSeconds = 1000
        let bench = try StoredBench(limits: limits)
        let project = try bench.project("tides")
        var instances = try bench.register(70, in: "tides")
        try bench.change(.subscribe, "all", instances, in: project)
        for round in 0..<6 {
            for instance in instances.prefix(20) {
                for index in 0..<6 {
                    _ = try bench.accepted(
                        .token(instance.token.text), in: project, timeToLive: 500,
                        collapse: index % 2 == 0 ? .none : .named("k\(index)"))
                }
                try bench.acknowledge(instance, 0, [3, 5])
            }
            for index in 0..<4 {
                _ = try bench.accepted(
                    .topic("all"), in: project, timeToLive: 2000,
                    collapse: index % 2 == 0 ? .none : .app)
            }
            let told = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.receipts.putWanted(
                    of: MessageSequence(1), number: 77, expires: bench.now.advanced(bySeconds: 900),
                    from: .one(instances[0].ordinal), in: project)
                return try transaction.receipts.take(
                    .opened, of: MessageSequence(1), by: instances[0], now: bench.now)
            }
            #expect(told == 77, "an heir told it before")
            bench.now = bench.now.advanced(bySeconds: round % 2 == 0 ? 600 : 1200)
            try bench.sweep(rowsMax: 10)
            for instance in instances {
                _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
            }
            try bench.expectClean()
            let tables: [Table] = [
                .inbox, .mailboxes, .acknowledged, .instances, .instanceTopics, .receiptsTold,
                .sets,
            ]
            #expect(try bench.rowCounts(tables) == tables.map { _ in 0 }, "round \(round)")
            instances = try bench.register(70, in: "tides")
            #expect(Set(instances.map(\.ordinal.rawValue)) == Set(0..<70))
            for instance in instances {
                let mailbox = try bench.mailbox(instance)
                #expect(mailbox.waiting.isEmpty && mailbox.discardedCount == 0)
                #expect(mailbox.state.acknowledged.isEven && mailbox.state.seen == bench.now)
            }
            try bench.change(.subscribe, "all", instances, in: project)
        }
    }
}
