// SPDX-License-Identifier: Apache-2.0
//
// The door's state, on one event loop: whose turn it is, which messages are on their way, what to try again. The work on
// a message (its payload, its request) runs on other threads. Only so many run at a time, and only so many of one project.
// Rests on DoorProject.

import Logging
import Martlet
import MartletBits
import MartletCommitter
import MartletEngine
import MartletRows
import MartletWire
import NIOCore
import NIOPosix

/// The state of a door.
final class DoorCore {
    let broker: Broker
    let logger: Logger
    let eventLoop: any EventLoop
    let port: UInt16
    private let services: [BridgeKind: any PushService]
    private let counts: BridgeCounts
    private var projects: [ProjectNumber: DoorProject] = [:]
    /// Projects with messages that are ready, in the order of their turns.
    private var turns: CircularBuffer<DoorProject> = []
    private var onTheirWay = 0
    var waitingCount = 0
    /// Deliveries that are set aside because they keep failing, over all projects. They take no room (GW-17).
    var asideCount = 0
    private(set) var isOpen = true
    private var isDispatching = false

    init(
        _ broker: Broker, port: UInt16, services: [any PushService], counts: BridgeCounts,
        logger: Logger, eventLoop: any EventLoop
    ) {
        self.broker = broker
        self.port = port
        self.services = Dictionary(uniqueKeysWithValues: services.map { ($0.kind, $0) })
        self.counts = counts
        self.logger = logger
        self.eventLoop = eventLoop
    }

    // MARK: Beginning and end

    /// Reads all projects and begins to attach their instances.
    func begin() {
        do throws(MartletError) {
            for (number, _) in try broker.bridgedProjects() { readKeys(of: number) }
        } catch {
            logger.warning(
                "the door to push services cannot read the store", metadata: ["error": "\(error)"])
            after(milliseconds: 1000) { [weak self] in self?.begin() }
            return
        }
        lookForAway()
    }

    /// Ends all sessions. Messages on their way may still finish; the others stay in the store.
    func close() {
        isOpen = false
        for project in projects.values {
            for message in project.ready { project.drop(message) }
            project.ready.removeAll()
            for message in project.resting.values.joined() { project.drop(message) }
            project.resting = [:]
            project.dropAside()
            if project.onTheirWay == 0 { project.closeLinks() }
        }
    }

    /// Whether no message is on its way.
    var isQuiet: Bool { onTheirWay == 0 }

    /// Closes all links.
    func closeLinks() { for project in projects.values { project.closeLinks() } }

    // MARK: News from the broker

    func take(_ news: [BridgeNews]) {
        guard isOpen else { return }
        for one in news {
            switch one {
            case .instance(let project, let ordinal): read(ordinal, in: project)
            case .instances(let project, let ordinal, let former):
                read(former, in: project)
                read(ordinal, in: project)
            case .unregistered(let project, let ordinal):
                guard let project = projects[project], let device = project.devices[ordinal]
                else { continue }
                // The ordinal's next holder may already have an address.
                project.remove(device)
                read(ordinal, in: project.number)
            case .keys(let project): readKeys(of: project)
            }
        }
    }

    private func read(_ ordinal: Ordinal, in number: ProjectNumber) {
        guard let project = projects[number] else { return }
        do throws(MartletError) {
            project.update(ordinal, try broker.bridged(ordinal, in: number))
        } catch {
            after(milliseconds: 1000) { [weak self] in self?.read(ordinal, in: number) }
        }
    }

    /// Reads a project's keys. Without a key, its instances stay out of the door.
    private func readKeys(of number: ProjectNumber) {
        do throws(MartletError) {
            let found = try broker.bridgeKeys(of: number) { [logger] id in
                logger.error(
                    "a key for a push service cannot be opened with the data folder's secret; add the key again",
                    metadata: ["key": "\(id)"])
            }
            for kind in BridgeKind.allCases { broker.bridges.note(nil, of: kind, in: number) }
            guard let project = try project(number, isNeeded: !found.isEmpty) else { return }
            let isNew = project.keys.isEmpty && project.devices.isEmpty
            project.keys = Dictionary(grouping: found, by: \.kind)
            for kind in BridgeKind.allCases { endRest(of: project, kind) }
            project.failures = [:]
            project.rests = [:]
            let services = services
            Task { for service in services.values { await service.keysChanged(of: number) } }
            if isNew { readInstances(of: project, from: Ordinal(0)) } else { project.keysChanged() }
            hasReady(project)
        } catch {
            after(milliseconds: 1000) { [weak self] in self?.readKeys(of: number) }
        }
    }

