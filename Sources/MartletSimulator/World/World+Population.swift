// SPDX-License-Identifier: Apache-2.0
//
// The population of a world: projects, topics, devices and senders. Rests on World.

import Martlet
import MartletBase
import MartletEngine

extension World {
    func topic(_ number: Int) -> String { "t\(number)" }

    func populate() {
        for index in 0..<plan.projectCount {
            let project = oracle.addProject(id: "project-\(index)")
            perform([
                .createProject(
                    id: project.id, senderID: 100_000_000_001 + UInt64(index),
                    conditionTopicsMax: 5)
            ])
            let count =
                plan.kind == .projects && index == 0
                ? plan.devicesPerProject * 3 / 2 : plan.devicesPerProject
            let devices = addDevices(count, in: project)
            subscribe(devices, of: project)
            lastClient += 1
            senders.append(
                SimulatedSender(
                    number: lastClient, project: project,
                    administratorKey: Self.administratorKey, network: network, oracle: oracle))
            populateListeners(of: project)
        }
    }

    /// Registers instances and makes their devices.
    @discardableResult
    func addDevices(_ count: Int, in project: ProjectModel) -> [SimulatedDevice] {
        var added: [SimulatedDevice] = []
        var commands: [Command] = []
        for _ in 0..<count {
            let token = Token(bytes: (0..<24).map { _ in UInt8(truncatingIfNeeded: random.next()) })
            let instance = oracle.addInstance(
                in: project, token: token.text, deviceKey: "key-\(random.next())")
            commands.append(
                .register(
                    NewInstance(
                        project: project.id, app: "com.example.app",
                        platform: random.one(of: Platform.allCases), token: token,
                        keyDigest: Credentials.digest(instance.deviceKey), proof: .trusted)))
            lastClient += 1
            added.append(
                SimulatedDevice(
                    number: lastClient, instance: instance, habits: plan.habits, phone: phone(),
                    network: network, oracle: oracle, random: Randomness(seed: random.next())))
        }
        devices += added
        guard cluster == nil else { return ask(commands, for: added) }
        perform(commands)
        return added
    }

    /// OPS-7: has a node register instances. A device connects as soon as it is registered.
    private func ask(_ commands: [Command], for devices: [SimulatedDevice]) -> [SimulatedDevice] {
        guard let broker = random.one(of: machines).broker else { return [] }
        for (command, device) in zip(commands, devices) {
            let registered = Unchecked(device)
            broker.ask(command) { outcome in
                guard case .registered = outcome else { return }
                registered.value.want(true)
            }
        }
        return devices
    }

    /// The phone for the next device, of any project; nil in a world without shared connections.
    private func phone() -> SimulatedPhone? {
        guard plan.appsPerPhone > 0 else { return nil }
        if let last = phones.last, last.deviceCount < plan.appsPerPhone {
            last.deviceCount += 1
            return last
        }
        lastClient += 1
        let phone = SimulatedPhone(number: lastClient, network: network, oracle: oracle)
        phone.deviceCount = 1
        phones.append(phone)
        return phone
    }

    private func subscribe(_ devices: [SimulatedDevice], of project: ProjectModel) {
        for number in 0..<plan.topicCount {
            let members =
                switch plan.kind {
                case .mixed, .cluster: devices.filter { _ in random.chance(500) }
                case .projects: devices
                // Disjoint halves, the second larger than the first.
                case .fanouts:
                    number == 0
                        ? Array(devices.prefix(devices.count * 6 / 13))
                        : Array(devices.dropFirst(devices.count * 6 / 13))
                }
            var rest = members.map(\.instance.token)[...]
            while !rest.isEmpty {
                perform([
                    .changeTopic(
                        project: project.number, topic: topic(number), change: .subscribe,
                        tokens: Array(rest.prefix(1000)))
                ])
                rest = rest.dropFirst(1000)
            }
        }
    }

    // MARK: Messages

    func message(in project: ProjectModel) -> MessageModel {
        let target = target(in: project)
        var timeToLiveSeconds: UInt32?
        if random.chance(plan.nowOrNeverChance) {
            timeToLiveSeconds = 0
        } else if random.chance(plan.shortLivedChance) {
            timeToLiveSeconds = UInt32(random.number(1...plan.shortLifeSecondsMax))
        }
        let isCollapsible = random.chance(plan.collapsibleChance)
        let collapseKey = isCollapsible ? "k\(random.number(0...2))" : ""
        let priority: MessagePriority = random.chance(plan.highPriorityChance) ? .high : .normal
        let isIdempotent = random.chance(plan.idempotentChance)
        let paddingBytes = random.number(0...plan.paddingBytesMax)
        let isScheduled = random.chance(plan.scheduledChance)
        let sendAt =
            isScheduled
            ? Instant(rawValue: clock.instant.rawValue + random.pause(mean: 1000)) : nil
        return oracle.add { id in
            MessageModel(
                id: id, project: project, target: target, timeToLiveSeconds: timeToLiveSeconds,
                priority: priority, collapseKey: collapseKey,
                idempotencyKey: isIdempotent ? "once-\(id)" : nil, paddingBytes: paddingBytes,
                sendAt: sendAt)
        }
    }

    private func target(in project: ProjectModel) -> MessageModel.Target {
        if random.chance(plan.groupChance), !project.groups.isEmpty {
            return .group(random.one(of: project.groups))
        }
        if random.chance(plan.directChance) {
            let own = oracle.instances.filter { $0.project === project }
            return .token(random.one(of: own))
        }
        let first = topic(random.number(0...(plan.topicCount - 1)))
        guard random.chance(plan.conditionChance) else { return .topic(first) }
        let second = topic(random.number(0...(plan.topicCount - 1)))
        switch random.number(0...3) {
        case 0: return .both(first, second)
        case 1: return .either(first, second)
        case 2: return .without(first, second)
        default: return .not(first)
        }
    }
}
