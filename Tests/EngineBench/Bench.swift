// SPDX-License-Identifier: Apache-2.0
//
// An engine on a store, with a clock that the test moves, and the commands that tests use most. Rests on MemoryStore.

package import MartletBase
package import MartletEngine
package import MartletRows

/// An engine on a store, as the committer runs it. The rows are in memory, unless a subclass has another store.
open class Bench {
    package var store: any RowStore
    private var engine: Engine
    package let limits: BrokerLimits
    package var now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private var tokenCount: UInt64 = 0

    package init(limits: BrokerLimits, store: any RowStore) {
        self.limits = limits
        self.store = store
        engine = Engine(limits: limits)
    }

    package convenience init(limits: BrokerLimits = .none) {
        self.init(
            limits: limits,
            store: MemoryStore())
    }

    /// The broker ends and begins anew: what was in memory alone is lost.
    open func reopen() throws { engine = Engine(limits: limits) }

    /// Applies commands in a transaction that then fails, as on a full disk.
    package func applyInVain(_ commands: [Command]) throws {
        let trouble = StorageError(operation: "commit", code: 5, text: "no", isFull: false)
        let now = now
        do throws(StorageError) {
            try store.write { (transaction) throws(StorageError) in
                for command in commands {
                    _ = try self.engine.apply(command, now: now, in: transaction)
                }
                throw trouble
            }
        } catch {
            guard error.code == trouble.code else { throw error }
        }
        engine.abandon()
    }

    /// Applies commands in one transaction.
    package func apply(_ commands: [Command]) throws -> [Outcome] {
        let now = now
        return try store.write { (transaction) throws(StorageError) in
            var outcomes: [Outcome] = []
            for command in commands {
                outcomes.append(try self.engine.apply(command, now: now, in: transaction))
            }
            return outcomes
        }
    }

    package func apply(_ command: Command) throws -> Outcome { try apply([command])[0] }

    /// Applies commands in one transaction, as long as it goes on.
    package func apply(_ commands: [Command], goesOn: () -> Bool) throws -> [Outcome] {
        let now = now
        return try store.write { (transaction) throws(StorageError) in
            try self.engine.apply(commands, now: now, in: transaction, goesOn: goesOn)
        }
    }

    // MARK: The usual commands

    @discardableResult
    package func project(_ id: String, topicsMax: Int = 0) throws -> ProjectNumber {
        let outcome = try apply(
            .createProject(id: id, senderID: 4711, conditionTopicsMax: topicsMax))
        guard case .project(let project) = outcome else { throw Unexpected(outcome) }
        return project.number
    }

    package func newInstance(
        in project: String, app: String = "com.example.tides", platform: Platform = .android
    ) -> NewInstance {
        tokenCount += 1
        let words = (tokenCount &* 0x9E37_79B9_7F4A_7C15, tokenCount, ~tokenCount)
        return NewInstance(
            project: project, app: app, platform: platform, token: Token(words: words),
            keyDigest: SecretDigest(
                bytes: (0..<32).map { UInt8(truncatingIfNeeded: tokenCount &+ $0) }),
            proof: .trusted)
    }

    package func register(_ count: Int, in project: String) throws -> [Instance] {
        var instances: [Instance] = []
        while instances.count < count {
            let batch = (0..<min(4096, count - instances.count)).map { _ in
                Command.register(newInstance(in: project))
            }
            for outcome in try apply(batch) {
                guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
                instances.append(instance)
            }
        }
        return instances
    }

    /// A new project with one instance.
    package func register(in project: String) throws -> Instance {
        try self.project(project)
        return try register(1, in: project)[0]
    }

    /// A sender changes one topic for many instances, 1000 a request, in one transaction.
    package func change(
        _ operation: TopicOperation, _ topic: String, _ instances: some Collection<Instance>,
        in project: ProjectNumber
    ) throws {
        var rest = Array(instances)[...]
        var commands: [Command] = []
        while !rest.isEmpty {
            let tokens = rest.prefix(1000).map(\.token.text)
            rest = rest.dropFirst(1000)
            commands.append(
                .changeTopic(project: project, topic: topic, change: operation, tokens: tokens))
        }
        for outcome in try apply(commands) {
            guard case .topicsChanged(let result) = outcome, result.failures.isEmpty else {
                throw Unexpected(outcome)
            }
        }
    }

    package func deviceChange(
        _ operation: TopicOperation, _ topics: [String], _ instance: Instance
    ) throws -> TopicChangeResult {
        let outcome = try apply(
            .changeTopics(
                project: instance.project, ordinal: instance.ordinal, change: operation,
                topics: topics))
        guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
        return result
    }

    package func send(
        _ target: SendCommand.Target, in project: ProjectNumber, body: [UInt8] = [1, 2, 3],
        timeToLive: UInt32? = nil, collapse: CollapseKey = .none, validateOnly: Bool = false
    ) throws -> Outcome {
        try apply(
            .send(
                project: project,
                message: SendCommand(
                    target: target, body: body,
                    lifespan: timeToLive.map { .seconds($0) } ?? .longest, collapse: collapse,
                    validateOnly: validateOnly)))
    }

