// SPDX-License-Identifier: Apache-2.0
//
// A world: a broker's loops, committer and store, the network, and all clients, in one thread on simulated time. The
// broker's code is production's; the world only decides when each part takes its turn. Rests on SteppedBroker.

import Logging
import Martlet
import MartletBase
import MartletEngine
import MartletStore

/// A simulated world.
final class World {
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

    static let administratorKey = "simulated"

    let plan: WorldPlan
    let clock = SimulatedClock()
    let agenda: Agenda
    let trace: Trace
    let network: SimulatedNetwork
    let oracle: Oracle
    var random: Randomness
    let store: Store
    let disk: SimulatedDisk
    private let canary: Canary?
    private var broker: SteppedBroker<SimulatedTransport>?
    private var phase = Phase.stopped
    private var isAtRest = false
    private var ports: [SimulatedPort] = []
    private var participants: [Participant] = []
    var devices: [SimulatedDevice] = []
    var phones: [SimulatedPhone] = []
    var senders: [SimulatedSender] = []
    var listeners: [SimulatedListener] = []
    /// Numbers of the listeners that have left at least once.
    var haveLeft: Set<Int> = []
    var meter: ShareMeter?
    var lastClient = 0

    init(seed: UInt64, plan: WorldPlan, folder: String, canary: Canary?, tell: ((String) -> Void)?)
        throws
    {
        self.plan = plan
        self.canary = canary
        random = Randomness(seed: seed &* 2 &+ 1)
        agenda = Agenda(clock: clock)
        trace = Trace(clock: clock, tell: tell)
        network = SimulatedNetwork(
            agenda: agenda, trace: trace, conditions: plan.conditions,
            random: Randomness(seed: random.next()))
        oracle = Oracle(clock: clock, trace: trace, limits: plan.limits)
        let disk = SimulatedDisk(
            random: Randomness(seed: random.next()), commitChance: plan.failedCommitChance,
            readChance: plan.failedReadChance)
        self.disk = disk
        var configuration = StoreConfiguration(
            folder: folder, mapBytes: 64 << 20, durability: .os)
        configuration.faults = disk.faults
        store = try Store(configuration)
        network.onWake = { [unowned self] in
            wake($0, after: Int64(random.number(1...40)))
        }
        if canary == .misdirect { network.misdirectChance = 20 }
        start()
        tell?("\(plan)")
    }

    deinit { stop() }

    /// Ends the world, and releases the references between plans and connections.
    func end() {
        stop()
        for phone in phones { phone.breakOff(.vanished) }
        agenda.clear()
        network.onSend = nil
    }

    // MARK: The broker's machine

    private func start() {
        participants = Array(repeating: Participant(), count: plan.loopCount + 1)
        ports = (0...plan.loopCount).map {
            SimulatedPort(number: $0, network: network, connectionsMax: plan.connectionsMax)
        }
        var configuration = BrokerConfiguration(folder: "")
        configuration.limits = plan.limits
        configuration.idleSeconds = plan.idleSeconds
        if canary == .quota, plan.limits.deviceMessagesPerMinute > 0 {
            configuration.limits.deviceMessagesPerMinute += 1
            configuration.limits.deviceMessagesPerHour += 1
        }
        configuration.logger = Logger(label: "simulated") { _ in SwiftLogNoOpLogHandler() }
        let clock = clock
        let broker = SteppedBroker<SimulatedTransport>(
            store: store, configuration: configuration, administratorKey: Self.administratorKey,
            clock: { clock.instant }, monotonic: { clock.milliseconds },
            loopCount: plan.loopCount, connectionsMax: plan.connectionsMax,
            transport: { [ports] in SimulatedTransport(port: ports[$0]) })
        broker.acknowledgingBounds = plan.acknowledgingBounds
        broker.isCutShort = !isAtRest
        broker.observeLive { [unowned oracle] in oracle.committed($0, $1) }
        tamper(broker)
        self.broker = broker
        phase = .running
        network.listen(ports)
        oracle.restarted()
        for number in participants.indices { wake(number, after: 1) }
    }

    /// Lets transactions be as long as production's, so that a slow disk catches up with the backlog.
    func leaveTransactionsWhole() {
        isAtRest = true
        broker?.isCutShort = false
    }

    /// Kills the process. Only committed data stays.
    private func stop() {
        network.die()
        broker = nil
        phase = .stopped
        for number in participants.indices { participants[number].plan += 1 }
    }

    func crash() {
        guard broker != nil else { return }
        trace.note("crash", 0)
        restart()
    }

    private func restart() {
        stop()
        agenda.after(random.pause(mean: 50_000)) { [unowned self] in start() }
    }

