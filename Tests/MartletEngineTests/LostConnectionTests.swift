// SPDX-License-Identifier: Apache-2.0
//
// A broker that ended without a word left connections in the store. They ended where the next run began,
// and it is the same whether that has been written down for an instance already or not. Rests on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Connections lost in a crash")
struct LostConnectionTests {
    private static var limits: BrokerLimits {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 2
        limits.inactiveSeconds = 1000
        return limits
    }

    private func connect(_ instance: Instance, _ number: UInt64, _ bench: SendBench) throws {
        _ = try bench.apply(
            .connected(
                project: bench.tides, ordinal: instance.ordinal, holder: instance.holder,
                connection: ConnectionStart(number: number, position: try bench.lastSequence())))
    }

    private func send(_ count: Int, to instance: Instance, _ bench: SendBench) throws {
        for _ in 0..<count {
            _ = try bench.accepted(SendCommand(target: .token(instance.token.text), body: [1]))
        }
    }

    /// The broker crashes, and another begins that has not looked at any instance yet.
    private func crash(_ bench: SendBench) throws {
        let now = bench.now
        try bench.store.write { (transaction) throws(StorageError) in
            try transaction.connections.beginRun(now: now)
        }
    }

    private func walk(_ bench: SendBench, rowsMax: Int) throws -> Bool {
        let now = bench.now
        return try bench.store.write { (transaction) throws(StorageError) in
            try transaction.connections.endAllLost(now: now, rowsMax: rowsMax)
        }
    }

