// SPDX-License-Identifier: Apache-2.0
//
// A machine of a world: a broker's process with its loops and its committer, its store and its disk. The broker's code is
// production's; the world only decides when each part takes its turn. A machine is alone, or a node of a cluster. Rests
// on SteppedBroker.

import Logging
import Martlet
import MartletBase
import MartletEngine
import MartletStore

/// A machine and its broker.
final class Machine {
    /// State of the broker's process.
    private enum Phase {
        case running
        /// NET-5: the process drains. The numbers are the loops that have not ended yet.
        case draining(Set<Int>)
        case stopped
    }

    /// A part of the broker that takes turns: a loop, or the committer.
    private struct Participant {
        var busyUntil: Int64 = 0
        var planned: Int64 = .max
        /// Number of the latest plan; plans with an earlier number are void.
        var plan = 0
    }

    unowned let world: World
    let number: Int
    let store: Store
    private(set) var broker: SteppedBroker<SimulatedTransport>?
    private var phase = Phase.stopped
    private var ports: [SimulatedPort] = []
    private var participants: [Participant] = []
    private var isAtRest = false
    /// The machine's place in a cluster; nil: the machine is alone.
    let cluster: SimulatedCluster?
    /// The fibers of a node's process.
    private(set) var process: SimulatedProcess?
    private var committing: Fiber?
    private var asking: Fiber?

    private var plan: WorldPlan { world.plan }
    private var agenda: Agenda { world.agenda }

    init(_ number: Int, in world: World, store: Store, cluster: SimulatedCluster? = nil) {
        self.number = number
        self.world = world
        self.store = store
        self.cluster = cluster
    }

    // MARK: The process

    func start() {
        guard broker == nil else { return }
        participants = Array(repeating: Participant(), count: plan.loopCount + 1)
        ports = (0...plan.loopCount).map {
            SimulatedPort(
                number: $0, machine: number, network: world.network,
                connectionsMax: plan.connectionsMax)
        }
        let process = SimulatedProcess(agenda: agenda)
        let clock = world.clock
        let broker = SteppedBroker<SimulatedTransport>(
            store: store, configuration: world.configuration(of: number),
            administratorKey: World.administratorKey,
            clock: { clock.instant }, monotonic: { clock.milliseconds },
            loopCount: plan.loopCount, connectionsMax: plan.connectionsMax,
            node: cluster?.place(of: self, process),
            transport: { [ports] in SimulatedTransport(port: ports[$0]) })
        broker.acknowledgingBounds = plan.acknowledgingBounds
        broker.isCutShort = !isAtRest
        broker.observeNowOrNever { [unowned oracle = world.oracle] in oracle.committed($0, $1) }
        self.broker = broker
        phase = .running
        world.network.listen(ports, on: number)
        if cluster != nil {
            self.process = process
            startThreads(of: broker, process)
        } else {
            world.tamper(broker)
            world.oracle.restarted()
        }
        for number in participants.indices { wake(number, after: 1) }
    }

    private func startThreads(
        of broker: SteppedBroker<SimulatedTransport>, _ process: SimulatedProcess
    ) {
        committing = process.start { [unowned self, ports] fiber in
            var transport = CommitterTransport(port: ports[plan.loopCount], fiber: fiber)
            broker.runCommitter(&transport)
            guard !fiber.isKilled else { return }
            broker.endThreads()
            agenda.after(1) { [unowned self] in ended() }
        }
        process.start { _ in broker.runKeeper() }
        process.start { _ in broker.runLink() }
        asking = process.start { [unowned self] fiber in
            while !fiber.isKilled {
                fiber.sleep(until: agenda.now + 1_000_000)
                guard broker.answerQuestions() else { continue }
                for number in 0..<plan.loopCount { wake(number, after: 1) }
            }
        }
    }

    /// Lets transactions be as long as production's, so that a slow disk catches up with the backlog.
    func leaveTransactionsWhole() {
        isAtRest = true
        broker?.isCutShort = false
    }

    /// Kills the process. Only committed data stays.
    func stop() {
        world.network.die(number)
        phase = .stopped
        for number in participants.indices { participants[number].plan += 1 }
        if let process {
            process.isKilled = true
            broker?.killNode()
            process.kill()
        }
        process = nil
        committing = nil
        asking = nil
        broker = nil
    }

    func restart() {
        stop()
        let mean = cluster == nil ? 50_000 : world.plan.restartMean
        agenda.after(world.random.pause(mean: mean)) { [unowned self] in start() }
    }

    func crash() {
        guard broker != nil else { return }
        world.trace.note("crash", number)
        restart()
    }

    /// NET-5: asks the process to end.
    func shutDown() {
        guard case .running = phase, let broker else { return }
        world.trace.note("drain", number)
        phase = .draining(Set(0..<plan.loopCount))
        broker.drain()
        for number in 0..<plan.loopCount { wake(number, after: 1) }
    }

    /// Notes the end of a loop. After the last loop, the committer applies the remaining commands.
    private func loopEnded(_ number: Int) {
        guard case .draining(var left) = phase, left.remove(number) != nil else { return }
        phase = .draining(left)
        guard left.isEmpty, let broker else { return }
        guard cluster == nil else { return broker.endNode() }
        while broker.commit(world.observe) {}
        ended()
    }

    private func ended() {
        guard case .draining = phase else { return }
        world.trace.note("drained", number)
        restart()
    }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    /// Stops the process for a time, and lets it go on.
    func freeze(until time: Int64) {
        world.trace.note("freeze", number, Int(time - agenda.now))
        process?.thaw = time
    }

    var isFrozen: Bool { thaw > agenda.now }
    private var thaw: Int64 { process?.thaw ?? 0 }

    // MARK: Turns

    func wakeCommitter() { committing?.wake() }

    func wake(_ number: Int, after delay: Int64) {
        guard number < participants.count else { return }
        if cluster != nil, number == plan.loopCount {
            committing?.wake()
        } else {
            plan(number, at: max(agenda.now + delay, participants[number].busyUntil))
        }
    }

    private func plan(_ number: Int, at time: Int64) {
        guard broker != nil, time < participants[number].planned else { return }
        participants[number].planned = time
        participants[number].plan += 1
        let plan = participants[number].plan
        agenda.at(time) { [unowned self] in
            guard plan == participants[number].plan, broker != nil else { return }
            participants[number].planned = .max
            guard thaw <= agenda.now else { return self.plan(number, at: thaw) }
            number < self.plan.loopCount ? turn(number) : commit()
        }
    }

    private func turn(_ number: Int) {
        guard let broker else { return }
        if broker.isAway { world.lastAway = agenda.now }
        guard let wait = broker.turn(number) else { return loopEnded(number) }
        world.trace.note("turn", number, wait, self.number)
        if let meter = world.meter { world.measure(meter, broker) }
        let end = agenda.now + world.random.pause(mean: plan.turnCost)
        participants[number].busyUntil = end
        let isBusy = wait == 0 || ports[number].hasCompletions
        plan(number, at: isBusy ? end : end + Int64(wait) * 1000)
        if cluster != nil {
            if broker.hasQuestions { asking?.wake() }
        } else if broker.answerQuestions() {
            for number in 0..<plan.loopCount { wake(number, after: 1) }
        }
    }

    private func commit() {
        guard let broker else { return }
        let hasMore = broker.commit(world.observe)
        let number = plan.loopCount
        let end = agenda.now + world.random.pause(mean: plan.commitCost)
        participants[number].busyUntil = end
        plan(number, at: hasMore ? end : end + 1_000_000)
    }
}
