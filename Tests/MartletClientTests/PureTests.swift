// SPDX-License-Identifier: Apache-2.0
//
// The client's decisions without sockets or clocks: pauses, duplicates, acknowledgements, heartbeat
// and correlations.

import MartletClient
import Testing

/// SplitMix64, so that a failure can be run again.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

@Suite struct BackoffTests {
    @Test("DEV-1 pauses are a random part of 0.5 s, 1 s, 2 s … and never more than 60 s")
    func bounds() {
        var random = SeededGenerator(state: 1)
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
        var random = SeededGenerator(state: 2)
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
        var random = SeededGenerator(state: 3)
        for _ in 0..<200 {
            var backoff = Backoff()
            let pause = backoff.next(notBefore: 10_000, using: &random)
            #expect(pause >= .seconds(10) && pause <= .seconds(10.5))
        }
    }

    @Test("DEV-1 a success starts from the base again, and a thousand failures do not overflow")
    func success() {
        var random = SeededGenerator(state: 4)
        var backoff = Backoff()
        for _ in 0..<1000 { _ = backoff.next(using: &random) }
        #expect(backoff.longestNext == .seconds(60))
        backoff.succeeded()
        #expect(backoff.longestNext == .milliseconds(500))
    }
}

@Suite struct DeliveryLedgerTests {
    @Test("DEV-3 an acknowledgement passes neither what was taken nor what this connection brought")
    func marks() {
        var ledger = DeliveryLedger(receivedThrough: 0)
        ledger.connected(receivedThrough: 0, acknowledgedThrough: 0)
        for id in [10, 20, 30] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(isNew)
        }
        #expect(ledger.acknowledgement == nil)
        ledger.take(20)
        #expect(ledger.acknowledgement == nil)
        ledger.take(10)
        #expect(ledger.acknowledgement == 20)
        ledger.acknowledged(through: 20)
        #expect(ledger.acknowledgement == nil && ledger.unsentCount == 0)

        ledger.connected(receivedThrough: 20, acknowledgedThrough: 0)
        ledger.take(30)
        #expect(ledger.takenThrough == 30)
        #expect(ledger.acknowledgement == nil, "30 was not delivered on this connection")
        let isNew = ledger.deliver(30)
        #expect(!isNew)
        #expect(ledger.acknowledgement == 30)
    }

    @Test("DEV-3 duplicates are dropped, against a naive model, however often connections break")
    func model() {
        var random = SeededGenerator(state: 7)
        for _ in 0..<200 {
            var ledger = DeliveryLedger(receivedThrough: 0)
            var given: Set<UInt64> = []
            var taken: Set<UInt64> = []
            var acknowledged: UInt64 = 0
            var newest: UInt64 = 0
            var published: [UInt64] = []
            for _ in 0..<12 {
                let received = ledger.takenThrough
                #expect(given.allSatisfy { $0 > received || taken.contains($0) })
                acknowledged = max(acknowledged, received)
                ledger.connected(receivedThrough: received, acknowledgedThrough: acknowledged)
                for _ in 0..<Int.random(in: 0...8, using: &random) {
                    newest += .random(in: 1...9, using: &random)
                    published.append(newest)
                }
                var delivered: UInt64 = 0
                let pending = published.filter { $0 > acknowledged }
                for id in pending.prefix(Int.random(in: 0...pending.count, using: &random)) {
                    delivered = id
                    let isNew = ledger.deliver(id)
                    #expect(isNew == given.insert(id).inserted)
                    if let next = given.subtracting(taken).min(), Bool.random(using: &random) {
                        ledger.take(next)
                        taken.insert(next)
                    }
                    if let through = ledger.acknowledgement, Bool.random(using: &random) {
                        #expect(through <= delivered)
                        #expect(given.allSatisfy { $0 > through || taken.contains($0) })
                        ledger.acknowledged(through: through)
                        acknowledged = max(acknowledged, through)
                    }
                }
            }
        }
    }

    @Test("DEV-3 what is remembered one by one is bounded")
    func bounded() {
        var ledger = DeliveryLedger(receivedThrough: 0)
        ledger.connected(receivedThrough: 0, acknowledgedThrough: 0)
        for id in 1...10_000 as ClosedRange<UInt64> {
            let isNew = ledger.deliver(id)
            #expect(isNew)
            ledger.take(id)
        }
        for id in [1, 5000, 10_000] as [UInt64] {
            let isNew = ledger.deliver(id)
            #expect(!isNew)
        }
        #expect(ledger.takenThrough == 10_000)
    }
}

@Suite struct HeartbeatTests {
    @Test(
        "NET-2 a connection that is busy both ways is not pinged, a silent one is, a dead one ends")
    func decisions() {
        var heartbeat = Heartbeat()
        heartbeat.sent()
        heartbeat.received()
        #expect(heartbeat.tick(isReading: true) == .nothing)
        #expect(heartbeat.tick(isReading: true) == .ping)
        heartbeat.received()
        #expect(heartbeat.tick(isReading: true) == .ping, "this side was silent")
        heartbeat.sent()
        #expect(heartbeat.tick(isReading: true) == .ping, "the other side was silent")
        #expect(heartbeat.tick(isReading: true) == .giveUp)
    }

    @Test("NET-2 while the application holds back reading, silence is no death")
    func paused() {
        var heartbeat = Heartbeat()
        for _ in 0..<5 { #expect(heartbeat.tick(isReading: false) == .ping) }
        #expect(heartbeat.tick(isReading: true) == .ping)
        #expect(heartbeat.tick(isReading: true) == .giveUp)
    }

    @Test("NET-2 a ping comes at least twice in the time that the broker bears")
    func interval() {
        let configured = Duration.seconds(840)
        #expect(Heartbeat.interval(configured: configured, idleSeconds: 1800) == configured)
        #expect(Heartbeat.interval(configured: configured, idleSeconds: 60) == .seconds(30))
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