    /// Sends and expects acceptance.
    package func accepted(
        _ target: SendCommand.Target, in project: ProjectNumber, body: [UInt8] = [1, 2, 3],
        timeToLive: UInt32? = nil, collapse: CollapseKey = .none, validateOnly: Bool = false
    ) throws -> (Acceptance, Fanout?) {
        let outcome = try send(
            target, in: project, body: body, timeToLive: timeToLive, collapse: collapse,
            validateOnly: validateOnly)
        guard case .accepted(let acceptance, let fanouts) = outcome, fanouts.count <= 1 else {
            throw Unexpected(outcome)
        }
        return (acceptance, fanouts.first)
    }

    /// Sweeps in steps of `rowsMax` until there is nothing more to do.
    package func sweep(rowsMax: Int = 1000) throws {
        let (now, limits) = (now, limits)
        var isMore = true
        while isMore {
            isMore = try store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: rowsMax)
            }
        }
    }

    /// Does due work, as before the commands of a transaction, until there is nothing more to do.
    package func advance() throws -> [Outcome] {
        let now = now
        var outcomes: [Outcome] = []
        var isMore = true
        while isMore {
            isMore = try store.write { (transaction) throws(StorageError) in
                let advance = try self.engine.advance(now: now, in: transaction)
                outcomes += advance.outcomes
                return advance.hasMore
            }
        }
        return outcomes
    }

    // MARK: Questions

    package func members(of topic: String, in project: ProjectNumber) throws -> [Token] {
        let name = try TopicName(validating: topic)
        var tokens: [Token] = []
        var from = Ordinal(0)
        while true {
            let page = try store.read { (transaction) throws in
                try Listing.subscribers(
                    of: name, in: project, from: from, limit: 1000, transaction)
            }
            tokens += page.tokens
            guard let next = page.next else { return tokens }
            from = next
        }
    }

    /// Sequences and bodies of what waits for an instance.
    package func pending(_ instance: Instance) throws -> [Waiting] {
        try mailbox(instance).waiting
    }

    /// What an instance's mailbox holds, and how many messages were discarded.
    package func mailbox(
        _ instance: Instance
    ) throws -> (waiting: [Waiting], discardedCount: UInt64, state: MailboxState) {
        let (now, limits) = (now, limits)
        return try store.read { (transaction) throws in
            let state = try transaction.mailboxes.state(
                of: instance.ordinal, in: instance.project)
            var replay = MailboxReplay(limits: limits, state: state)
            let scan = try transaction.log.forEachLogged(
                for: Self.owner(instance), after: state.logStart, rowsMax: .max
            ) { replay.add($0) }
            precondition(scan.isWhole, "a log is read to its end")
            var waiting: [Waiting] = []
            for entry in replay.left(at: now) {
                let isThere = try transaction.messages.withMessage(
                    entry.sequence, on: instance.platform, in: instance.project
                ) { message in
                    waiting.append(
                        Waiting(
                            sequence: message.header.sequence.rawValue, from: message.header.from,
                            body: Array(message.body)))
                }
                precondition(isThere, "message \(entry.sequence.rawValue) has no body")
            }
            return (waiting, replay.discardedCount, state)
        }
    }

    package static func owner(_ instance: Instance) -> MailboxOwner {
        MailboxOwner(
            project: instance.project, ordinal: instance.ordinal, platform: instance.platform,
            appKey: CollapseDigest(of: "com.example.tides"))
    }

    package func acknowledge(
        _ instance: Instance, _ through: UInt64, _ single: [UInt64] = [],
        departure: Acknowledgement.Departure? = nil
    ) throws {
        _ = try apply(
            .acknowledge([
                Acknowledgement(
                    project: instance.project, ordinal: instance.ordinal,
                    through: LaneMarks(MessageSequence(through)), single: single,
                    departure: departure)
            ]))
    }

    /// Rows of tables.
    package func rowCounts(_ tables: [Table]) throws -> [Int] {
        try store.read { (transaction) throws in tables.map { transaction.raw.entryCount($0) } }
    }
}

package struct Waiting: Hashable {
    package var sequence: UInt64
    package var from: String
    package var body: [UInt8]

    package init(sequence: UInt64, from: String, body: [UInt8]) {
        self.sequence = sequence
        self.from = from
        self.body = body
    }
}

/// An outcome that a test did not count on.
package struct Unexpected: Error, CustomStringConvertible {
    package let description: String
    package init(_ outcome: Outcome) { description = "unexpected outcome: \(outcome)" }
}

package func refusal(_ outcome: Outcome) -> ErrorWord? {
    guard case .refused(let error) = outcome else { return nil }
    return error.word
}

extension LaneMarks {
    package static func even(_ sequence: UInt64) -> LaneMarks {
        LaneMarks(MessageSequence(sequence))
    }
}

extension LogScan {
    package var isWhole: Bool { if case .end = self { true } else { false } }
}

/// The bytes of a number, lowest first.
package func little(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.littleEndian) { Array($0) }
}
