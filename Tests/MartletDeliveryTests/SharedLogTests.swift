// SPDX-License-Identifier: Apache-2.0
//
// What devices find in a log that they read together, against what each of them finds alone.
// Rests on Support.

import EngineBench
import MartletBase
import MartletBits
import MartletDelivery
import MartletEngine
import MartletRows
import TestSupport
import Testing

@Suite("A log that devices read together")
struct SharedLogTests {
    private static let now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private static let ordinals = (0..<8).map { Ordinal(block: UInt32($0 % 2) * 3, bit: $0 * 11) }

    @Test(
        "NET-2: devices that read a log together find what each finds alone",
        arguments: 0..<rounds(150))
    func agrees(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let bench = Bench()
        let project = try bench.project("tides")
        let count = random.number(0...40)
        // Messages for one instance, which stand in its inbox.
        var direct: [MessageSequence: Ordinal] = [:]
        try bench.store.write { (transaction) throws(StorageError) in
            for sequence in (0..<UInt64(count)).map({ MessageSequence($0 + 1) }) {
                direct[sequence] = try Self.append(sequence, to: project, transaction, &random)
            }
        }
        try bench.store.read { (transaction) throws in
            var log = try SharedLog(transaction, rowsMax: random.number(1...12))
            for _ in 0..<40 {
                let reading = Self.reading(of: project, count, &random)
                if !log.covers(reading) { try log.begin(project, after: reading.after) }
                let found = try log.read(
                    reading, now: Self.now, rowsMax: random.number(1...10))
                try Self.check(found, log, reading, direct: direct, transaction)
            }
        }
    }

    /// - Returns: whom a message is for that is for one instance.
    private static func append(
        _ sequence: MessageSequence, to project: ProjectNumber,
        _ transaction: borrowing Transaction, _ random: inout SeededGenerator
    ) throws(StorageError) -> Ordinal? {
        let members = ordinals.filter { _ in random.chance(60) }
        if random.chance(3) {
            try transaction.accepting.appendDiscarded(
                sequence, accepted: now, expires: now.advanced(bySeconds: 60),
                recipients: .many(set(members)), in: project)
            guard random.chance(50) else { return nil }
        }
        let one = random.chance(2) ? ordinals[random.number(0...7)] : nil
        let message = StoredMessage(
            sequence: sequence, number: sequence.rawValue, accepted: now, kind: .topic,
            from: "/topics/tides", options: MessageOptions(),
            variants: [
                MessageVariant(
                    platforms: random.chance(20) ? PlatformSet(.android) : .all,
                    expires: now.advanced(bySeconds: random.chance(15) ? 0 : 60),
                    priority: random.chance(50) ? .high : .normal,
                    collapse: random.chance(3) ? .named("tide") : .none,
                    body: [UInt8(sequence.rawValue), 7])
            ])
        try transaction.accepting.append(
            message, recipients: one.map { .one($0) } ?? .many(set(members)), in: project)
        return one
    }

    /// Some of those who read, and others in the same block: few alone would have rows in the inbox.
    private static func set(_ members: [Ordinal]) -> RecipientSet {
        let ordinals = members + (1000..<1080).map { Ordinal(block: 0, bit: $0) }
        var builder = RecipientSetBuilder()
        for block in [0, 3] as [UInt32] {
            var buffer = BlockBuffer()
            let own = ordinals.filter { $0.blockIndex == block }
            for ordinal in own { buffer.insert(bit: ordinal.bitIndex) }
            if !own.isEmpty { builder.append(block: block, buffer: buffer, count: own.count) }
        }
        return builder.finish()
    }

    private static func reading(
        of project: ProjectNumber, _ count: Int, _ random: inout SeededGenerator
    ) -> SharedReading {
        var marks = LaneMarks(.none)
        for lane in Lane.all where random.chance(20) {
            marks[lane] = MessageSequence(UInt64(random.number(0...count)))
        }
        return SharedReading(
            index: 0,
            owner: MailboxOwner(
                project: project, ordinal: ordinals[random.number(0...7)],
                platform: random.chance(70) ? .android : .web, appKey: CollapseDigest(rawValue: 0)),
            after: MessageSequence(UInt64(random.number(0...count))), marks: marks,
            highest: random.chance(10) ? MessageSequence(UInt64(count / 2)) : .none)
    }

    private static func check(
        _ found: SharedLog.Found, _ log: borrowing SharedLog, _ reading: SharedReading,
        direct: [MessageSequence: Ordinal], _ transaction: borrowing Transaction
    ) throws {
        var entries: [LogEntry] = []
        _ = try transaction.log.forEachLogged(
            for: reading.owner, after: reading.after, rowsMax: .max
        ) { entries.append($0) }
        func isGiven(_ entry: LogEntry) -> Bool {
            entry.expires > now && entry.sequence > reading.marks[entry.lane]
        }
        let isDirect = direct.contains {
            $0.key > reading.after && $0.value == reading.owner.ordinal
        }
        switch found {
        case .ruled:
            let hasLate = entries.contains { isGiven($0) && $0.sequence <= reading.highest }
            let isRuled = entries.contains { $0.content != .message(collapse: nil) }
            #expect(isDirect || hasLate || isRuled)
        case .entries(let entryCount, let through, let isEnd):
            let looked = entries.filter { $0.sequence <= through }
            #expect(looked.allSatisfy { $0.content == .message(collapse: nil) })
            #expect(!isDirect && entryCount == looked.count)
            #expect(isEnd ? looked.count == entries.count : through > reading.after)
            let given = looked.filter(isGiven).map(\.sequence)
            #expect(log.selected.map { log.messages[Int($0)].sequence } == given)
            for place in log.selected {
                let body = try log.withMessage(at: place, on: reading.owner.platform) {
                    Array($0.body)
                }
                #expect(body == [UInt8(log.messages[Int(place)].sequence.rawValue), 7])
            }
        }
    }
}