    private func project(
        _ number: ProjectNumber, isNeeded: Bool
    ) throws(MartletError) -> DoorProject? {
        if let known = projects[number] { return known }
        guard isNeeded, let id = try broker.bridgedProject(number) else { return nil }
        let project = DoorProject(number, id: id, self)
        projects[number] = project
        return project
    }

    /// Reads a project's instances in steps, so that messages flow meanwhile.
    private func readInstances(of project: DoorProject, from start: Ordinal) {
        guard isOpen else { return }
        do throws(MartletError) {
            let found = try broker.bridged(
                in: project.number, from: start, limit: BridgeLimits.instancesPerStep)
            for instance in found { project.update(instance.ordinal, instance) }
            guard found.count == BridgeLimits.instancesPerStep, let last = found.last else {
                return
            }
            let next = Ordinal(last.ordinal.rawValue + 1)
            eventLoop.assumeIsolated().execute { [weak self] in
                self?.readInstances(of: project, from: next)
            }
        } catch {
            after(milliseconds: 1000) { [weak self] in
                self?.readInstances(of: project, from: start)
            }
        }
    }

    // MARK: Instances with a connection of their own

    /// Attaches instances whose own connection has ended.
    private func lookForAway() {
        guard isOpen else { return }
        after(milliseconds: BridgeLimits.awayMilliseconds) { [weak self] in
            guard let self else { return }
            for project in projects.values { look(at: project) }
            lookForAway()
        }
    }

    private func look(at project: DoorProject) {
        let away = project.devices.values.filter(\.isAway)
        guard !away.isEmpty else { return }
        let (broker, number) = (broker, project.number)
        let ordinals = away.map(\.instance.ordinal)
        let bound = NIOLoopBound(project, eventLoop: eventLoop)
        let eventLoop = eventLoop
        Task {
            guard let connected = try? await broker.answering(among: ordinals, of: number) else {
                return
            }
            eventLoop.execute {
                for ordinal in ordinals where !connected.view.contains(ordinal) {
                    guard let device = bound.value.devices[ordinal], device.isAway else { continue }
                    device.isAway = false
                    bound.value.attach(device)
                }
            }
        }
    }

    // MARK: Turns

    /// How many messages of one project may wait in the door.
    var roomPerProject: Int {
        guard waitingCount >= BridgeLimits.waitingMax else {
            return BridgeLimits.waitingPerProjectMax
        }
        let busy = max(1, projects.values.count { $0.mayRead })
        return min(BridgeLimits.waitingPerProjectMax, max(1, BridgeLimits.waitingMax / busy))
    }

    /// A project has messages that are ready.
    func hasReady(_ project: DoorProject) {
        guard !project.isInTurns, !project.ready.isEmpty else { return }
        project.isInTurns = true
        turns.append(project)
        guard !isDispatching else { return }
        isDispatching = true
        eventLoop.assumeIsolated().execute { [weak self] in
            self?.isDispatching = false
            self?.dispatch()
        }
    }

    /// Hands messages over; projects take turns, one message each.
    private func dispatch() {
        var rounds = turns.count
        while isOpen, onTheirWay < BridgeLimits.onTheirWayMax, rounds > 0,
            let project = turns.popFirst()
        {
            rounds -= 1
            project.isInTurns = false
            guard project.onTheirWay < BridgeLimits.onTheirWayPerProjectMax,
                let message = project.ready.popFirst()
            else { continue }
            begin(message, of: project)
            if !project.ready.isEmpty, !project.isInTurns {
                project.isInTurns = true
                turns.append(project)
                rounds = turns.count
            }
        }
    }

    private func begin(_ message: DoorMessage, of project: DoorProject) {
        let device = message.device
        let kind = device.instance.bridging.address.kind
        guard !device.hasLeft, let service = services[kind], let keys = project.keys[kind],
            !keys.isEmpty
        else { return project.drop(message) }
        // It has expired. Acknowledge it, and the store counts it as expired.
        if message.handOver.message.isStored, message.handOver.message.expires <= broker.now {
            return project.end(message)
        }
        if project.restsUntil[kind] != nil {
            return park(message, of: project, kind)
        }
        if !message.isProbe, project.failing.isAside(message.name) {
            return setAside(message, of: project)
        }
        // Another node may be active by now without our knowing (OPS-7).
        guard broker.mayHandOver else {
            return again(message, of: project, after: .seconds(1))
        }
        message.handOver.instance = device.instance
        message.handOver.isSuspect =
            message.isProbe || message.handOver.attempts >= BridgeLimits.attemptsPerConnection
        project.onTheirWay += 1
        onTheirWay += 1
        let handOver = message.handOver
        let bound = NIOLoopBound((core: self, message, project), eventLoop: eventLoop)
        let eventLoop = eventLoop
        Task {
            let answer = await service.handOver(handOver, with: keys)
            eventLoop.execute { bound.value.core.answered(bound.value.1, bound.value.2, answer) }
        }
    }

