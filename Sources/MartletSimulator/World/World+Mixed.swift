// SPDX-License-Identifier: Apache-2.0
//
// All troubles at once. Devices come and go, stall, doze, start again and change their topics while messages are
// sent; connections break, the disk fails, and the broker is killed. Then all troubles end, every client connects,
// and every message must arrive. Rests on World.

import MartletBase
import MartletEngine
import MartletRows
import MartletStore

extension World {
    /// Longest time for all messages to arrive after the troubles, in microseconds.
    private static let restMax: Int64 = 400_000_000
    /// Fifths of a second without a missing message before the world ends. A message that should not come has so much
    /// time to come.
    private static let restfulMin = 8
    /// Longest absence of vanished machines after the troubles, in microseconds.
    private static let vanishedMax = 120_000_000

    func runMixed() {
        beginMixed()
        if plan.crashMean > 0 { planCrash() }
        while agenda.doNext(until: plan.duration) {}
        rest()
        checkAll()
    }

    /// Plans all events of clients.
    func beginMixed() {
        for sender in senders { sender.want(true) }
        for device in devices { agenda.after(random.pause(mean: 100_000)) { device.want(true) } }
        for listener in listeners { listener.want(true) }
        disk.setFaulty(true)
        for device in devices {
            planDeed(of: device)
            planUpstream(of: device)
        }
        for listener in listeners { planDeed(of: listener) }
        for index in senders.indices {
            planMessage(of: index)
            planGroups(of: index)
        }
    }

    /// Checks a world at rest.
    func checkAll() {
        for one in oracle.missing(at: clock.instant).prefix(3) { explain(one) }
        oracle.checkCompleteness(at: clock.instant)
        checkProtocol()
        checkStore()
    }

    var isOver: Bool { agenda.now >= plan.duration }

    private func planCrash() {
        agenda.after(random.pause(mean: plan.crashMean)) { [unowned self] in
            guard !isOver else { return }
            random.chance(plan.shutDownChance) ? shutDown() : crash()
            planCrash()
        }
    }

    // MARK: Messages

    private func planMessage(of index: Int) {
        agenda.after(random.pause(mean: plan.messageMean)) { [unowned self] in
            guard !isOver else { return }
            let sender = senders[index]
            // Now and then a burst.
            let count = random.chance(50) ? random.number(2...40) : 1
            for _ in 0..<count { sender.submit(message(in: oracle.projects[index])) }
            if random.chance(plan.cancelChance) { cancel(by: sender, in: oracle.projects[index]) }
            if random.chance(20) { sender.leave(random.one(of: [.finished, .reset, .vanished])) }
            planMessage(of: index)
        }
    }

    private func cancel(by sender: SimulatedSender, in project: ProjectModel) {
        let own = oracle.messages.filter { $0.project === project && $0.number != nil }
        guard !own.isEmpty else { return }
        sender.cancel(random.one(of: own.suffix(5)))
    }

    // MARK: Deeds

    private func planDeed(of device: SimulatedDevice) {
        agenda.after(random.pause(mean: plan.actionMean)) { [unowned self] in
            guard !isOver, device.instance.isRegistered else { return }
            act(device)
            planDeed(of: device)
        }
    }

