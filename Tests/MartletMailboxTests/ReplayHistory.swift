// SPDX-License-Identifier: Apache-2.0
//
// Random lives of one instance, told both to the naive mailbox, as things happen, and to a log that
// `MailboxReplay` reads. No store and no connections: positions and marks are set as those would.
// Rests on EagerMailbox and MailboxReplay.

import EngineBench
import MartletBase
import MartletEngine
import MartletRows

/// One random life. Which one is all in the seed.
final class ReplayHistory {
    private var random: SeededGenerator
    private var limits = BrokerLimits()
    private var mailbox: EagerMailbox
    private var now: Int64 = 1_000_000
    private var last: UInt64 = 0
    private var log: [LogEntry] = []
    private var mark: UInt64 = 0
    private var awayFrom: UInt64 = 0
    private var awayThrough: UInt64 = .max
    private var isConnected: Bool { awayThrough != .max }
    /// The notice that a device was told, and may acknowledge.
    private var told: EagerMailbox.Notice?
    /// What was written down when a connection ended, as the store does.
    private var discarded: (count: UInt64, through: MessageSequence)?
    private let keys = ["a", "b", "c", "d", "e", "f"]
    /// What happened, for whoever reads a failure.
    private(set) var story: [String] = []
    private let isTold: Bool

    init(seed: UInt64, brokenRule: EagerMailbox.BrokenRule = .none, isTold: Bool = false) {
        random = SeededGenerator(seed: seed)
        let isSmall = random.chance(90)
        limits.storedPerInstanceMax = isSmall ? random.number(0...4) : 100
        limits.collapseKeysPerInstanceMax = isSmall ? random.number(0...3) : 4
        mailbox = EagerMailbox(
            limits: .init(
                stored: limits.storedPerInstanceMax, keys: limits.collapseKeysPerInstanceMax),
            brokenRule: brokenRule)
        self.isTold = isTold
        tell("limits \(limits.storedPerInstanceMax) \(limits.collapseKeysPerInstanceMax)")
    }

    private func tell(_ text: @autoclosure () -> String) {
        if isTold { story.append(text()) }
    }

    /// - Returns: what differed, if anything did.
    func run(steps: Int) -> String? {
        for _ in 0..<steps {
            step()
            mailbox.passTime(to: now)
            // The store forgets in time what was discarded for the inactive.
            log.removeAll { $0.content == .discarded && $0.expires.rawValue <= now }
            if let difference = difference() { return difference }
        }
        return nil
    }

    private func step() {
        switch random.number(0...99) {
        case ..<55: accept()
        case ..<70: passTime()
        case ..<78: acknowledgeThrough()
        case ..<86: acknowledgeSingle()
        case ..<90: cancel()
        default: changeConnection()
        }
    }

    private func accept() {
        last += UInt64(random.number(1...2))
        if random.chance(70) { now += Int64(random.number(0...3)) }
        let isForInactive = !isConnected && random.chance(5)
        let isHigh = random.chance(40)
        let key = random.chance(50) ? random.one(of: keys) : nil
        let life = random.chance(50) ? random.number(1...20) : 100_000
        let item = EagerMailbox.Item(
            serial: last, accepted: now, expires: now + Int64(life), isHigh: isHigh,
            key: isForInactive ? nil : key, isForInactive: isForInactive)
        mailbox.accept(item, held: isConnected ? nil : { _ in true })
        log.append(
            LogEntry(
                sequence: MessageSequence(last), accepted: Instant(millisecondsSince1970: now),
                expires: Instant(millisecondsSince1970: item.expires),
                priority: isHigh ? .high : .normal,
                content: isForInactive
                    ? .discarded
                    : .message(collapse: key.map { CollapseDigest(rawValue: digest($0)) })))
        tell(
            "\(now): accept \(last) \(isForInactive ? "inactive" : key ?? "-") until \(item.expires)"
                + (isHigh ? " high" : ""))
    }

    private func digest(_ key: String) -> UInt64 { UInt64(key.utf8.first!) }

    private func passTime() {
        now += Int64(random.chance(80) ? random.number(1...10) : random.number(1...60_000))
        tell("\(now): now")
    }

    /// Of what was delivered: everything there is while there is a connection.
    private func acknowledgeThrough() {
        let start = max(mark, told?.through ?? 0)
        guard isConnected, last > start else { return }
        mark = UInt64(random.number(Int(start)...Int(last)))
        let through = mark
        mailbox.acknowledge { $0.serial <= through }
        mailbox.acknowledgeNotice(through: through)
        if let last = discarded?.through.rawValue, last <= through { discarded = nil }
        log.removeAll { $0.sequence.rawValue <= through }
        tell("\(now): acknowledge through \(mark)")
    }

    /// Also late, of what was delivered on the last connection.
    private func acknowledgeSingle() {
        guard let index = log.indices.randomElement(using: &random) else { return }
        let serial = log[index].sequence.rawValue
        guard log[index].content != .discarded, serial <= awayFrom || isConnected else { return }
        if let told, serial <= told.through { return }
        if !isConnected { writeDiscarded() }
        guard let index = log.firstIndex(where: { $0.sequence.rawValue == serial }) else { return }
        log[index].isAcknowledged = true
        mailbox.acknowledge { $0.serial == serial }
        tell("\(now): acknowledge \(serial)")
    }

    private func cancel() {
        guard let index = log.indices.randomElement(using: &random),
            log[index].content != .discarded
        else { return }
        // What was accepted in the same millisecond came before.
        now += 1
        let serial = log[index].sequence.rawValue
        let instant = Instant(millisecondsSince1970: now)
        if instant < log[index].expires { log[index].expires = instant }
        mailbox.cancel(serial, now: now)
        tell("\(now): cancel \(serial)")
    }

    private func changeConnection() {
        if isConnected {
            awayThrough = .max
            told = nil
        } else {
            writeDiscarded()
            awayThrough = last
            told = mailbox.notice
        }
        awayFrom = last
        tell("\(now): \(isConnected ? "connects" : "disconnects")")
    }

    /// The store writes down what was discarded before an acknowledgement can change that.
    private func writeDiscarded() {
        guard let overflow = replay().overflow, overflow.count > 0 else { return }
        discarded = overflow
        log.removeAll { $0.sequence <= overflow.through }
    }

    private func replay() -> MailboxReplay {
        var replay = MailboxReplay(
            limits: limits,
            after: max(MessageSequence(mark), discarded?.through ?? .none),
            absence: .away(
                from: MessageSequence(awayFrom), through: MessageSequence(awayThrough)),
            discarded: discarded)
        for entry in log { replay.add(entry) }
        return replay
    }

    private func difference() -> String? {
        var replay = replay()
        let found = replay.left(at: Instant(millisecondsSince1970: now)).map(\.sequence.rawValue)
        let expected = mailbox.pending.map(\.serial)
        if found != expected { return "stored: \(found) instead of \(expected)" }
        let count = mailbox.notice?.count ?? 0
        let through = mailbox.notice?.through ?? 0
        guard replay.discardedCount == count, replay.discardedThrough.rawValue == through else {
            return
                "discarded: \(replay.discardedCount) through \(replay.discardedThrough.rawValue) "
                + "instead of \(count) through \(through)"
        }
        return nil
    }
}
