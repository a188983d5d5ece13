// SPDX-License-Identifier: Apache-2.0
//
// The client's decisions without sockets or clocks: pauses, duplicates, acknowledgements and
// correlations; those about heartbeats are in `HeartbeatTests.swift`.

import MartletClient
import Testing

@Suite struct BackoffTests {
    @Test("DEV-1 pauses are a random part of 0.5 s, 1 s, 2 s … and never more than 60 s")
    func bounds() {
        var random = SeededGenerator(seed: 1)
        let bounds = [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
        for _ in 0..<200 {
            var backoff = Backoff()
            for bound in bounds {
                #expect(backoff.longestNext == .seconds(bound))
                let pause = backoff.next(using: &random)
                #expect(pause >= .zero && pause <= .seconds(bound))
            }
        }
    }

    @Test("DEV-1 the jitter is full: pauses fill the whole range")
    func jitter() {
        var random = SeededGenerator(seed: 2)
        var thirds = [0, 0, 0]
        for _ in 0..<3000 {
            var backoff = Backoff(base: .seconds(3), cap: .seconds(60))
            let pause = backoff.next(using: &random)
            thirds[pause < .seconds(1) ? 0 : pause < .seconds(2) ? 1 : 2] += 1
        }
        #expect(thirds.allSatisfy { $0 > 850 })
    }

    @Test("DEV-1 a delay that the broker asks for is kept to, and jitter comes on top")
    func notBefore() {
        var random = SeededGenerator(seed: 3)
        for _ in 0..<200 {
            var backoff = Backoff()
            let pause = backoff.next(notBefore: 10_000, using: &random)
            #expect(pause >= .seconds(10) && pause <= .seconds(10.5))
        }
    }

    @Test("DEV-1 a success starts from the base again, and a thousand failures do not overflow")
    func success() {
        var random = SeededGenerator(seed: 4)
        var backoff = Backoff()
        for _ in 0..<1000 { _ = backoff.next(using: &random) }
        #expect(backoff.longestNext == .seconds(60))
        backoff.succeeded()
        #expect(backoff.longestNext == .milliseconds(500))
    }
}

@Suite struct DeliveryLedgerTests {
    private func same(
        _ ledger: DeliveryLedger, _ through: UInt64, _ single: [UInt64] = []
    ) -> Bool {
        guard let acknowledgement = ledger.acknowledgement else { return false }
        return acknowledgement.through == through && acknowledgement.single == single
    }

    @Test("DEV-3 an acknowledgement passes neither what was taken nor what this connection brought")
    func marks() {
        var ledger = DeliveryLedger()
        ledger.connected(acknowledgedThrough: 0)
        for id in [10, 20, 30] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(isNew)
        }
        #expect(ledger.acknowledgement == nil)
        ledger.take(20)
        #expect(same(ledger, 0, [20]), "10 is not taken")
        ledger.take(10)
        #expect(same(ledger, 20))
        ledger.acknowledged(through: 20, single: [])
        #expect(ledger.acknowledgement == nil && ledger.unsentCount == 0)

        ledger.connected(acknowledgedThrough: 0)
        ledger.take(30)
        #expect(ledger.unconfirmed == [10, 20, 30])
        #expect(ledger.acknowledgement == nil, "30 was not delivered on this connection")
        let isNew = ledger.deliver(30)
        #expect(!isNew)
        #expect(same(ledger, 30))
    }

