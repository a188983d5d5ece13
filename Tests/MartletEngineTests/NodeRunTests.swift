// SPDX-License-Identifier: Apache-2.0
//
// The runs of a cluster's nodes: several runs live, and the end of one loses the connections of that node alone. Rests
// on SendBench.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows
import Testing

@Suite("Connections of several nodes")
struct NodeRunTests {
    private static var limits: BrokerLimits {
        var limits = BrokerLimits.none
        limits.storedPerInstanceMax = 2
        return limits
    }

    private func end(_ node: String, _ bench: SendBench) throws -> UInt32? {
        let now = bench.now
        return try bench.store.write { (transaction) throws(StorageError) in
            try transaction.connections.endRun(of: node, now: now)
        }
    }

    private func connect(
        _ instance: Instance, _ number: UInt64, in run: UInt32, _ bench: SendBench
    ) throws {
        let (now, limits, project) = (bench.now, bench.limits, bench.tides)
        try bench.store.write { (transaction) throws(StorageError) in
            let last = try transaction.projects.project(project)!.lastSequence
            try transaction.presence.connected(
                instance.ordinal, in: project, ConnectionStart(number: number, position: last),
                run: run, now: now, limits: limits)
        }
    }

    private func isLost(_ instance: Instance, _ bench: SendBench) throws -> Bool {
        try bench.state(instance).hasLostConnection
    }

    /// Ends all lost connections, in steps of a row.
    private func walk(_ bench: SendBench) throws {
        let now = bench.now
        while try bench.store.write({ (transaction) throws(StorageError) in
            try transaction.connections.endAllLost(now: now, rowsMax: 1)
        }) {}
    }

    private func isConnected(_ instance: Instance, _ bench: SendBench) throws -> Bool {
        try bench.state(instance).isConnected
    }

    @Test("OPS-7 the end of a node loses its connections, and those of no other node")
    func endsOne() throws {
        let bench = try SendBench(Self.limits)
        let (first, second) = (try bench.register(), try bench.register())
        let a = try bench.beginRun(of: "a", process: 1)
        let b = try bench.beginRun(of: "b", process: 2)
        #expect(a != b)
        try connect(first, 7, in: a, bench)
        try connect(second, 8, in: b, bench)
        #expect(try !isLost(first, bench) && !isLost(second, bench))
        #expect(try end("a", bench) == a)
        #expect(try isLost(first, bench) && !isLost(second, bench))
        try walk(bench)
        #expect(try !isConnected(first, bench) && isConnected(second, bench))
        try bench.expectClean()
    }

    @Test("OPS-7 the run with the highest number ends like any other")
    func endsTheLast() throws {
        let bench = try SendBench(Self.limits)
        let (first, second) = (try bench.register(), try bench.register())
        let a = try bench.beginRun(of: "a", process: 1)
        let b = try bench.beginRun(of: "b", process: 2)
        try connect(first, 7, in: a, bench)
        try connect(second, 8, in: b, bench)
        #expect(try end("b", bench) == b)
        #expect(try !isLost(first, bench) && isLost(second, bench))
        // Another process of the node has another run, in which the former connection is still lost.
        let next = try bench.beginRun(of: "b", process: 3)
        #expect(next > b)
        #expect(try isLost(second, bench))
        try walk(bench)
        #expect(try isConnected(first, bench) && !isConnected(second, bench))
        try bench.expectClean()
    }

    @Test("OPS-7 a process has one run, and a new process of the node ends the run before")
    func beginsOnce() throws {
        let bench = try SendBench(Self.limits)
        let instance = try bench.register()
        let run = try bench.beginRun(of: "a", process: 1)
        #expect(try bench.beginRun(of: "a", process: 1) == run)
        try connect(instance, 7, in: run, bench)
        let next = try bench.beginRun(of: "a", process: 2)
        #expect(next > run)
        #expect(try isLost(instance, bench))
        #expect(try end("c", bench) == nil)
    }

    @Test(
        "STO-1 an instance is away from the end of its node's run on, and another end changes nothing"
    )
    func countsFromItsOwnEnd() throws {
        let bench = try SendBench(Self.limits)
        let (first, second) = (try bench.register(), try bench.register())
        let a = try bench.beginRun(of: "a", process: 1)
        let b = try bench.beginRun(of: "b", process: 2)
        try connect(first, 7, in: a, bench)
        try connect(second, 8, in: b, bench)
        // While it is connected, more messages may wait than for an instance that is away.
        for _ in 0..<3 {
            _ = try bench.accepted(SendCommand(target: .token(first.token.text), body: [1]))
        }
        _ = try end("a", bench)
        let ended = try bench.lastSequence()
        _ = try bench.accepted(SendCommand(target: .token(second.token.text), body: [1]))
        _ = try end("b", bench)
        try walk(bench)
        #expect(try bench.state(first).awayFrom == ended)
        try bench.expectClean()
    }
}
