// SPDX-License-Identifier: Apache-2.0
//
// A world: the machines with their brokers, the network, and all clients, on simulated time. Rests on Machine.

import Logging
import Martlet
import MartletBase
import MartletEngine
import MartletStore

/// A simulated world.
final class World {
    static let administratorKey = "simulated"

    let plan: WorldPlan
    let clock = SimulatedClock()
    let agenda: Agenda
    let trace: Trace
    let network: SimulatedNetwork
    let oracle: Oracle
    var random: Randomness
    let disk: SimulatedDisk
    private(set) var machines: [Machine] = []
    /// The cluster of the machines; nil: the world has a single machine.
    private(set) var cluster: SimulatedCluster?
    /// The machine before the cluster. Plans of its process are void.
    private var former: [Machine] = []
    /// The last turn of a loop for whose node the log was away.
    var lastAway = Int64.min / 2
    private let canary: Canary?
    private let folder: String
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
        self.folder = folder
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
        let store = try openStore(folder)
        oracle.lastDiscarded = { [unowned self] in lastDiscarded($0) }
        network.onWake = { [unowned self] number, machine in
            guard machine < machines.count else { return }
            machines[machine].wake(number, after: Int64(random.number(1...40)))
        }
        if canary == .misdirect { network.misdirectChance = 20 }
        machines = [Machine(0, in: self, store: store)]
        machines[0].start()
        tell?("\(plan)")
    }

    private func openStore(_ folder: String) throws -> Store {
        var configuration = StoreConfiguration(
            folder: folder, mapBytes: 64 << 20, durability: plan.nodeCount > 1 ? .fsync : .os)
        configuration.faults = disk.faults
        configuration.checkpointCommitsMax = .max
        return try Store(configuration)
    }

    /// OPS-7: makes a cluster of the single machine: each node begins with a copy of the folder.
    func beginCluster(_ canary: ClusterCanary?) throws {
        let made = SimulatedCluster(self, canary)
        machines[0].stop()
        try machines[0].store.begin(at: made.beginning)
        machines[0].store.close()
        former = machines
        machines = []
        let folders = try FolderCopies.make(plan.nodeCount, of: folder)
        cluster = made
        machines = try folders.enumerated().map { number, folder in
            Machine(number, in: self, store: try openStore(folder), cluster: made)
        }
        for machine in machines { machine.start() }
    }

    /// Ends the world, and releases the references between plans and connections.
    func end() {
        for machine in machines { machine.stop() }
        for machine in machines { machine.store.close() }
        for phone in phones { phone.breakOff(.vanished) }
        agenda.clear()
        cluster?.end()
        network.onSend = nil
    }

    // MARK: The machines

    func configuration(of machine: Int) -> BrokerConfiguration {
        var configuration = BrokerConfiguration(folder: "")
        configuration.limits = plan.limits
        configuration.idleSeconds = plan.idleSeconds
        if canary == .quota, plan.limits.deviceMessagesPerMinute > 0 {
            configuration.limits.deviceMessagesPerMinute += 1
            configuration.limits.deviceMessagesPerHour += 1
        }
        if plan.nodeCount > 1, trace.isTold {
            let log = TraceLog(trace, name: "node-\(machine)")
            configuration.logger = Logger(label: "simulated") { _ in log }
        } else {
            configuration.logger = Logger(label: "simulated") { _ in SwiftLogNoOpLogHandler() }
        }
        return configuration
    }

    /// Lets transactions be as long as production's, so that a slow disk catches up with the backlog.
    func leaveTransactionsWhole() { for machine in machines { machine.leaveTransactionsWhole() } }

    func crash() { someMachine.crash() }

    /// NET-5: asks a process to end.
    func shutDown() { someMachine.shutDown() }

    private var someMachine: Machine {
        machines.count == 1 ? machines[0] : random.one(of: machines)
    }

    var isRunning: Bool { machines.allSatisfy(\.isRunning) }

    func tamper(_ broker: SteppedBroker<SimulatedTransport>) {
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

    /// Commits commands that come from no connection.
    func perform(_ commands: [Command]) { machines[0].broker?.perform(commands, observe) }

    func observe(
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

    func measure(_ meter: ShareMeter, _ broker: SteppedBroker<SimulatedTransport>) {
        switch plan.kind {
        case .projects:
            meter.endTurn(
                isBusy: oracle.projects.map {
                    broker.fanoutCount(of: $0.number, on: 0) > 0
                })
        case .fanouts:
            let isBusy = broker.fanoutCount(of: oracle.projects[0].number, on: 0) == 2
            meter.endTurn(isBusy: [isBusy, isBusy])
        case .mixed, .cluster: break
        }
    }

    /// Fails the world if the broker could not take a client's frame.
    func checkProtocol() {
        for machine in machines {
            guard let count = machine.broker?.protocolViolationCount, count > 0 else { continue }
            oracle.fail("the broker counted \(count) violations of the protocol")
        }
    }
}
