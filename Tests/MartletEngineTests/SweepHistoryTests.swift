// SPDX-License-Identifier: Apache-2.0
//
// Random histories of mailboxes, beside logs that never lose an entry: whatever the sweep takes away,
// and whenever, a replay of what the store still has must lead where a replay of everything leads, for
// every instance at every time. Limits are small here, so that everything happens often.
// Rests on Support.

import EngineBench
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import TestSupport
import Testing

/// A store, and each instance's whole log since it was registered.
private final class MailboxHistory {
    struct Mailbox {
        var instance: Instance
        var log: [LogEntry] = []
        var marks: LaneMarks
        var single: Set<UInt64> = []
        var awayFrom = MessageSequence.none
        /// The highest there is: it is away.
        var awayThrough = MessageSequence(.max)
        /// What was written down when it connected (STO-1).
        var discarded: (count: UInt64, through: MessageSequence)?
    }

    struct Sent {
        var row: MessageSequence
        var expires: Instant
    }

    let bench: Bench
    let hasDiscards: Bool
    var random: SeededGenerator
    var project: ProjectNumber
    var mailboxes: [Mailbox] = []
    var sent: [Sent] = []
    private var connectionCount: UInt64 = 0
    static let lifespans: [Int64] = [5, 20, 60, 200, 1000]
    static let keys = ["a", "b", "c", "d"]

    init(seed: UInt64, instanceCount: Int) throws {
        random = SeededGenerator(seed: seed)
        hasDiscards = seed % 3 == 0
        var limits = BrokerLimits.none
        // What is discarded for inactive instances is forgotten one by one, so it is counted without
        // that of STO-1.
        limits.storedPerInstanceMax = hasDiscards ? 0 : 3
        limits.collapseKeysPerInstanceMax = 2
        bench = Bench(limits: limits)
        project = try bench.project("tides")
        for _ in 0..<instanceCount { try register() }
    }

    private func register() throws {
        let platform = random.chance(80) ? Platform.android : .web
        let outcome = try bench.apply(
            .register(bench.newInstance(in: "tides", platform: platform)))
        guard case .registered(let instance, let project) = outcome else {
            throw Unexpected(outcome)
        }
        mailboxes.append(
            Mailbox(instance: instance, marks: LaneMarks(project.lastSequence)))
    }

    // MARK: Steps

    func step() throws {
        switch random.number(0...99) {
        case ..<50: try send()
        case ..<70: try acknowledge()
        case ..<73: try cancel()
        case ..<76: try comeAndGo()
        case ..<77: try bench.reopen()
        default: try sweep(stepsMax: random.number(1...3), rowsMax: random.number(1...60))
        }
        if random.chance(40) {
            bench.now = bench.now.advanced(bySeconds: Int64(random.number(1...12)))
        }
        if random.chance(1) {
            bench.now = bench.now.advanced(bySeconds: Int64(random.number(60...1200)))
        }
    }

    private func anyRecipients() -> [Int] {
        switch random.number(0...9) {
        case ..<3: return [random.number(0...(mailboxes.count - 1))]
        case ..<5: return Array(mailboxes.indices.shuffled(using: &random).prefix(5))
        default:
            // Enough for a blob, mostly.
            let percent = random.number(70...100)
            return mailboxes.indices.filter { _ in random.chance(percent) }
        }
    }

    private func recipients(_ indices: [Int]) -> Recipients {
        let ordinals = indices.map { mailboxes[$0].instance.ordinal.rawValue }.sorted()
        if ordinals.count == 1 { return .one(Ordinal(ordinals[0])) }
        var builder = RecipientSetBuilder()
        var block = BlockBuffer()
        for ordinal in ordinals { _ = block.insert(bit: Int(ordinal)) }
        builder.append(block: 0, buffer: block, count: ordinals.count)
        return .many(builder.finish())
    }

    /// REP-1: what is counted of a message for these instances when it is accepted.
    private func shares(
        of indices: [Int], _ variants: [MessageVariant], isDiscarded: Bool
    ) -> [NewReport.Share] {
        var counts: [AppNumber: ReportCounts] = [:]
        for index in indices {
            let instance = mailboxes[index].instance
            guard
                isDiscarded
                    || variants.contains(where: { $0.platforms.contains(instance.platform) })
            else { continue }
            counts[instance.app, default: ReportCounts()][.targeted] += 1
            if isDiscarded { counts[instance.app]![.discardedInactive] += 1 }
        }
        return counts.map { NewReport.Share(app: $0.key, counts: $0.value) }
    }

