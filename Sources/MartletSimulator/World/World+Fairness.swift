// SPDX-License-Identifier: Apache-2.0
//
// Worlds with more to deliver than a loop can deliver at once. The result of such a world is the share of each
// project or fanout. Rests on ShareMeter.

import MartletBase

extension World {
    /// FAN-2: least Jain's index of the projects' deliveries.
    private static let fairnessMin = 0.99
    /// FAN-5: turns within which a message to one instance must be handed over: the next turn, or the turn after the
    /// end of the send that its connection is busy with.
    private static let directTurnsMax = 3
    /// FAN-3: largest deviation of a fanout's share from half, as a fraction of the half.
    private static let halfDeviationMax = 0.02
    /// FAN-3: fewest deliveries, while both fanouts are in progress, from which shares are judged.
    private static let deliveriesToJudge = 800
    /// Messages of each project.
    private static let messagesPerProject = 14

    /// Deliveries in a window: 20 turns of every project. A project's turn is 64 deliveries, and ends with a session
    /// that is given everything in progress for it. With 20 turns, the part of a turn outside the window is less than
    /// an index of 0.99 allows.
    private var window: Int { 20 * plan.projectCount * (64 + Self.messagesPerProject) }

    func runProjects() {
        connectAll()
        meter(groups: plan.projectCount) { $0.instance.project.index }
        for (index, sender) in senders.enumerated() {
            let project = oracle.projects[index]
            // A project that is alone for a while gains no advantage, and owes no debt.
            var time = Int64(index) * random.pause(mean: 300)
            var messages = (0..<Self.messagesPerProject).map { _ in topicMessage(0, in: project) }
            while !messages.isEmpty {
                let count = random.number(1...messages.count)
                let burst = Array(messages.prefix(count))
                messages.removeFirst(count)
                agenda.after(time) { sender.submit(burst) }
                time += random.pause(mean: plan.messageMean)
            }
            let direct = directMessage(in: project)
            agenda.after(random.pause(mean: time)) { sender.submit(direct) }
        }
        finish()
        guard let meter else { return }
        let (index, windows) = meter.leastFair(windowOf: window)
        trace.note("windows", windows, Int(index * 10_000))
        if meter.directTurnsMax > Self.directTurnsMax {
            oracle.fail(
                "a message to one instance waited for \(meter.directTurnsMax) turns (FAN-5)")
        }
        if index < Self.fairnessMin {
            oracle.fail(
                """
                projects are not served equally: Jain's index \(index) over \(window) deliveries \
                (FAN-2)
                """)
        }
    }

    func runFanouts() {
        connectAll()
        let half = devices.count * 6 / 13
        let first = Set(devices.prefix(half).map(\.number))
        meter(groups: 2) { first.contains($0.number) ? 0 : 1 }
        // The two fanouts begin together, or the second begins after the first.
        let messages = (0..<2).map { topicMessage($0, in: oracle.projects[0]) }
        if random.chance(500) {
            senders[0].submit(messages)
        } else {
            senders[0].submit(messages[0])
            agenda.after(random.pause(mean: 300)) { [unowned self] in
                senders[0].submit(messages[1])
            }
        }
        finish()
        guard let shares = meter?.shares else { return }
        let all = shares.reduce(0, +)
        trace.note("shares", shares[0], shares[1])
        // Too few deliveries: turns of 16 would be a large part of the sum, or the fanouts never overlapped.
        guard all >= Self.deliveriesToJudge else { return }
        let deviation = abs(Double(shares[0]) / Double(all) - 0.5) / 0.5
        if deviation > Self.halfDeviationMax {
            oracle.fail("two fanouts got \(shares[0]) and \(shares[1]) deliveries (FAN-3)")
        }
    }

    private func topicMessage(_ number: Int, in project: ProjectModel) -> MessageModel {
        oracle.add { id in
            MessageModel(
                id: id, project: project, target: .topic(topic(number)), timeToLiveSeconds: nil,
                priority: .normal, paddingBytes: 10)
        }
    }

    private func directMessage(in project: ProjectModel) -> MessageModel {
        let instance = random.one(of: project.instances)
        return oracle.add { id in
            MessageModel(
                id: id, project: project, target: .token(instance), timeToLiveSeconds: nil,
                priority: .normal, paddingBytes: 10)
        }
    }

    private func connectAll() {
        for sender in senders { sender.want(true) }
        for device in devices { agenda.after(random.pause(mean: 20_000)) { device.want(true) } }
        while agenda.doNext(until: 1_500_000) {}
    }

    private func meter(groups: Int, _ group: (SimulatedDevice) -> Int) {
        let meter = ShareMeter(groupCount: groups)
        var groups: [Int: Int] = [:]
        for device in devices { groups[device.number] = group(device) }
        self.meter = meter
        network.onSend = { pieces, link in
            guard let number = link.clientNumber, let group = groups[number] else { return }
            meter.count(pieces, of: group)
        }
    }

    private func finish() {
        let end = agenda.now + 10_000_000
        while agenda.now < end, !isDone {
            let next = agenda.now + 20_000
            while agenda.doNext(until: next) {}
        }
        oracle.checkCompleteness(at: clock.instant)
        checkProtocol()
    }

    private var isDone: Bool {
        oracle.messages.allSatisfy { $0.number != nil }
            && oracle.missing(at: clock.instant).isEmpty
    }
}