    private func act(_ device: SimulatedDevice) {
        switch random.number(0...99) {
        case 0..<25: device.leave(random.one(of: [.finished, .reset, .vanished]))
        case 25..<45:
            device.want(false)
            device.leave(random.one(of: [.finished, .reset, .vanished]))
            agenda.after(random.pause(mean: 800_000)) { [unowned self] in
                if !isOver { device.want(true) }
            }
        case 45..<55:
            device.setReading(false)
            agenda.after(random.pause(mean: 500_000)) { device.setReading(true) }
        case 55..<63: device.restart()
        case 63..<75:
            guard plan.isDozing else { return }
            device.setState(random.one(of: DeviceState.allCases))
        case 75..<85:
            let topics = (0..<plan.topicCount).map(topic).filter { _ in random.chance(400) }
            guard !topics.isEmpty else { return }
            device.change(random.one(of: [.subscribe, .unsubscribe]), topics: topics)
        case 85..<93:
            let project = device.instance.project
            let tokens = project.instances.map(\.token).filter { _ in random.chance(300) }
            guard !tokens.isEmpty else { return }
            senders[project.index].change(
                random.one(of: [.subscribe, .unsubscribe]),
                topic: topic(random.number(0...(plan.topicCount - 1))), tokens: tokens)
        case 93..<96:
            guard plan.isRenewing else { return }
            renew(device)
        default: device.ping()
        }
    }

    /// Unregisters the instance. Later another instance comes, often with the same ordinal.
    private func renew(_ device: SimulatedDevice) {
        device.unregister()
        agenda.after(random.pause(mean: 100_000)) { [unowned self] in
            guard !isOver, isRunning, devices.count < plan.connectionsMax / 2 else { return }
            for new in addDevices(1, in: device.instance.project) {
                new.want(true)
                planDeed(of: new)
                planUpstream(of: new)
            }
        }
    }

    // MARK: Rest

    func rest() {
        disk.setFaulty(false)
        leaveTransactionsWhole()
        network.conditions = .perfect
        agenda.after(Int64(random.number(1...Self.vanishedMax))) { [unowned self] in
            network.returnVanished()
        }
        for device in devices {
            device.setReading(true)
            device.setState(.active)
            device.want(true)
        }
        for listener in listeners {
            listener.setReading(true)
            listener.want(true)
        }
        let end = agenda.now + Self.restMax
        var restful = 0
        while agenda.now < end, restful < Self.restfulMin {
            let next = agenda.now + 200_000
            while agenda.doNext(until: next) {}
            // OPS-7: a registration may be committed although its answer was lost with a node.
            for device in devices where !device.hasBegun { device.want(true) }
            let isDone =
                isRunning && isSettled && senders.allSatisfy(\.isIdle)
                && oracle.missing(at: clock.instant).isEmpty
                && oracle.upstreamLeft(at: clock.instant).isEmpty
            restful = isDone ? restful + 1 : 0
        }
    }

    /// Tells the store's contents for an instance that misses a message.
    private func explain(_ one: Oracle.Missing) {
        let project = one.instance.project
        guard let ordinal = project.holders.first(where: { $0.value === one.instance })?.key
        else { return }
        let owner = MailboxOwner(
            project: project.number, ordinal: ordinal, platform: .android,
            appKey: CollapseDigest(of: "com.example.app"))
        try? machines[0].store.read { (transaction) throws in
            let state = try transaction.mailboxes.state(of: ordinal, in: project.number)
            trace.explain("instance \(one.instance.number), ordinal \(ordinal): \(state)")
            _ = try transaction.log.forEachLogged(for: owner, after: .none, rowsMax: .max) {
                entry in
                trace.explain("  \(entry)")
            }
        }
    }

    /// STO-1: the last discarded message of an instance, according to the machine whose store knows most.
    func lastDiscarded(_ instance: InstanceModel) -> UInt64 {
        let project = instance.project
        guard let ordinal = project.holders.first(where: { $0.value === instance })?.key
        else { return 0 }
        let found = disk.quietly {
            machines.compactMap { machine in
                try? machine.store.read { (transaction) throws in
                    try transaction.mailboxes.state(of: ordinal, in: project.number)
                        .discardedThrough
                }
            }
        }
        return found.max()?.rawValue ?? 0
    }

    private func checkStore() {
        for machine in machines {
            do {
                let report = try machine.store.check()
                for problem in report.problems { oracle.fail("the store: \(problem)") }
            } catch {
                oracle.fail("the store cannot be checked: \(error)")
            }
        }
    }
}
