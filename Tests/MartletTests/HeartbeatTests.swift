// SPDX-License-Identifier: Apache-2.0
//
// A thread that hangs is named, whatever holds it, and nobody else is: neither a broker without work nor a process that was
// frozen (OPS-12, OPS-15). Rests on Pulse and TestBroker.

import Foundation
import Martlet
import MartletThreads
import Synchronization
import Testing

@Suite("Threads that do not answer", .timeLimit(.minutes(2)))
struct HeartbeatTests {
    /// A pulse on a clock that the test moves.
    private final class Bench: Sendable {
        let time = Guarded<Int64>(5000)
        let pulse: Pulse

        init() {
            let time = time
            pulse = Pulse { time.value }
        }

        /// Time goes on, and the pulse ticks as its thread does.
        func pass(_ milliseconds: Int64) {
            var left = milliseconds
            while left > 0 {
                let step = min(left, 500)
                time.set(time.value + step)
                pulse.tick()
                left -= step
            }
        }
    }

    /// Milliseconds that the test moves.
    private final class Guarded<Value: Sendable>: Sendable {
        private let inner: Mutex<Value>
        init(_ value: Value) { inner = .init(value) }
        var value: Value { inner.withLock { $0 } }
        func set(_ value: Value) { inner.withLock { $0 = value } }
    }

    @Test("OPS-15 OPS-12 who is not back in time is named, with the seconds, until the next sign")
    func named() {
        let bench = Bench()
        let disk = bench.pulse.heartbeat(of: "the disk")
        let loop = bench.pulse.heartbeat(of: "loop 0")
        bench.pass(60_000)
        #expect(bench.pulse.silence == nil, "nobody has begun")
        loop.rest(milliseconds: 1000)
        bench.pass(2000)
        #expect(bench.pulse.silence == nil)
        bench.pass(1000)
        #expect(bench.pulse.silence == "Loop 0 has not answered for 2 s.")
        disk.beat()
        bench.pass(4000)
        #expect(bench.pulse.silence == "The disk has not answered for 4 s, loop 0 for 6 s.")
        disk.end()
        loop.beat()
        #expect(bench.pulse.silence == nil)
    }

    @Test("OPS-15 OPS-12 a process that was frozen names nobody when it returns")
    func frozen() {
        let bench = Bench()
        let loop = bench.pulse.heartbeat(of: "loop 0")
        loop.rest(milliseconds: 1000)
        bench.pass(500)
        bench.time.set(bench.time.value + 60_000)
        #expect(bench.pulse.silence == nil, "before the first tick")
        bench.pulse.tick()
        #expect(bench.pulse.silence == nil, "after it")
        #expect(bench.pulse.waited(since: 0) == 0)
        bench.pass(1000)
        #expect(bench.pulse.silence == nil)
        bench.pass(1000)
        #expect(bench.pulse.silence == "Loop 0 has not answered for 2 s.", "it really hangs")
    }

    /// Holds one thread of a broker in the clock.
    private final class Holder: Sendable {
        private let held = Guarded<String?>(nil)
        private let gate = DispatchSemaphore(value: 0)

        func hold(_ thread: String) { held.set(thread) }
        func release() {
            held.set(nil)
            gate.signal()
        }

        func now() -> Instant {
            if let thread = held.value {
                let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
                if name == thread + "\n" { gate.wait() }
            }
            return Instant(millisecondsSince1970: Int64(Date().timeIntervalSince1970 * 1000))
        }
    }

    @Test(
        "OPS-15 OPS-12 a loop or a committer that is held fails the check of health by its name",
        arguments: [
            ("martlet-loop-1", "Loop 1 has not answered for "),
            ("martlet-commit", "The committer has not answered for "),
        ])
    func held(thread: String, words: String) async throws {
        let folder = TemporaryFolder()
        let holder = Holder()
        var configuration = BrokerConfiguration(folder: folder.path, address: .init(port: 0))
        configuration.loopCount = 2
        configuration.clock = { holder.now() }
        let broker = try await Broker.open(configuration)
        try await broker.checkWrites()
        holder.hold(thread)
        var told = ""
        while !told.hasPrefix(words) {
            do {
                try await broker.checkWrites()
                try await Task.sleep(for: .milliseconds(100))
            } catch { told = (error as? MartletError)?.message ?? "" }
        }
        #expect(broker.writeFault?.hasPrefix(words) ?? false)
        #expect(broker.silence?.hasPrefix(words) ?? false)
        holder.release()
        while broker.silence != nil { try await Task.sleep(for: .milliseconds(20)) }
        while broker.writeFault != nil { try await Task.sleep(for: .milliseconds(100)) }
        try await broker.checkWrites()
        try await broker.close()
        #expect(broker.silence == nil)
    }
}