    // MARK: Answers

    private func answered(
        _ message: DoorMessage, _ project: DoorProject, _ answer: HandOverAnswer
    ) {
        project.onTheirWay -= 1
        onTheirWay -= 1
        let kind = message.handOver.instance.bridging.address.kind
        counts.count(answer, of: kind)
        switch answer {
        case .later, .keyRefused: break
        case .taken, .refused, .gone, .laterForInstance: goOn(message, project)
        }
        switch answer {
        case .taken:
            project.failures[kind] = nil
            project.rests[kind] = nil
            if broker.bridges.note(nil, of: kind, in: project.number) {
                logger.notice(
                    "a push service accepts the project's keys again",
                    metadata: ["service": "\(kind.name)", "project": "\(project.id)"])
            }
            project.end(message)
        case .refused(let reason):
            project.failures[kind] = nil
            refuse(message, project, reason)
        case .gone(let reason):
            project.failures[kind] = nil
            end(message, project, reason)
        case .laterForInstance(_, let seconds):
            again(
                message, of: project,
                after: Self.delay(after: message.handOver.attempts, seconds))
        case .later(let reason, let seconds):
            project.failures[kind, default: 0] += 1
            project.failing.failed(message.name)
            let isMany =
                project.failures[kind, default: 0] >= BridgeLimits.failuresPerRest
                && project.failing.areOfService(kind)
            warn(project, kind, reason)
            if project.restsUntil[kind] == nil, seconds != nil || isMany {
                let rests = project.rests[kind, default: 0]
                project.rests[kind] = rests + 1
                rest(project, kind, Self.delay(after: rests, seconds))
            }
            guard project.restsUntil[kind] == nil else {
                park(message, of: project, kind)
                break
            }
            guard !project.failing.isAside(message.name) else {
                setAside(message, of: project)
                break
            }
            again(
                message, of: project,
                after: Self.delay(after: message.handOver.attempts, nil))
        case .keyRefused(let reason):
            if broker.bridges.note(reason, of: kind, in: project.number) {
                logger.error(
                    """
                    a push service refuses the keys of the project: messages wait, and senders to \
                    single instances are refused with THIRD_PARTY_AUTH_ERROR
                    """,
                    metadata: [
                        "service": "\(kind.name)", "project": "\(project.id)",
                        "reason": "\(reason)",
                    ])
            }
            rest(project, kind, .seconds(BridgeLimits.refusedKeySeconds))
            park(message, of: project, kind)
        }
        hasReady(project)
        if !turns.isEmpty { dispatch() }
    }

    // MARK: Messages that keep failing

    /// Sets aside a delivery of a message that keeps failing (GW-17). If it is now or never, it doesn't wait.
    private func setAside(_ message: DoorMessage, of project: DoorProject) {
        guard message.handOver.message.isStored, isOpen else { return project.drop(message) }
        let name = message.name
        if message.isProbe {
            message.isProbe = false
            project.failing.endRest(name)
        }
        project.setAside(message)
        rest(name, of: project)
    }

    /// Lets a message rest, then tries one of its deliveries. Does nothing if it rests already.
    private func rest(_ name: FailingMessages.Name, of project: DoorProject) {
        guard let rests = project.failing.beginRest(name) else { return }
        let delay = Self.delay(after: rests, nil)
        after(milliseconds: max(1, delay.nanoseconds / 1_000_000)) { [weak self, weak project] in
            guard let self, let project, isOpen else { return }
            probe(name, of: project)
        }
    }

    private func probe(_ name: FailingMessages.Name, of project: DoorProject) {
        guard let message = project.takeAside(name) else { return project.failing.endRest(name) }
        message.isProbe = true
        project.ready.prepend(message)
        hasReady(project)
    }

    /// The one delivery that we tried has left the door without an answer, so we try the next.
    func probeEnded(_ name: FailingMessages.Name, of project: DoorProject) {
        guard isOpen, project.failing.isAside(name) else { return }
        after(milliseconds: 1) { [weak self, weak project] in
            guard let self, let project, isOpen, project.failing.isAside(name) else { return }
            probe(name, of: project)
        }
    }

    /// The service has answered, so all the message's deliveries go on.
    private func goOn(_ message: DoorMessage, _ project: DoorProject) {
        message.isProbe = false
        guard project.failing.answered(message.name) else { return }
        project.ready.append(contentsOf: project.takeAllAside(message.name))
        hasReady(project)
    }