    /// NET-5: asks the process to end.
    func shutDown() {
        guard case .running = phase, let broker else { return }
        trace.note("drain", 0)
        phase = .draining(Set(0..<plan.loopCount))
        broker.drain()
        for number in 0..<plan.loopCount { wake(number, after: 1) }
    }

    /// Notes the end of a loop. After the last loop, the committer applies the remaining commands.
    private func loopEnded(_ number: Int) {
        guard case .draining(var left) = phase, left.remove(number) != nil else { return }
        phase = .draining(left)
        guard left.isEmpty else { return }
        while broker?.commit(observe) == true {}
        trace.note("drained", 0)
        restart()
    }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    private func tamper(_ broker: SteppedBroker<SimulatedTransport>) {
        broker.tampering.command = { [unowned self] in tampered($0) }
        switch canary {
        case .fanout:
            broker.tampering.fanout = { [unowned self] in random.chance(50) ? nil : $0 }
        case .share:
            broker.tampering.fanout = { fanout in
                Fanout(
                    project: fanout.project, header: fanout.header, body: fanout.body,
                    recipients: fanout.recipients, position: fanout.position,
                    weight: fanout.project.rawValue % 2 == 0 ? 2 : 1)
            }
        case .acknowledgement, .upstream, .misdirect, .quota, .none: break
        }
    }

    private func tampered(_ command: Command) -> Command {
        switch (command, canary) {
        // The broker's own keys are random, and clients are told the keys. A seeded key keeps the world repeatable.
        case (.createGroup(let project, let name, _, let tokens), _):
            let bytes = (0..<Limits.groupKeyBytes).map { _ in
                UInt8(truncatingIfNeeded: random.next())
            }
            return .createGroup(
                project: project, name: name, key: GroupKey(bytes: bytes), tokens: tokens)
        case (.acknowledge, .acknowledgement):
            return random.chance(300) ? .acknowledge([]) : command
        case (.upstream(var message), .upstream):
            message.timeToLiveSeconds = 0
            return .upstream(message)
        default: return command
        }
    }

    // MARK: Turns

    private func wake(_ number: Int, after delay: Int64) {
        guard number < participants.count else { return }
        plan(number, at: max(agenda.now + delay, participants[number].busyUntil))
    }

    private func plan(_ number: Int, at time: Int64) {
        guard broker != nil, time < participants[number].planned else { return }
        participants[number].planned = time
        participants[number].plan += 1
        let plan = participants[number].plan
        agenda.at(time) { [unowned self] in
            guard plan == participants[number].plan, broker != nil else { return }
            participants[number].planned = .max
            number < self.plan.loopCount ? turn(number) : commit()
        }
    }

    private func turn(_ number: Int) {
        guard let broker else { return }
        guard let wait = broker.turn(number) else { return loopEnded(number) }
        trace.note("turn", number, wait)
        if let meter { measure(meter, broker) }
        let end = agenda.now + random.pause(mean: plan.turnCost)
        participants[number].busyUntil = end
        let isBusy = wait == 0 || ports[number].hasCompletions
        plan(number, at: isBusy ? end : end + Int64(wait) * 1000)
        if broker.answerQuestions() {
            for number in 0..<plan.loopCount { wake(number, after: 1) }
        }
    }

    private func commit() {
        guard let broker else { return }
        let hasMore = broker.commit(observe)
        let number = plan.loopCount
        let end = agenda.now + random.pause(mean: plan.commitCost)
        participants[number].busyUntil = end
        plan(number, at: hasMore ? end : end + 1_000_000)
    }

    /// Commits commands that come from no connection.
    func perform(_ commands: [Command]) { broker?.perform(commands, observe) }

    private func observe(
        _ own: [Outcome], _ commands: [(command: Command, outcome: Outcome)]
    ) {
        if !commands.isEmpty { trace.note("committed", commands.count) }
        for outcome in own { oracle.happened(outcome) }
        for (command, outcome) in commands {
            oracle.committed(command, outcome)
            if case .unfinished = outcome { continue }
            if case .send(_, let message) = command, case .token = message.target {
                meter?.directIsDue()
            }
        }
    }

    private func measure(_ meter: ShareMeter, _ broker: SteppedBroker<SimulatedTransport>) {
        switch plan.kind {
        case .projects:
            meter.endTurn(
                isBusy: oracle.projects.map {
                    broker.fanoutCount(of: $0.number, on: 0) > 0
                })
        case .fanouts:
            let isBusy = broker.fanoutCount(of: oracle.projects[0].number, on: 0) == 2
            meter.endTurn(isBusy: [isBusy, isBusy])
        case .mixed: break
        }
    }

    /// Fails the world if the broker could not take a client's frame.
    func checkProtocol() {
        if let count = broker?.protocolViolationCount, count > 0 {
            oracle.fail("the broker counted \(count) violations of the protocol")
        }
    }
}