    @Test("STO-2: an instance is not inactive while it is connected, however short the time is")
    func connectedForLong() throws {
        let bench = try SendBench(Self.limits)
        let (here, away) = (try bench.register(), try bench.register())
        // The broker begins.
        _ = try bench.advance()
        try connect(here, 7, bench)
        for _ in 0..<5 {
            bench.wait(seconds: 1001)
            _ = try bench.advance()
            let (acceptance, fanouts) = try bench.accepted(
                SendCommand(target: .token(here.token.text), body: [1]))
            #expect(acceptance.inactiveCount == 0 && fanouts.count == 1)
        }
        #expect(
            try bench.accepted(SendCommand(target: .token(away.token.text), body: [1])).acceptance
                .inactiveCount == 1)
        // A crash ends the connection, and the time counts from there.
        try crash(bench)
        bench.wait(seconds: 1001)
        while try walk(bench, rowsMax: 100) {}
        _ = try bench.advance()
        #expect(
            try bench.accepted(SendCommand(target: .token(here.token.text), body: [1])).acceptance
                .inactiveCount == 1)
        try bench.expectClean()
    }

    enum Touch: CaseIterable {
        case walk, connecting, leaving, expiring
    }

    @Test(
        "STO-1 OPS-4: an instance is away from the run's end on, however late that is written down",
        arguments: Touch.allCases)
    func ends(_ touch: Touch) throws {
        let bench = try SendBench(Self.limits)
        let instance = try bench.register()
        try connect(instance, 7, bench)
        try send(3, to: instance, bench)
        bench.wait(seconds: 10)
        let crashed = bench.now
        try crash(bench)
        #expect(try bench.state(instance).hasLostConnection)
        // Two crashes in a row: the first one ended it.
        bench.wait(seconds: 10)
        try send(1, to: instance, bench)
        try crash(bench)
        let ended = MessageSequence(try bench.lastSequence().rawValue - 1)
        try send(2, to: instance, bench)
        switch touch {
        case .walk: while try walk(bench, rowsMax: 1) {}
        case .connecting: try connect(instance, 1, bench)
        case .leaving:
            _ = try bench.apply(
                .acknowledge([
                    Acknowledgement(
                        project: bench.tides, ordinal: instance.ordinal, through: LaneMarks(.none),
                        departure: Acknowledgement.Departure(
                            connectionNumber: 1, position: .none,
                            throttleFull: Instant(millisecondsSince1970: 0), seen: crashed))
                ]))
        case .expiring:
            _ = try bench.accepted(
                SendCommand(
                    target: .token(instance.token.text), body: [2], lifespan: .seconds(1),
                    collapse: .named("k")))
            bench.wait(seconds: 1)
            let (now, limits) = (bench.now, bench.limits)
            _ = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: 100)
            }
        }
        let after = try bench.state(instance)
        #expect(!after.hasLostConnection)
        #expect(after.awayFrom == (touch == .connecting ? try bench.lastSequence() : ended))
        if touch != .connecting { #expect(after.seen == crashed) }
        let mailbox = try bench.mailbox(instance)
        // What the connection had not taken counts too.
        #expect(mailbox.bodies.count == 2)
        #expect(mailbox.discardedCount == 4)
        try bench.expectClean()
        while try walk(bench, rowsMax: 100) {}
        #expect(try bench.state(instance).awayFrom == after.awayFrom)
        try bench.expectClean()
    }

    @Test("STO-1: what was discarded before the lost connection stays discarded, and told")
    func earlierAbsence() throws {
        let bench = try SendBench(Self.limits)
        let instance = try bench.register()
        try send(3, to: instance, bench)
        try connect(instance, 1, bench)
        try send(1, to: instance, bench)
        try crash(bench)
        try send(1, to: instance, bench)
        #expect(try !walk(bench, rowsMax: 100))
        let mailbox = try bench.mailbox(instance)
        #expect(mailbox.discardedCount == 3)
        #expect(mailbox.bodies.count == 2)
        try bench.expectClean()
    }

    @Test("STO-1 TTL-3: what expired before a lost connection was ended has counted until then")
    func expiredMeanwhile() throws {
        let bench = try SendBench(Self.limits)
        let instance = try bench.register()
        try send(3, to: instance, bench)
        try connect(instance, 1, bench)
        try crash(bench)
        for _ in 0..<3 {
            _ = try bench.accepted(
                SendCommand(
                    target: .token(instance.token.text), body: [1], lifespan: .seconds(5)))
        }
        bench.wait(seconds: 10)
        try connect(instance, 1, bench)
        #expect(try bench.mailbox(instance).discardedCount == 6)
        try bench.expectClean()
    }

    @Test("STO-2: whose connection was lost was seen when the next run began")
    func seen() throws {
        let bench = try SendBench(Self.limits)
        let instances = [try bench.register(), try bench.register()]
        try bench.subscribe(instances, to: "t")
        try connect(instances[0], 1, bench)
        bench.wait(seconds: 5000)
        try crash(bench)
        func inactiveCount() throws -> UInt64 {
            let (now, limits) = (bench.now, bench.limits)
            _ = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: 100)
            }
            // The engine was not told that time has passed: this makes it look again.
            _ = try bench.register()
            return try bench.accepted(SendCommand(target: .topic("t"), body: [1])).acceptance
                .inactiveCount
        }
        #expect(try inactiveCount() == 1)
        bench.wait(seconds: 1000)
        #expect(try inactiveCount() == 1)
        bench.wait(seconds: 1)
        #expect(try inactiveCount() == 2)
        try bench.expectClean()
    }

    @Test("OPS-4: the walk ends the lost connections in bounded steps, and none that is new")
    func boundedSteps() throws {
        let bench = try SendBench(Self.limits)
        let instances = try (0..<50).map { _ in try bench.register() }
        for instance in instances { try connect(instance, 1, bench) }
        try crash(bench)
        for instance in instances[10..<20] { try connect(instance, 2, bench) }
        func lostCount() throws -> Int {
            try instances.count { try bench.state($0).hasLostConnection }
        }
        #expect(try lostCount() == 40)
        var steps = 0
        var before = 40
        while try walk(bench, rowsMax: 5) {
            steps += 1
            let left = try lostCount()
            #expect(before - left <= 5)
            before = left
            try bench.expectClean()
        }
        #expect(try lostCount() == 0)
        #expect((8...12).contains(steps))
        for (index, instance) in instances.enumerated() {
            let isConnected = try bench.state(instance).awayThrough != MessageSequence(.max)
            #expect(isConnected == (10..<20).contains(index))
        }
        try bench.expectClean()
    }
}
