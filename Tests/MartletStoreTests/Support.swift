// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the store share: folders that vanish, seeded randomness, and an engine on a real
// store with a clock that is told the time. Rests on MartletStore and MartletEngine.

import Foundation
import MartletBase
import MartletEngine
import MartletRows
import MartletStore
import Testing

/// A folder of its own for one test.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        path = NSTemporaryDirectory() + "martlet-store-" + UUID().uuidString
        try? FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var data: String { path + "/data" }
}

/// SplitMix64: small, seeded, the same everywhere.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func chance(_ percent: Int) -> Bool { Int(next() % 100) < percent }
    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }
}

/// An engine on a store, as the committer runs it.
final class Bench {
    let folder = TemporaryFolder()
    private(set) var store: Store
    private var engine: Engine
    let limits: MailboxLimits
    var now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private var tokenCount: UInt64 = 0

    private var configuration: StoreConfiguration

    init(
        mapBytes: Int = 1 << 24, limits: MailboxLimits = .none, checkpointCommitsMax: Int = 1000,
        faults: StoreFaults? = nil
    ) throws {
        self.limits = limits
        engine = Engine(limits: limits)
        configuration = StoreConfiguration(folder: folder.data, mapBytes: mapBytes)
        configuration.reportsPerProjectMax = limits.reportsPerProjectMax
        configuration.checkpointCommitsMax = checkpointCommitsMax
        configuration.faults = faults
        store = try Store(configuration)
    }

    /// Closes the store, hands its folder to `body`, and opens it again with a new engine.
    func reopen(mapBytes: Int = 1 << 24, _ body: (String) throws -> Void = { _ in }) throws {
        let other = TemporaryFolder()
        store = try Store(StoreConfiguration(folder: other.data, mapBytes: 1 << 20))
        try body(folder.data)
        configuration.mapBytes = mapBytes
        store = try Store(configuration)
        engine = Engine(limits: limits)
    }

    /// Applies commands in a transaction that then fails, as on a full disk.
    func applyInVain(_ commands: [Command]) throws {
        let trouble = StorageError(operation: "commit", code: 5, text: "no", isFull: false)
        let now = now
        #expect(throws: StorageError.self) {
            try store.write { (transaction) throws(StorageError) in
                for command in commands {
                    _ = try self.engine.apply(command, now: now, in: transaction)
                }
                throw trouble
            }
        }
        engine.abandon()
    }

    /// Applies commands in one transaction.
    func apply(_ commands: [Command]) throws -> [Outcome] {
        let now = now
        return try store.write { (transaction) throws(StorageError) in
            var outcomes: [Outcome] = []
            for command in commands {
                outcomes.append(try self.engine.apply(command, now: now, in: transaction))
            }
            return outcomes
        }
    }

    func apply(_ command: Command) throws -> Outcome { try apply([command])[0] }

    /// Applies commands in one transaction, as long as it goes on.
    func apply(_ commands: [Command], goesOn: () -> Bool) throws -> [Outcome] {
        let now = now
        return try store.write { (transaction) throws(StorageError) in
            try self.engine.apply(commands, now: now, in: transaction, goesOn: goesOn)
        }
    }

    // MARK: The usual commands

    @discardableResult
    func project(_ id: String, topicsMax: Int = 0) throws -> ProjectNumber {
        let outcome = try apply(
            .createProject(id: id, senderID: 4711, conditionTopicsMax: topicsMax))
        guard case .project(let project) = outcome else { throw Unexpected(outcome) }
        return project.number
    }

    func newInstance(
        in project: String, app: String = "com.example.tides", platform: Platform = .android
    ) -> NewInstance {
        tokenCount += 1
        let words = (tokenCount &* 0x9E37_79B9_7F4A_7C15, tokenCount, ~tokenCount)
        return NewInstance(
            project: project, app: app, platform: platform, token: Token(words: words),
            keyDigest: SecretDigest(
                bytes: (0..<32).map { UInt8(truncatingIfNeeded: tokenCount &+ $0) }))
    }

    func register(_ count: Int, in project: String) throws -> [Instance] {
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
    func register(in project: String) throws -> Instance {
        try self.project(project)
        return try register(1, in: project)[0]
    }

    /// A sender changes one topic for many instances, 1000 a request, in one transaction.
    func change(
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

    func deviceChange(
        _ operation: TopicOperation, _ topics: [String], _ instance: Instance
    ) throws -> TopicChangeResult {
        let outcome = try apply(
            .changeTopics(
                project: instance.project, ordinal: instance.ordinal, change: operation,
                topics: topics))
        guard case .topicsChanged(let result) = outcome else { throw Unexpected(outcome) }
        return result
    }

    func send(
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
    func accepted(
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
    func sweep(rowsMax: Int = 1000) throws {
        let (now, limits) = (now, limits)
        var isMore = true
        while isMore {
            isMore = try store.write { (transaction) throws(StorageError) in
                try transaction.sweeping.sweep(now: now, limits: limits, rowsMax: rowsMax)
            }
        }
    }

    // MARK: Questions

    func members(of topic: String, in project: ProjectNumber) throws -> [Token] {
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
    func pending(_ instance: Instance) throws -> [Waiting] {
        try mailbox(instance).waiting
    }

    /// What an instance's mailbox holds, and how many messages were discarded.
    func mailbox(
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
            #expect(scan.isWhole)
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
                #expect(isThere, "message \(entry.sequence.rawValue) has no body")
            }
            return (waiting, replay.discardedCount, state)
        }
    }

    static func owner(_ instance: Instance) -> MailboxOwner {
        MailboxOwner(
            project: instance.project, ordinal: instance.ordinal, platform: instance.platform,
            appKey: CollapseDigest(of: "com.example.tides"))
    }

    func acknowledge(
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

    /// Entries of tables; the store is closed and opened again for it.
    func rowCounts(_ tables: [String]) throws -> [Int] {
        var counts: [Int] = []
        try reopen { folder in
            counts = try tables.map { try RawStore(folder: folder).count($0) }
        }
        return counts
    }

    func expectClean(_ location: SourceLocation = #_sourceLocation) throws {
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
    }
}

struct Waiting: Hashable {
    var sequence: UInt64
    var from: String
    var body: [UInt8]
}

/// An outcome that a test did not count on.
struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ outcome: Outcome) { description = "unexpected outcome: \(outcome)" }
}

func refusal(_ outcome: Outcome) -> ErrorWord? {
    guard case .refused(let error) = outcome else { return nil }
    return error.word
}

extension LaneMarks {
    static func even(_ sequence: UInt64) -> LaneMarks { LaneMarks(MessageSequence(sequence)) }
}

extension LogScan {
    var isWhole: Bool { if case .end = self { true } else { false } }
}
