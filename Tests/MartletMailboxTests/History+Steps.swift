// SPDX-License-Identifier: Apache-2.0
//
// The steps of a history but sending: instances and connections, acknowledgements, time, crashes.
// Rests on History.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows

extension History {
    private func any() -> Int { random.one(of: ids) }
    private func anyConnected() -> Int? {
        ids.filter { model.instances[$0]!.connection != nil }
            .randomElement(using: &random)
    }

    // MARK: Instances

    func register(_ count: Int = 1) throws {
        let kinds = (0..<count).map { _ in
            (app: random.one(of: apps), platform: random.one(of: Platform.allCases))
        }
        let made = try world.register(kinds)
        var changes: [TopicChange] = []
        for (kind, instance) in zip(kinds, made) {
            let id = model.register(
                token: instance.token.text, platform: kind.platform, app: kind.app)
            instances[id] = instance
            tell {
                "\(id) registers on \(kind.platform), \(kind.app),"
                    + " ordinal \(instance.ordinal.rawValue)"
            }
            changes.append(
                TopicChange(
                    id: id, change: .subscribe, names: Array(topics.prefix(random.number(1...2)))))
        }
        try apply(changes)
    }

    private struct TopicChange {
        let id: Int
        let change: TopicOperation
        let names: [String]
    }

    private func apply(_ changes: [TopicChange]) throws {
        _ = try world.apply(
            changes.map {
                let instance = instances[$0.id]!
                return .changeTopics(
                    project: instance.project, ordinal: instance.ordinal, change: $0.change,
                    topics: $0.names, holder: instance.holder)
            })
        for one in changes {
            if one.change == .subscribe {
                model.instances[one.id]!.topics.formUnion(one.names)
            } else {
                model.instances[one.id]!.topics.subtract(one.names)
            }
            tell { "\(one.id): \(one.change) \(one.names)" }
        }
    }

    func changeTopics() throws {
        let id = any()
        let name = random.one(of: topics)
        let isThere = model.instances[id]!.topics.contains(name)
        try apply(
            [TopicChange(id: id, change: isThere ? .unsubscribe : .subscribe, names: [name])])
    }

    func unregister() throws {
        let id = any()
        let instance = instances[id]!
        tell { "\(id) unregisters" }
        let outcome = try world.apply(
            .unregister(
                project: instance.project, ordinal: instance.ordinal, holder: instance.holder))
        guard case .unregistered = outcome else { throw Unexpected(outcome) }
        model.unregister(id)
        instances[id] = nil
        taken[id] = nil
        if random.chance(70) { try register() }
    }

    func rotate() throws {
        let id = any()
        let token = world.newToken()
        tell { "\(id) rotates" }
        let outcome = try world.apply(
            .rotate(
                project: instances[id]!.project, ordinal: instances[id]!.ordinal,
                holder: instances[id]!.holder, token: token))
        guard case .rotated(token) = outcome else { throw Unexpected(outcome) }
        model.rotate(id, to: token.text)
        instances[id]!.token = token
    }

    // MARK: Connections

    func connect() throws {
        let id = any()
        var known: Set<UInt64> = []
        if random.chance(50) {
            known = Set((taken[id] ?? []).sorted().filter { _ in random.chance(60) })
        }
        try connect(id, isDozing: random.chance(25), taken: known)
    }

    func connect(_ id: Int, isDozing: Bool, taken known: Set<UInt64>) throws {
        tell {
            "\(now): \(id) connects" + (isDozing ? " in doze" : "")
                + (known.isEmpty ? "" : ", has \(known.sorted())")
        }
        // What the throttle left goes with the departure, which a hasty one is faster than.
        let isHasty = model.limits.collapsibleBurst == 0 && random.chance(30)
        try world.connect(
            instances[id]!, isDozing ? .doze : .active, taken: known.sorted(),
            loop: random.number(0...1), isHasty: isHasty)
        model.connect(id, isDozing: isDozing, taken: Set(known.compactMap { model.serial(of: $0) }))
    }

    func changeState() throws {
        guard let id = anyConnected() else { return try connect() }
        let state = random.one(of: [DeviceState.active, .background, .doze, .doze])
        tell { "\(now): \(id) is \(state)" }
        world.setState(instances[id]!.ordinal, state)
        model.setDozing(id, state == .doze)
    }

    func disconnect() {
        guard let id = anyConnected() else { return }
        tell { "\(now): \(id) disconnects" }
        world.close(instances[id]!.ordinal)
        model.disconnect(id)
    }

    func acknowledge() throws {
        guard let id = anyConnected() else { return }
        let connection = model.instances[id]!.connection!
        var given = connection.given.map { model.streamIDs[$0]! }
        if let told = connection.told { given.append(model.streamIDs[told.through]!) }
        guard let through = given.randomElement(using: &random) else { return }
        let isSingle = random.chance(30)
        tell { "\(now): \(id) acknowledges \(isSingle ? "only" : "through") \(through)" }
        let isTaken = world.acknowledge(
            instances[id]!.ordinal, through: isSingle ? 0 : through,
            single: isSingle ? [through] : [])
        guard isTaken else { throw Difference("an acknowledgement is refused") }
        if isSingle {
            let serial = model.serial(of: through)!
            model.acknowledge(id, [serial])
            model.acknowledgeNotice(id, serial)
        } else {
            model.acknowledge(id, through: through)
        }
    }

    // MARK: Time

    func passTime() throws {
        let step: Int64 =
            switch random.number(0...9) {
            case ..<3: Int64(random.number(1...2000))
            case ..<6: Int64(random.number(1...400)) * 1000
            case ..<8: Int64(random.number(1...48)) * 3_600_000
            default: Int64(random.number(1...40)) * 86_400_000
            }
        try passTime(to: now + step)
    }

    /// While somebody is connected the store hears of that every ten days at the latest, whatever steps
    /// time takes.
    func passTime(to instant: Int64) throws {
        tell { "\(instant): now" }
        let connected = model.ids.filter { model.instances[$0]!.connection != nil }
        if connected.isEmpty { heard = instant }
        while instant - heard > 864_000_000 {
            heard += 864_000_000
            try pass(to: heard)
            try compareNow()
            for id in connected { try world.tellConnected(instances[id]!) }
        }
        try pass(to: instant)
        learnNumbers()
    }

    private func pass(to instant: Int64) throws {
        // Of several that are due each finds what those before it left. Who is given what between them
        // is only certain if the loops looked first. A loop in whose doze too much waits gives what the throttle
        // lets go, and then asks the store what the doze discards.
        let isCertain = model.scheduled.count { $0.due <= instant } <= 1 && !model.hasThrottledDoze
        let loopsFirst = !isCertain || random.chance(50)
        try world.passTime(
            to: Instant(millisecondsSince1970: instant), loopsFirst: loopsFirst)
        model.passTime(to: instant, givesFirst: loopsFirst)
    }

    /// What devices said last is lost with it.
    func crash() throws {
        for id in ids where random.chance(20) {
            guard let connection = model.instances[id]!.connection,
                let given = connection.given.randomElement(using: &random)
            else { continue }
            let through = model.streamIDs[given]!
            tell { "\(now): \(id) acknowledges \(through) in vain" }
            guard world.acknowledge(instances[id]!.ordinal, through: through, single: [through])
            else { throw Difference("an acknowledgement is refused") }
        }
        try world.finishRests()
        tell { "\(now): crash" }
        try world.crash(isReopened: random.chance(10))
        model.crash()
    }
}