    private func send() throws {
        let indices = anyRecipients()
        let now = bench.now
        let collapse: CollapseKey =
            switch random.number(0...9) {
            case ..<5: .none
            case ..<6: .app
            default: .named(Self.keys.randomElement(using: &random)!)
            }
        let priority: MessagePriority = random.chance(70) ? .normal : .high
        func variant(_ platforms: PlatformSet) -> MessageVariant {
            MessageVariant(
                platforms: platforms,
                expires: now.advanced(
                    bySeconds: Self.lifespans.randomElement(using: &random)!),
                priority: priority, collapse: collapse, body: [1, 2, 3])
        }
        let variants =
            random.chance(70)
            ? [variant(.all)] : [variant(PlatformSet(.android)), variant(PlatformSet(.web))]
        let isDiscarded = hasDiscards && random.chance(20)
        let expires = variants.map(\.expires).max()!
        let recipients = recipients(indices)
        let number = random.chance(10) ? UInt64(1_000_000) : 0
        let shares = shares(of: indices, variants, isDiscarded: isDiscarded)
        let project = project
        let sequence = try bench.store.write { (transaction) throws(StorageError) in
            var record = try transaction.projects.project(project)!
            record.lastSequence = MessageSequence(record.lastSequence.rawValue + 1)
            try transaction.projects.put(record, isNew: false)
            let sequence = record.lastSequence
            try transaction.reports.begin(
                NewReport(
                    sequence: sequence, number: sequence.rawValue + number, accepted: now,
                    shares: shares, missed: isDiscarded ? [recipients] : []), in: project,
                keptMax: 0)
            if isDiscarded {
                try transaction.accepting.appendDiscarded(
                    sequence, accepted: now, expires: expires, recipients: recipients, in: project)
            } else {
                try transaction.accepting.append(
                    StoredMessage(
                        sequence: sequence, number: sequence.rawValue + number, accepted: now,
                        kind: .topic, from: "/topics/x", options: MessageOptions(),
                        variants: variants),
                    recipients: recipients, in: project)
            }
            return sequence
        }
        sent.append(Sent(row: sequence, expires: expires))
        for index in indices {
            let platform = mailboxes[index].instance.platform
            guard let variant = variants.first(where: { $0.platforms.contains(platform) }) else {
                continue
            }
            let digest: CollapseDigest? =
                switch collapse {
                case .none: nil
                case .app: Bench.owner(mailboxes[index].instance).appKey
                case .named(let key): CollapseDigest(of: key)
                case .opaque: preconditionFailure("The histories have no opaque messages.")
                }
            mailboxes[index].log.append(
                isDiscarded
                    ? LogEntry(
                        sequence: sequence, accepted: now, expires: expires, priority: .normal,
                        content: .discarded)
                    : LogEntry(
                        sequence: sequence, accepted: now, expires: variant.expires,
                        priority: priority, content: .message(collapse: digest)))
        }
    }

    /// A device reads its mailbox, is told what was discarded, and takes some of it.
    private func acknowledge() throws {
        let index = random.number(0...(mailboxes.count - 1))
        try connect(index)
        var replay = whole(index)
        let left = replay.left(at: bench.now)
        var through = mailboxes[index].marks
        through.formMaximum(LaneMarks(replay.discardedThrough))
        var single: [UInt64] = []
        let isAll = random.chance(30)
        if isAll || random.chance(40) {
            // Of each lane what was delivered there.
            let count = isAll ? left.count : random.number(0...left.count)
            for entry in left.prefix(count) { through[entry.lane] = entry.sequence }
            if isAll, random.chance(60) { through.formMaximum(LaneMarks(replay.through)) }
        } else {
            single = left.filter { _ in random.chance(40) }.map(\.sequence.rawValue)
        }
        // Marks alone do not acknowledge a notice.
        if replay.discardedCount > 0 { single.append(replay.discardedThrough.rawValue) }
        let instance = mailboxes[index].instance
        var departure: Acknowledgement.Departure?
        if isAll, random.chance(50) {
            let project = project
            let last = try bench.store.read { (transaction) throws in
                try transaction.projects.project(project)!.lastSequence
            }
            departure = Acknowledgement.Departure(
                connectionNumber: connectionCount, position: last,
                throttleFull: Instant(millisecondsSince1970: 0), seen: bench.now)
            mailboxes[index].awayFrom = last
            mailboxes[index].awayThrough = MessageSequence(.max)
        }
        _ = try bench.apply(
            .acknowledge([
                Acknowledgement(
                    project: instance.project, ordinal: instance.ordinal, through: through,
                    single: single, departure: departure)
            ]))
        mailboxes[index].marks.formMaximum(through)
        mailboxes[index].single.formUnion(single)
    }

    private func connect(_ index: Int) throws {
        guard mailboxes[index].awayThrough.rawValue == .max else { return }
        if let overflow = whole(index).overflow, overflow.count > 0 {
            mailboxes[index].discarded = overflow
        }
        let (project, instance) = (project, mailboxes[index].instance)
        let last = try bench.store.read { (transaction) throws in
            try transaction.projects.project(project)!.lastSequence
        }
        connectionCount += 1
        _ = try bench.apply(
            .connected(
                project: project, ordinal: instance.ordinal, holder: instance.holder,
                connection: ConnectionStart(number: connectionCount, position: last)))
        mailboxes[index].awayFrom = last
        mailboxes[index].awayThrough = last
    }

