// SPDX-License-Identifier: Apache-2.0
//
// What the store keeps for senders beside messages: answers, scheduled messages, receipts; and
// an instance's new token. Rests on Bench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Rows for senders")
struct SenderRowsTests {
    @Test("MSG-9: an answer is kept by its key and project, until its time")
    func answers() throws {
        let bench = Bench()
        let (tides, other) = (try bench.project("tides"), try bench.project("other"))
        let now = bench.now
        let answer = KeptAnswer(
            acceptance: Acceptance(
                messageNumber: 7, recipientCount: 8, rateLimitedCount: 9, inactiveCount: 10,
                deferredPlace: 12),
            digest: 11)
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.answers.put(
                answer, toKey: "k", expires: now.advanced(bySeconds: 5), in: tides)
        }
        try bench.expectClean()
        func found(_ key: String, _ project: ProjectNumber, _ seconds: Int64) throws -> KeptAnswer?
        {
            try bench.store.read { (transaction) throws in
                try transaction.answers.answer(
                    toKey: key, in: project, now: now.advanced(bySeconds: seconds))
            }
        }
        #expect(try found("k", tides, 4) == answer)
        #expect(try found("k", tides, 5) == nil)
        #expect(try found("k", other, 0) == nil)
        #expect(try found("l", tides, 0) == nil)
        bench.now = now.advanced(bySeconds: 5)
        try bench.sweep(rowsMax: 1)
        #expect(try found("k", tides, 0) == nil)
        #expect(try bench.rowCounts([.answers, .due]) == [0, 0])
    }

    @Test("MSG-10: scheduled messages come in the order of their times, whatever project, once")
    func scheduled() throws {
        let bench = Bench()
        let projects = [try bench.project("tides"), try bench.project("other")]
        let now = bench.now
        let messages = [(0, 5, 30), (1, 6, 10), (0, 7, 20), (0, 8, 90)].map {
            ScheduledMessage(
                project: projects[$0.0], number: UInt64($0.1),
                due: now.advanced(bySeconds: Int64($0.2)), bytes: [UInt8($0.1)])
        }
        try bench.store.write { (transaction) throws(StorageError) in
            for message in messages { try transaction.scheduled.put(message) }
        }
        try bench.expectClean()
        try bench.reopen()
        try bench.store.read { (transaction) throws in
            #expect(try transaction.scheduled.count(in: projects[0]) == 3)
            #expect(try transaction.scheduled.message(7, in: projects[0]) == messages[2])
            #expect(try transaction.scheduled.message(7, in: projects[1]) == nil)
        }
        let order = try bench.store.write { (transaction) throws(StorageError) in
            var order: [UInt64] = []
            while let next = try transaction.scheduled.next(
                dueAt: now.advanced(bySeconds: 30))
            {
                order.append(next.number)
                guard try transaction.scheduled.remove(next.number, in: next.project)
                else { break }
            }
            if try transaction.scheduled.remove(7, in: projects[0]) { order.append(0) }
            return order
        }
        #expect(
            try bench.store.read { (transaction) throws in
                try transaction.scheduled.count(in: projects[0])
            } == 1)
        #expect(order == [6, 7, 5])
        try bench.expectClean()
    }

    @Test("MSG-10: a scheduled message's number leads to its sequence as long as it is stored")
    func numbers() throws {
        let bench = Bench()
        let instance = try bench.register(in: "tides")
        let project = instance.project
        let now = bench.now
        try bench.store.write { (transaction) throws(StorageError) in
            var record = try transaction.projects.project(project)!
            record.lastSequence = MessageSequence(9)
            try transaction.projects.put(record, isNew: false)
            try transaction.accepting.append(
                StoredMessage(
                    sequence: MessageSequence(9), number: 4, accepted: now, kind: .token,
                    from: "1", options: MessageOptions(wantsReceipts: true),
                    variants: [
                        MessageVariant(
                            platforms: .all, expires: now.advanced(bySeconds: 60),
                            priority: .high, collapse: .app, body: [1])
                    ]),
                recipients: .one(instance.ordinal), in: project)
        }
        func sequence(_ number: UInt64) throws -> UInt64? {
            try bench.store.read { (transaction) throws in
                try transaction.messages.sequence(ofNumber: number, in: project)?.rawValue
            }
        }
        #expect(try sequence(4) == 9)
        #expect(try sequence(9) == nil)
        _ = try bench.accepted(.token(instance.token.text), in: project)
        #expect(try sequence(10) == 10)
        try bench.expectClean()
        let header = try bench.store.read { (transaction) throws in
            var header: MessageHeader?
            _ = try transaction.messages.withMessage(MessageSequence(9), on: .android, in: project)
            {
                header = $0.header
            }
            return header
        }
        #expect(header?.number == 4 && header?.options.wantsReceipts == true)
        #expect(header?.lane == Lane(.high, isCollapsible: true))
        try bench.acknowledge(instance, 9)
        #expect(try sequence(4) == nil)
        try bench.expectClean()
    }

    @Test("RCP-1 RCP-2: a receipt is wanted for a time, told once, and numbered without gaps")
    func receipts() throws {
        let bench = Bench()
        let instance = try bench.register(in: "tides")
        let project = instance.project
        let now = bench.now
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.receipts.putWanted(
                of: MessageSequence(5), number: 50, expires: now.advanced(bySeconds: 60),
                from: .one(instance.ordinal), in: project)
        }
        func take(_ kind: ReceiptKind, _ sequence: UInt64) throws -> UInt64? {
            try bench.store.write { (transaction) throws(StorageError) in
                try transaction.receipts.take(
                    kind, of: MessageSequence(sequence), by: instance, now: now)
            }
        }
        #expect(try take(.received, 5) == 50)
        #expect(try take(.received, 5) == nil)
        #expect(try take(.opened, 5) == 50)
        #expect(try take(.opened, 6) == nil)
        try bench.expectClean()
        bench.now = now.advanced(bySeconds: 60)
        try bench.sweep()
        #expect(try take(.displayed, 5) == nil)
        func append(_ count: Int) throws -> [UInt64] {
            try bench.store.write { (transaction) throws(StorageError) in
                var numbers: [UInt64] = []
                for index in 0..<count {
                    numbers.append(
                        try transaction.receipts.append([UInt8(index)], in: project))
                }
                return numbers
            }
        }
        func numbers(after number: UInt64) throws -> [UInt64] {
            try bench.store.read { (transaction) throws in
                try transaction.receipts.records(in: project, after: number, limit: 3).map(
                    \.number)
            }
        }
        #expect(try append(5) == [1, 2, 3, 4, 5])
        #expect(try numbers(after: 0) == [1, 2, 3])
        #expect(try numbers(after: 3) == [4, 5])
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.receipts.remove(through: 5, in: project)
        }
        try bench.reopen()
        #expect(try append(1) == [6])
        #expect(try numbers(after: 0) == [6])
        try bench.expectClean()
    }

    @Test("RCP-1: many events that were taken are gone at once, and their rows a step at a time")
    func takesMany() throws {
        let bench = Bench()
        let project = try bench.project("tides")
        try bench.store.write { (transaction) throws(StorageError) in
            for _ in 0..<10_000 { _ = try transaction.receipts.append([1], in: project) }
        }
        func take(_ through: UInt64) throws {
            try bench.store.write { (transaction) throws(StorageError) in
                try transaction.receipts.remove(through: through, in: project)
            }
        }
        func first() throws -> UInt64? {
            try bench.store.read { (transaction) throws in
                try transaction.receipts.records(in: project, after: 0, limit: 1).first?.number
            }
        }
        // One row counts them.
        func rows() throws -> Int { try bench.rowCounts([.receipts])[0] - 1 }
        try take(9000)
        #expect(try first() == 9001)
        #expect(try rows() == 10_000 - 4096)
        try bench.expectClean()
        let (now, limits) = (bench.now, bench.limits)
        let hasMore = try bench.store.write { (transaction) throws(StorageError) in
            try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: 1000)
        }
        #expect(hasMore)
        #expect(try rows() == 10_000 - 5096)
        // More is taken, and less, and more than there is, before the rest has gone.
        try take(9500)
        try take(100)
        #expect(try first() == 9501)
        try bench.expectClean()
        try bench.sweep()
        #expect(try rows() == 500)
        try take(.max)
        #expect(try first() == nil)
        #expect(try rows() == 0)
        try bench.expectClean()
    }

    @Test("REG-4: a new token leads to the instance, the old one nowhere")
    func token() throws {
        let bench = Bench()
        let instance = try bench.register(in: "tides")
        let token = Token(words: (1, 2, 3))
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.instances.replaceToken(
                of: instance.ordinal, in: instance.project, with: token)
        }
        try bench.expectClean()
        try bench.store.read { (transaction) throws in
            #expect(try transaction.instances.locate(instance.token) == nil)
            #expect(try transaction.instances.locate(token)?.ordinal == instance.ordinal)
        }
    }
}