    @Test("TTL-4 a held message that comes late is new, and acknowledged singly")
    func late() {
        var ledger = DeliveryLedger()
        ledger.connected(acknowledgedThrough: 0)
        for id in [8, 10, 5, 6] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(isNew)
        }
        ledger.take(8)
        ledger.take(10)
        #expect(same(ledger, 0, [8, 10]), "5 is delivered and not taken")
        ledger.take(5)
        #expect(same(ledger, 0, [8, 10, 5]))
        ledger.take(6)
        #expect(same(ledger, 10, [5, 6]))
        ledger.acknowledged(through: 10, single: [5, 6])
        #expect(ledger.unsentCount == 0)
        for id in [5, 6, 8, 10] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(!isNew)
        }
        let isNew = ledger.deliver(7)
        #expect(isNew)
    }

    @Test("TTL-4 a stream ID is forgotten when the broker has confirmed it")
    func confirmed() {
        var ledger = DeliveryLedger(unconfirmed: [7, 3, 3, 5])
        #expect(ledger.unconfirmed == [3, 5, 7])
        ledger.connected(acknowledgedThrough: 4)
        #expect(ledger.unconfirmed == [5, 7])
        ledger.confirm(through: 5)
        #expect(ledger.unconfirmed == [7])
        for id in [2, 5, 7] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(!isNew, "what is confirmed does not come again but by a mistake")
        }
    }

    @Test("TTL-4 what was confirmed once stays confirmed, whatever mark a later WELCOME has")
    func neverLower() {
        var ledger = DeliveryLedger()
        ledger.connected(acknowledgedThrough: 0)
        for id in [3, 5] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(isNew)
            ledger.take(id)
        }
        ledger.acknowledged(through: 5, single: [])
        ledger.confirm(through: 5)
        #expect(ledger.unconfirmed.isEmpty)
        // A store without the latest acknowledgements has the messages still, and one more.
        for mark in [0, 4] as [UInt64] {
            ledger.connected(acknowledgedThrough: mark)
            for id in [3, 5] as [UInt64] {
                let isNew = ledger.deliver(id)
                #expect(!isNew, "message \(id) came a second time to the application")
            }
            #expect(same(ledger, 5), "the store is told again")
        }
        let isNew = ledger.deliver(6)
        #expect(isNew)
    }

    @Test(
        "DEV-3 duplicates are dropped, against a naive model, in any order, however often connections break"
    )
    func model() {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            var ledger = DeliveryLedger()
            var given: Set<UInt64> = []
            var taken: Set<UInt64> = []
            // What the broker has on disk.
            var acknowledged: Set<UInt64> = []
            var newest: UInt64 = 0
            var published: Set<UInt64> = []
            for _ in 0..<12 {
                let hello = ledger.unconfirmed
                #expect(Set(hello).isSubset(of: taken))
                #expect(taken.subtracting(acknowledged).isSubset(of: hello))
                if Bool.random(using: &random) { acknowledged.formUnion(hello) }
                let mark = (published.subtracting(acknowledged).min() ?? newest + 1) - 1
                ledger.connected(acknowledgedThrough: mark)
                for _ in 0..<Int.random(in: 0...8, using: &random) {
                    newest += .random(in: 1...9, using: &random)
                    published.insert(newest)
                }
                // In order, but some are held back for a while.
                var pending = published.subtracting(acknowledged).sorted()
                if Bool.random(using: &random) {
                    let held = pending.filter { _ in Int.random(in: 0...3, using: &random) == 0 }
                    pending = pending.filter { !held.contains($0) } + held
                }
                var here: [UInt64] = []
                for id in pending.prefix(Int.random(in: 0...pending.count, using: &random)) {
                    here.append(id)
                    let isNew = ledger.deliver(id)
                    #expect(isNew == given.insert(id).inserted)
                    if let next = given.subtracting(taken).randomElement(using: &random),
                        Bool.random(using: &random)
                    {
                        ledger.take(next)
                        taken.insert(next)
                    }
                    if let (through, single) = ledger.acknowledgement,
                        Bool.random(using: &random)
                    {
                        // As the document says: up to the one it names, in the order of delivery.
                        let until = here.lastIndex(of: through)
                        #expect(through == 0 || until != nil)
                        var covered = Set(single)
                        if let until {
                            covered.formUnion(here[...until].filter { $0 <= through })
                        }
                        #expect(covered.isSubset(of: taken))
                        #expect(covered.isSubset(of: here))
                        ledger.acknowledged(through: through, single: single)
                        acknowledged.formUnion(covered)
                        if Bool.random(using: &random) {
                            let confirmed = published.subtracting(acknowledged).min() ?? newest + 1
                            ledger.confirm(through: confirmed - 1)
                        }
                    }
                }
                while let (through, single) = ledger.acknowledgement {
                    ledger.acknowledged(through: through, single: single)
                }
                #expect(ledger.unsentCount == 0)
            }
        }
    }

    @Test("TTL-4 what is remembered one by one is bounded; past it a message may come twice")
    func bounded() {
        var ledger = DeliveryLedger()
        ledger.connected(acknowledgedThrough: 0)
        for id in 1...10_000 as ClosedRange<UInt64> {
            let isNew = ledger.deliver(id)
            #expect(isNew)
            ledger.take(id)
        }
        #expect(ledger.unconfirmed == Array(8977...10_000))
        #expect(same(ledger, 10_000))
        ledger.connected(acknowledgedThrough: 0)
        let isForgotten = ledger.deliver(1)
        #expect(isForgotten)
        let isNew = ledger.deliver(10_000)
        #expect(!isNew)
        ledger.confirm(through: 10_000)
        #expect(ledger.unconfirmed.isEmpty)
    }
}

@Suite struct ReceiptQueueTests {
    @Test("RCP-2 each receipt waits once, and the oldest go when there are too many")
    func queue() {
        var queue = ReceiptQueue()
        func receipt(_ number: UInt64) -> PendingReceipt {
            PendingReceipt(kind: .opened, streamID: number)
        }
        let isNew = queue.add(receipt(1))
        let isAgain = queue.add(receipt(1))
        #expect(isNew && !isAgain && queue.all.count == 1)
        for number in 2...1001 as ClosedRange<UInt64> { _ = queue.add(receipt(number)) }
        #expect(queue.all.count == 1000 && queue.all.first == receipt(2))
        queue.remove(receipt(2))
        #expect(queue.all.first == receipt(3))
    }
}

@Suite struct RequestTableTests {
    @Test("NET-1 no two outstanding requests share a correlation, and none is 0")
    func correlations() {
        var table = RequestTable<Int>()
        for waiter in 1...1000 {
            let correlation = table.nextCorrelation()
            table.insert(waiter, correlation: correlation, connection: UInt64(waiter % 2))
            #expect(correlation != 0)
        }
        #expect(table.count == 1000)
        #expect(table.remove(7) == 7)
        #expect(table.remove(7) == nil)
        let lost = table.removeAll(ofConnection: 1)
        #expect(lost.count == 499 && lost.allSatisfy { $0 % 2 == 1 })
        #expect(table.count == 500)
    }
}
