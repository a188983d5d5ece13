// SPDX-License-Identifier: Apache-2.0
//
// Changes of groups, and messages of devices: to the project, whose listeners come and go, and to groups. Rests on
// World.

import MartletBase
import MartletEngine

extension World {
    private static let groupNames = ["g0", "g1", "g2"]

    func populateListeners(of project: ProjectModel) {
        guard plan.upstreamMean > 0 else { return }
        for _ in 0..<plan.listenersPerProject {
            lastClient += 1
            listeners.append(
                SimulatedListener(
                    number: lastClient, project: project, administratorKey: Self.administratorKey,
                    takingMean: plan.listenerTakingMean, clock: clock, network: network,
                    oracle: oracle, random: Randomness(seed: random.next())))
        }
    }

    // MARK: Groups

    func planGroups(of index: Int) {
        guard plan.groupMean > 0 else { return }
        agenda.after(random.pause(mean: plan.groupMean)) { [unowned self] in
            guard !isOver else { return }
            changeGroup(oracle.projects[index], senders[index])
            planGroups(of: index)
        }
    }

    private func changeGroup(_ project: ProjectModel, _ sender: SimulatedSender) {
        // Now and then with the token of an unregistered instance. A creation names one token twice.
        let tokens = project.instances.filter {
            random.chance($0.isRegistered ? 350 : 20)
        }.map(\.token)
        guard let some = tokens.first else { return }
        let name = random.one(of: Self.groupNames)
        guard let group = project.group(named: name), !random.chance(100) else {
            return sender.createGroup(named: name, tokens: tokens + [some])
        }
        let key = random.chance(30) ? random.one(of: project.groups).key : group.key
        sender.changeGroup(group, key: key, random.one(of: [.add, .remove]), tokens: tokens)
    }

    // MARK: Messages of devices

    func planUpstream(of device: SimulatedDevice) {
        guard plan.upstreamMean > 0 else { return }
        agenda.after(random.pause(mean: plan.upstreamMean)) { [unowned self] in
            guard !isOver, device.instance.isRegistered else { return }
            device.submit(upstream(from: device.instance))
            planUpstream(of: device)
        }
    }

    private func upstream(from instance: InstanceModel) -> UpstreamModel {
        var group: GroupModel?
        if random.chance(plan.groupChance), !instance.project.groups.isEmpty {
            group = random.one(of: instance.project.groups)
        }
        var timeToLiveSeconds: UInt32?
        if random.chance(plan.nowOrNeverChance) {
            timeToLiveSeconds = 0
        } else if random.chance(plan.shortLivedChance) {
            timeToLiveSeconds = UInt32(random.number(1...plan.shortLifeSecondsMax))
        }
        let message = group.map { group in
            oracle.add { id in
                MessageModel(
                    id: id, project: instance.project, target: .others(group, instance),
                    timeToLiveSeconds: timeToLiveSeconds, priority: .normal, paddingBytes: 0)
            }
        }
        return oracle.addUpstream { id in
            UpstreamModel(
                id: id, instance: instance, group: group, timeToLiveSeconds: timeToLiveSeconds,
                message: message)
        }
    }

    // MARK: Listeners

    func planDeed(of listener: SimulatedListener) {
        agenda.after(random.pause(mean: plan.actionMean)) { [unowned self] in
            guard !isOver else { return }
            switch random.number(0...99) {
            case 0..<40: leave(listener)
            case 40..<65:
                listener.want(false)
                leave(listener)
                agenda.after(random.pause(mean: 800_000)) { [unowned self] in
                    if !isOver { listener.want(true) }
                }
            case 65..<80:
                listener.setReading(false)
                agenda.after(random.pause(mean: 500_000)) { listener.setReading(true) }
            default: break
            }
            planDeed(of: listener)
        }
    }

    /// Ends the connection of a listener. A vanished connection holds up its messages for a minute, and each vanished
    /// connection may have been given all messages. So a listener may vanish only when it leaves for the first time.
    private func leave(_ listener: SimulatedListener) {
        let mayVanish = haveLeft.insert(listener.number).inserted && random.chance(300)
        listener.leave(mayVanish ? .vanished : random.one(of: [.finished, .reset]))
    }
}
