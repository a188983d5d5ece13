// SPDX-License-Identifier: Apache-2.0
//
// Messages are accepted by the model: who they are for, what each instance gets, what the sender is
// told. Rests on BrokerModel.

import MartletBase
import MartletEngine
import MartletRows

extension BrokerModel {
    /// What came of a send, and what changes with it.
    func send(_ command: SendCommand, id: UInt64) -> Answer {
        if let key = command.idempotencyKey, !command.validateOnly, let first = repeats[key],
            now < first.until
        {
            return .repeated(id: first.id)
        }
        for variant in command.variants {
            if case .seconds(let seconds) = variant.lifespan, seconds > 2_419_200 {
                return .refused(.invalidArgument)
            }
        }
        var message = Message(
            variants: command.variants, target: command.target, key: command.idempotencyKey)
        if case .token(let text) = command.target {
            guard let (id, owner) = instances.first(where: { $0.value.token == text }) else {
                return .refused(.unregistered)
            }
            message.addressee = id
            let own = command.variants.first { $0.platforms.contains(owner.platform) }
            if let name = own?.restrictedPackageName, name != owner.app {
                return .refused(.invalidArgument)
            }
        }
        let due = command.sendAt?.millisecondsSince1970 ?? now
        if due > now {
            if command.validateOnly { return .validated(recipients: nil) }
            messages[id] = message
            scheduled.append((due, id))
            remember(id)
            return .scheduled
        }
        let audience = audience(of: message)
        if case .token = command.target, let only = audience.first,
            case let own = message.variants[variant(of: message, for: instances[only]!)!],
            Self.expiry(of: own, from: now) > now
        {
            let delay = max(instances[only]!.minute.delay, instances[only]!.hour.delay)
            if delay > 0 { return .quota(delayMilliseconds: delay) }
        }
        if command.validateOnly {
            return .validated(recipients: audience.reduce(0) { $0 + instances[$1]!.count })
        }
        messages[id] = message
        remember(id)
        return accept(id, lifeFrom: now)
    }

    private func remember(_ id: UInt64) {
        if let key = messages[id]!.key { repeats[key] = (id, now + 86_400_000) }
    }

    /// Whoever has not got the message does not get it.
    /// - Returns: whether somebody would have.
    func cancel(_ id: UInt64) -> Bool {
        let isScheduled = scheduled.contains { $0.id == id }
        scheduled.removeAll { $0.id == id }
        guard let serial = messages[id]?.serial else { return isScheduled }
        var isPending = isScheduled
        for one in ids {
            if instances[one]!.mailbox.pending.contains(where: { $0.serial == serial }) {
                isPending = true
            }
            instances[one]!.mailbox.cancel(serial, now: now)
            instances[one]!.mailbox.passTime(to: now)
        }
        return isPending
    }

    /// Those on a platform and of an app that the message has a variant for.
    private func audience(of message: Message) -> [Int] {
        let words: [Substring] =
            if case .condition(let text) = message.target { text.split(separator: " ") } else { [] }
        return ids.filter { id in
            let instance = instances[id]!
            let isMeant =
                switch message.target {
                case .token: id == message.addressee
                case .topic(let name): instance.topics.contains(name)
                case .condition: Self.holds(words, instance.topics)
                case .group, .several: false
                }
            return isMeant && variant(of: message, for: instance) != nil
        }
    }

    private func variant(of message: Message, for instance: Instance) -> Int? {
        message.variants.firstIndex {
            $0.platforms.contains(instance.platform)
                && ($0.restrictedPackageName ?? instance.app) == instance.app
        }
    }

    /// - Parameter start: what the message's life counts from.
    @discardableResult
    func accept(_ id: UInt64, lifeFrom start: Int64) -> Answer {
        lastSerial += 1
        messages[id]!.serial = lastSerial
        idsBySerial[lastSerial] = id
        let message = messages[id]!
        var (reached, rateLimited, inactive) = (0, 0, 0)
        var report = Report()
        defer { reports[messages[id]!.serial!] = report }
        for one in audience(of: message) {
            let instance = instances[one]!
            let variant = message.variants[variant(of: message, for: instance)!]
            let expires = Self.expiry(of: variant, from: start)
            if expires > start, expires <= now {
                report.ended.insert(one)
                report.waitedCount += instance.count
                report.left[.expired, default: 0] += instance.count
                continue
            }
            if expires == start {
                reached += instance.count
                report.nowOrNeverCount += instance.count
                giveAtOnce(id, variant, to: one)
                continue
            }
            guard instance.minute.hasOne, instance.hour.hasOne else {
                rateLimited += instance.count
                report.rateLimited.insert(one)
                report.rateLimitedCount += instance.count
                continue
            }
            instances[one]!.minute.use()
            instances[one]!.hour.use()
            reached += instance.count
            report.waited.insert(one)
            report.waitedCount += instance.count
            if store(lastSerial, variant, until: expires, for: one) {
                inactive += instance.count
            }
        }
        return .accepted(recipients: reached, rateLimited: rateLimited, inactive: inactive)
    }

    private static func expiry(of variant: OutgoingVariant, from start: Int64) -> Int64 {
        let longest = start + 2_419_200_000
        return switch variant.lifespan {
        case .seconds(let seconds): start + Int64(seconds) * 1000
        case .until(let instant): min(max(instant.millisecondsSince1970, start), longest)
        case .longest: longest
        }
    }

    private func giveAtOnce(_ id: UInt64, _ variant: OutgoingVariant, to one: Int) {
        guard let connection = instances[one]!.connection else { return }
        guard !connection.isDozing || variant.priority == .high else { return }
        deliveries[one, default: []].append(Delivered(id: id, isStored: false))
    }

    /// - Returns: whether the instance is inactive.
    private func store(
        _ serial: UInt64, _ variant: OutgoingVariant, until expires: Int64, for id: Int
    ) -> Bool {
        let instance = instances[id]!
        let isInactive =
            limits.inactiveSeconds > 0 && instance.connection == nil
            && now - instance.seen > Int64(limits.inactiveSeconds) * 1000
        let key: String? =
            switch variant.collapse {
            case .none: nil
            case .app: instance.app
            case .named(let name): name
            case .opaque:
                preconditionFailure("The histories have no opaque messages: see OpaqueTests.")
            }
        let held: ((EagerMailbox.Item) -> Bool)? =
            if let connection = instance.connection {
                connection.isDozing
                    ? { !$0.isHigh && !connection.given.contains($0.serial) } : nil
            } else { { _ in true } }
        instances[id]!.mailbox.accept(
            EagerMailbox.Item(
                serial: serial, accepted: now, expires: isInactive ? now + 2_419_200_000 : expires,
                isHigh: variant.priority == .high, key: isInactive ? nil : key,
                isForInactive: isInactive),
            held: held)
        give(id)
        return isInactive
    }

    /// The conditions that histories use: topics joined by `&&` and `||`, each perhaps with a `!`,
    /// from left to right.
    static func holds(_ words: [Substring], _ topics: Set<String>) -> Bool {
        var value: Bool?
        var isAnd = false
        for word in words {
            switch word {
            case "&&": isAnd = true
            case "||": isAnd = false
            case "in", "topics", "topics)": continue
            default:
                let isNegated = word.hasPrefix("!")
                let name = word.filter { !"!('".contains($0) }
                let holds = topics.contains(String(name)) != isNegated
                value = value.map { isAnd ? $0 && holds : $0 || holds } ?? holds
            }
        }
        return value!
    }
}