    private func cancel() throws {
        guard let index = sent.indices.randomElement(using: &random) else { return }
        // What was accepted before in the same millisecond counts the message or not, as it happens.
        bench.now = Instant(millisecondsSince1970: bench.now.millisecondsSince1970 + 1)
        let (row, now, project) = (sent[index].row, bench.now, project)
        _ = try bench.store.write { (transaction) throws(StorageError) in
            try transaction.messages.expire(row, in: project, now: now)
        }
        guard sent[index].expires > now else { return }
        for mailbox in mailboxes.indices {
            for entry in mailboxes[mailbox].log.indices
            where mailboxes[mailbox].log[entry].sequence == row
                && mailboxes[mailbox].log[entry].content != .discarded
            {
                mailboxes[mailbox].log[entry].expires = min(
                    mailboxes[mailbox].log[entry].expires, now)
            }
        }
    }

    /// REG-3: one leaves, another comes, mostly with the same ordinal.
    private func comeAndGo() throws {
        let index = random.number(0...(mailboxes.count - 1))
        let instance = mailboxes.remove(at: index).instance
        _ = try bench.apply(.unregister(project: project, ordinal: instance.ordinal))
        try register()
    }

    func sweep(stepsMax: Int, rowsMax: Int) throws {
        let (now, limits) = (bench.now, bench.limits)
        for _ in 0..<stepsMax {
            let isMore = try bench.store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: rowsMax)
            }
            if !isMore { break }
        }
    }

    // MARK: Comparing

    /// The replay of everything there ever was.
    private func whole(_ index: Int) -> MailboxReplay {
        let mailbox = mailboxes[index]
        let discarded = mailbox.discarded.flatMap {
            $0.through > mailbox.marks.lowest ? $0 : nil
        }
        let start = max(mailbox.marks.lowest, discarded?.through ?? .none)
        var replay = MailboxReplay(
            limits: bench.limits, after: start,
            absence: .away(from: mailbox.awayFrom, through: mailbox.awayThrough),
            discarded: discarded)
        for var entry in mailbox.log where entry.sequence > start {
            entry.isAcknowledged =
                entry.sequence <= mailbox.marks[entry.lane]
                || mailbox.single.contains(entry.sequence.rawValue)
            if entry.content == .discarded, entry.expires <= bench.now { continue }
            replay.add(entry)
        }
        return replay
    }

    func compare(_ step: Int) throws {
        let (now, limits) = (bench.now, bench.limits)
        for index in mailboxes.indices {
            var expected = whole(index)
            let instance = mailboxes[index].instance
            let (found, missing) = try bench.store.read { (transaction) throws in
                let state = try transaction.mailboxes.state(
                    of: instance.ordinal, in: instance.project)
                var replay = MailboxReplay(limits: limits, state: state)
                _ = try transaction.log.forEachLogged(
                    for: Bench.owner(instance), after: state.logStart, rowsMax: .max
                ) { entry in
                    if entry.content == .discarded, entry.expires <= now { return }
                    replay.add(entry)
                }
                var missing: [MessageSequence] = []
                for entry in replay.left(at: now) {
                    let isThere = try transaction.messages.withMessage(
                        entry.sequence, on: instance.platform, in: instance.project
                    ) { #expect($0.body.count == 3) }
                    if !isThere { missing.append(entry.sequence) }
                }
                return (replay, missing)
            }
            var copy = found
            let left = copy.left(at: now).map(\.sequence.rawValue)
            try #require(
                left == expected.left(at: now).map(\.sequence.rawValue),
                "step \(step), instance \(index)")
            try #require(found.discardedCount == expected.discardedCount, "step \(step)")
            try #require(missing.isEmpty, "step \(step)")
            if found.discardedCount > 0 {
                try #require(found.discardedThrough == expected.discardedThrough, "step \(step)")
            }
        }
    }
}

@Suite("What the sweep takes away")
struct SweepHistoryTests {
    @Test(
        "TTL-3 COL-1 COL-3 STO-1 STO-2 MSG-10 REG-3: a mailbox is what the rules make of everything, whatever of it is still stored",
        arguments: 1...rounds(20) as ClosedRange<UInt64>)
    func history(seed: UInt64) throws {
        let history = try MailboxHistory(seed: seed, instanceCount: 72)
        var fewest = Int.max
        for step in 1...400 {
            try history.step()
            if step % 10 == 0 { try history.compare(step) }
            if step % 100 == 0 {
                try history.bench.expectClean()
                fewest = min(fewest, Int(try history.bench.store.check().counts.messages))
            }
        }
        #expect(fewest < 60, "nothing was taken away")
        // In the end nothing is left but the instances.
        history.bench.now = history.bench.now.advanced(bySeconds: 90_000)
        try history.bench.sweep(rowsMax: 50)
        try history.compare(401)
        history.bench.now = history.bench.now.advanced(bySeconds: 90_000)
        try history.bench.sweep()
        let counts = try history.bench.store.check().counts
        #expect(counts.messages == 0 && counts.recipients == 0)
        try history.bench.expectClean()
    }
}