    /// Logs that a service takes no messages, at most once a minute per project.
    private func warn(_ project: DoorProject, _ kind: BridgeKind, _ reason: String) {
        let now = NIODeadline.now()
        if let last = project.warned[kind], now - last < .minutes(1) { return }
        project.warned[kind] = now
        logger.warning(
            "a push service takes no messages now",
            metadata: [
                "service": "\(kind.name)", "project": "\(project.id)", "reason": "\(reason)",
            ])
    }

    /// Lets a project rest: none of its messages is handed over for a while.
    private func rest(_ project: DoorProject, _ kind: BridgeKind, _ delay: TimeAmount) {
        let end = NIODeadline.now() + delay
        guard end > project.restsUntil[kind] ?? .distantPast else { return }
        project.restsUntil[kind] = end
        after(milliseconds: delay.nanoseconds / 1_000_000 + 1) { [weak self, weak project] in
            guard let self, let project, project.restsUntil[kind] == end else { return }
            endRest(of: project, kind)
        }
    }

    /// Keeps a message until the rest is over. If it is now or never, it doesn't wait.
    private func park(_ message: DoorMessage, of project: DoorProject, _ kind: BridgeKind) {
        guard message.handOver.message.isStored, isOpen else { return project.drop(message) }
        project.resting[kind, default: []].append(message)
    }

    private func endRest(of project: DoorProject, _ kind: BridgeKind) {
        project.restsUntil[kind] = nil
        guard isOpen, let resting = project.resting.removeValue(forKey: kind) else { return }
        project.ready.append(contentsOf: resting)
        hasReady(project)
    }

    /// How long to wait before the next attempt: as long as the service asks, or twice as long after each failure, with
    /// jitter over the upper half.
    private static func delay(after failures: Int, _ seconds: Int64?) -> TimeAmount {
        if let seconds {
            return .seconds(min(max(seconds, 1), BridgeLimits.retryAfterSecondsMax))
        }
        let most = min(
            BridgeLimits.retrySecondsMax,
            BridgeLimits.retrySeconds * Double(1 << min(failures, 16)))
        return .milliseconds(Int64(most * 1000 * Double.random(in: 0.5...1)))
    }

    /// Tries a message again later, unless it is now or never.
    private func again(
        _ message: DoorMessage, of project: DoorProject, after delay: TimeAmount
    ) {
        guard message.handOver.message.isStored, isOpen else { return project.drop(message) }
        message.handOver.attempts += 1
        if message.handOver.attempts >= BridgeLimits.attemptsPerConnection {
            project.count(message, asAside: true)
        }
        after(milliseconds: max(1, delay.nanoseconds / 1_000_000)) { [weak self, weak project] in
            guard let self, let project else { return }
            guard isOpen else { return project.drop(message) }
            project.ready.append(message)
            hasReady(project)
        }
    }

    private func refuse(_ message: DoorMessage, _ project: DoorProject, _ reason: String) {
        let handOver = message.handOver
        guard handOver.message.isStored else { return project.end(message) }
        perform({ [broker] () async throws(MartletError) in
            try await broker.refuse(
                handOver.message.streamID, for: handOver.instance, reason: reason)
        }) { project.end(message) }
    }

    /// The address is gone. The broker passes the news on, and the instance leaves the door.
    private func end(_ message: DoorMessage, _ project: DoorProject, _ reason: String) {
        let instance = message.handOver.instance
        logger.debug(
            "a push service says that an address is gone",
            metadata: ["project": "\(project.id)", "reason": "\(reason)"])
        perform({ [broker] () async throws(MartletError) in try await broker.end(instance) }) {
            [weak self] in
            let device = message.device
            guard let self, isOpen, !device.hasLeft,
                device.instance.bridging.address != instance.bridging.address
            else { return project.drop(message) }
            // The instance has a new address by now.
            project.ready.append(message)
            hasReady(project)
        }
    }

    /// Changes the store, and keeps trying while it takes no changes.
    private func perform(
        _ change: @escaping @Sendable () async throws(MartletError) -> Void,
        _ done: @escaping () -> Void
    ) {
        let bound = NIOLoopBound((core: self, done), eventLoop: eventLoop)
        let eventLoop = eventLoop
        Task {
            do throws(MartletError) { try await change() } catch {
                if error.word == .unavailable {
                    eventLoop.execute {
                        bound.value.core.after(milliseconds: 1000) {
                            guard bound.value.core.isOpen else { return }
                            bound.value.core.perform(change, bound.value.1)
                        }
                    }
                    return
                }
            }
            eventLoop.execute { bound.value.1() }
        }
    }

    // MARK: The event loop

    func after(milliseconds: Int64, _ body: @escaping () -> Void) {
        eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(milliseconds), body)
    }
}

@available(*, unavailable)
extension DoorCore: Sendable {}
