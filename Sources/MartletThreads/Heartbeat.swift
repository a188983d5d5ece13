// SPDX-License-Identifier: Apache-2.0
//
// Whether the threads of a broker answer (OPS-12). Each loop and the committer say by when they will be back: now, while
// they work, and at the end of the longest wait, while they sleep. Who is not back in time hangs: in a write that the
// system does not end, in a lock, in a log that nobody reads. A sign is one store to memory for each turn of a thread, and
// never one for each delivery.
//
// A process may stand still as a whole, frozen or starved. A thread that does nothing but tick notices: its last tick is
// old too, and then nobody's silence counts until some time after the return. Rests on Synchronization.

package import MartletBase
import Synchronization

/// The signs of life of one thread, or of the disk on which it waits. Written by one thread.
package final class Heartbeat: Sendable {
    let name: String
    /// When the next sign is due, in milliseconds of the monotonic clock; `.max`: no sign is due.
    fileprivate let due = Atomic<Int64>(.max)

    private let now: @Sendable () -> Int64

    fileprivate init(name: String, _ now: @escaping @Sendable () -> Int64) {
        self.name = name
        self.now = now
    }

    /// The thread works from now on.
    package func beat() { rest(milliseconds: 0) }

    /// The thread sleeps, and is back in time for the next sign.
    package func rest(milliseconds: Int) {
        due.store(now() + Int64(milliseconds), ordering: .relaxed)
    }

    /// No sign is due until the next one.
    package func end() { due.store(.max, ordering: .relaxed) }
}

/// The heartbeats of a broker.
package final class Pulse: Sendable {
    /// Silence that is told. A turn of a loop takes milliseconds, and so does a write to a disk that is well; many probes
    /// wait for two seconds.
    package static let silentMilliseconds: Int64 = 1500
    /// Time between two ticks, and the age of the last tick from which on the process was away. In between lie the
    /// delays of a busy machine.
    static let tickMilliseconds: Int64 = 500
    package static let awayMilliseconds: Int64 = 2000

    private let now: @Sendable () -> Int64
    private let heartbeats = Mutex<[Heartbeat]>([])
    private let lastTick: Atomic<Int64>
    /// When the process came back the last time.
    private let returned: Atomic<Int64>
    private let isStopping = Atomic(false)
    private let thread = Mutex<SystemThread?>(nil)

    /// - Parameter now: milliseconds of a monotonic clock.
    package init(now: @escaping @Sendable () -> Int64 = { SystemClock.monotonicMilliseconds() }) {
        self.now = now
        let began = now()
        lastTick = Atomic(began)
        returned = Atomic(began)
    }

    /// A heartbeat that is watched from its first sign on.
    /// - Parameter name: the subject of a sentence, as "loop 0".
    package func heartbeat(of name: String) -> Heartbeat {
        let new = Heartbeat(name: name, now)
        heartbeats.withLock { $0.append(new) }
        return new
    }

    /// Milliseconds since a time of the monotonic clock, without those in which the process stood still.
    package func waited(since time: Int64) -> Int64 {
        let now = now()
        guard now - lastTick.load(ordering: .relaxed) < Self.awayMilliseconds else { return 0 }
        return max(now - max(time, returned.load(ordering: .relaxed)), 0)
    }

    /// Who does not answer, and for how many milliseconds.
    private var silent: [(name: String, milliseconds: Int64)] {
        heartbeats.withLock { $0 }.compactMap { heartbeat in
            let due = heartbeat.due.load(ordering: .relaxed)
            guard due != .max else { return nil }
            let silent = waited(since: due)
            return silent < Self.silentMilliseconds ? nil : (heartbeat.name, silent)
        }
    }

    /// Names who does not answer, and for how many seconds, in a sentence; nil: all answer.
    package var silence: String? {
        var sentence = ""
        for (name, milliseconds) in silent {
            sentence +=
                sentence.isEmpty
                ? name.prefix(1).uppercased() + name.dropFirst()
                    + " has not answered for \(milliseconds / 1000) s"
                : ", \(name) for \(milliseconds / 1000) s"
        }
        return sentence.isEmpty ? nil : sentence + "."
    }

    /// The longest silence, in whole seconds; 0: all answer.
    package var silentSeconds: Int { Int(silent.map(\.milliseconds).max() ?? 0) / 1000 }

    /// Notes that the process runs, and whether it was away since the last tick.
    package func tick() {
        let now = now()
        if now - lastTick.load(ordering: .relaxed) >= Self.awayMilliseconds {
            returned.store(now, ordering: .relaxed)
        }
        lastTick.store(now, ordering: .relaxed)
    }

    /// Ticks on a thread of its own.
    package func start() throws(MartletError) {
        tick()
        let running = try SystemThread(name: "martlet-pulse") { [self] in
            while !isStopping.load(ordering: .acquiring) {
                tick()
                SystemClock.pause(microseconds: UInt32(Self.tickMilliseconds) * 1000)
            }
        }
        thread.withLock { $0 = running }
    }

    /// Ends the thread. Nobody's silence counts any more.
    package func stop() {
        isStopping.store(true, ordering: .releasing)
        thread.withLock { $0.take() }?.detach()
    }
}
