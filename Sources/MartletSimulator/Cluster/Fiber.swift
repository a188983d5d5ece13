// SPDX-License-Identifier: Apache-2.0
//
// A thread of a simulated process. Production's threads wait inside of calls: for the log, for each other, for the
// time. A fiber is a thread of the system that runs while the world stands still, and rests while the world goes on. So
// one thread of a world runs at a time, and the agenda decides which. Rests on Agenda,
// ThreadTime and pthreads.

import Glibc
import Martlet
import MartletRows
import MartletThreads

/// A process of a simulated machine, seen from its fibers.
final class SimulatedProcess {
    let agenda: Agenda
    private(set) var fibers: [Fiber] = []
    /// The fiber that runs; nil: another process's, or none.
    fileprivate(set) var current: Fiber?
    var isKilled = false
    /// Time until which the process stands still.
    var thaw: Int64 = 0
    /// Time that a killed process has waited for, in microseconds. The world stands still meanwhile.
    fileprivate var lateness: Int64 = 0
    /// The observer of the process's calls to the log.
    var sight: NodeSight?
    private var fiberCount: Int64 = 0

    init(agenda: Agenda) { self.agenda = agenda }

    /// The time of the process's threads.
    fileprivate func time(of fiber: Fiber) -> ThreadTime {
        let (agenda, process, fiber) = (Unchecked(agenda), Unchecked(self), Unchecked(fiber))
        return ThreadTime(
            nanoseconds: { UInt64(agenda.value.now + process.value.lateness) * 1000 },
            pause: { fiber.value.pause(Int64($0)) })
    }

    /// The state of the fibers, for a reader of a failure.
    var description: String {
        let rests = fibers.map { $0.hasEnded ? "ended" : "\($0.rest) until \($0.planned)" }
        return "thaw \(thaw), " + rests.joined(separator: ", ")
    }

    /// Starts a fiber. It begins to run when the world goes on.
    @discardableResult
    func start(_ body: @escaping (Fiber) -> Void) -> Fiber {
        fibers.removeAll { $0.hasEnded }
        fiberCount += 1
        let fiber = Fiber(self, fiberCount, body)
        fibers.append(fiber)
        fiber.plan(at: agenda.now + 1)
        return fiber
    }

    /// Runs all fibers to their ends. Nothing in the process waits any more.
    func kill() {
        isKilled = true
        for fiber in fibers { fiber.runOut() }
        fibers = []
    }
}

/// A thread of a process.
final class Fiber: LogUser, @unchecked Sendable {
    /// The end of a rest beside its time.
    fileprivate enum Rest {
        case time
        case wake
        case answer
    }

    let process: SimulatedProcess
    private let number: Int64
    private let body: (Fiber) -> Void
    private let turn = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let rested = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var thread = pthread_t()
    private(set) var hasEnded = false
    fileprivate private(set) var rest = Rest.time
    private var hasWake = false
    /// Number of the latest plan; plans with an earlier number are void.
    private var plans = 0
    fileprivate private(set) var planned = Int64.max

    fileprivate init(
        _ process: SimulatedProcess, _ number: Int64, _ body: @escaping (Fiber) -> Void
    ) {
        self.process = process
        self.number = number
        self.body = body
        sem_init(turn, 0, 0)
        sem_init(rested, 0, 0)
        let code = pthread_create(
            &thread, nil,
            { argument in
                let fiber = Unmanaged<Fiber>.fromOpaque(argument!).takeRetainedValue()
                fiber.waitForTurn()
                fiber.process.time(of: fiber).use { fiber.body(fiber) }
                fiber.hasEnded = true
                sem_post(fiber.rested)
                return nil
            }, Unmanaged.passRetained(self).toOpaque())
        precondition(code == 0, "The system has threads.")
        pthread_detach(thread)
    }

    deinit {
        sem_destroy(turn)
        sem_destroy(rested)
        turn.deallocate()
        rested.deallocate()
    }

    private func waitForTurn() { while sem_wait(turn) != 0 {} }

    // MARK: By the world

    /// Plans the next turn, unless an earlier one is planned.
    fileprivate func plan(at time: Int64) {
        guard time < planned else { return }
        planned = time
        plans += 1
        let plan = plans
        process.agenda.at(time) { [weak self] in
            guard let self, plan == plans, !hasEnded else { return }
            planned = .max
            guard process.thaw <= process.agenda.now else { return self.plan(at: process.thaw) }
            run()
        }
    }

    private func run() {
        process.current = self
        sem_post(turn)
        while sem_wait(rested) != 0 {}
        process.current = nil
    }

    fileprivate func runOut() {
        plans += 1
        while !hasEnded { run() }
    }

    /// Ends a `sleep`, or the next one.
    func wake() {
        guard !hasWake else { return }
        hasWake = true
        // Fibers that are woken together begin one after another, in any order of the wakes.
        if rest == .wake { plan(at: process.agenda.now + 5 + number % 16) }
    }

    /// Ends a `wait` that is over.
    func signal() { if rest == .answer { plan(at: process.agenda.now) } }

    // MARK: By the fiber

    var isKilled: Bool { process.isKilled }
    private var now: Int64 { process.agenda.now }

    private func rest(until time: Int64, _ kind: Rest) {
        guard !isKilled else {
            if kind != .answer { process.lateness += max(0, min(time, now + 1_000_000) - now) }
            return
        }
        rest = kind
        planned = .max
        plan(at: time)
        sem_post(rested)
        waitForTurn()
        rest = .time
    }

    /// Rests for some microseconds.
    func pause(_ microseconds: Int64) { rest(until: now + max(1, microseconds), .time) }

    /// Rests until a time, or until a wake.
    func sleep(until time: Int64) {
        if !hasWake || isKilled { rest(until: time, .wake) }
        hasWake = false
    }

    func sends(_ row: LogPosition) { process.sight?.sends(row) }
    func hears(of row: LogPosition) { process.sight?.hears(of: row) }

    func wait(until end: Int64, or isOver: () -> Bool) {
        while !isKilled, !isOver(), now < end { rest(until: end, .answer) }
    }
}
