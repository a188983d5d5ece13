// SPDX-License-Identifier: Apache-2.0
//
// What the tests of sending share: an engine with limits, run as the committer runs it, with commands that can fail
// and a clock that the test moves. Rests on MemoryStore.

import EngineBench
import Foundation
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import Testing

final class SendBench {
    let store: MemoryStore
    private var engine: Engine
    let limits: BrokerLimits
    var now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private var secretCount: UInt64 = 0
    let tides: ProjectNumber
    /// FAN-1: counts what is in progress, if the test is about that.
    private(set) var book: FanoutBook?
    /// UPS-1.
    private(set) var upstreamBook = UpstreamBook()
    private var firstFanouts: [UInt64: Fanout] = [:]

    init(
        _ limits: BrokerLimits = BrokerLimits(), countsFanouts: Bool = false
    ) throws {
        self.limits = limits
        book = countsFanouts ? FanoutBook(limits: limits) : nil
        let store = MemoryStore()
        self.store = store
        engine = Engine(limits: limits, book: book, upstreamBook: upstreamBook)
        var first = Engine()
        let now = now
        let outcome = try store.write { (transaction) throws(StorageError) in
            try first.apply(
                .createProject(id: "tides", senderID: 4711, conditionTopicsMax: 0), now: now,
                in: transaction)
        }
        guard case .project(let project) = outcome else { throw Surprise(outcome) }
        tides = project.number
    }

    /// The broker ends and begins anew.
    func restart() throws {
        if book != nil { book = FanoutBook(limits: limits) }
        upstreamBook = UpstreamBook()
        engine = Engine(limits: limits, book: book, upstreamBook: upstreamBook)
    }

    func wait(seconds: Double) {
        now = Instant(rawValue: now.rawValue + Int64(seconds * 1000))
    }

    // MARK: Commands

    func apply(_ commands: [Command]) throws -> [Outcome] {
        let now = now
        let outcomes = try store.write { (transaction) throws(StorageError) in
            var outcomes: [Outcome] = []
            for command in commands {
                outcomes.append(try self.engine.apply(command, now: now, in: transaction))
            }
            return outcomes
        }
        engine.committed()
        begin(outcomes)
        return outcomes
    }

    /// As the committer does when there is one loop.
    private func begin(_ outcomes: [Outcome]) {
        for outcome in outcomes {
            switch outcome {
            case .upstreamAccepted(let acceptance, _): upstreamBook.accepted(acceptance)
            case .upstreamTaken(let project, let numbers):
                upstreamBook.taken(numbers, in: project)
            default: break
            }
            guard case .accepted(_, let fanouts) = outcome, let first = fanouts.first else {
                continue
            }
            firstFanouts[first.header.number] = first
            first.progress?.begin(loops: 1, at: now)
        }
    }

    /// The loop is through with a message's fanouts.
    func end(_ messageNumber: UInt64) throws {
        guard let fanout = firstFanouts.removeValue(forKey: messageNumber) else {
            throw Surprise("message \(messageNumber) is not in progress")
        }
        fanout.progress?.endPart(at: now)
    }

    /// Applies a command and has nobody told of it.
    func applyAsIs(_ command: Command) throws -> Outcome {
        let now = now
        let outcome = try store.write { (transaction) throws(StorageError) in
            try self.engine.apply(command, now: now, in: transaction)
        }
        engine.committed()
        return outcome
    }

    /// What happens by itself, in a transaction that then fails.
    func advanceInVain() throws {
        let now = now
        #expect(throws: StorageError.self) {
            try store.write { (transaction) throws(StorageError) in
                _ = try self.engine.advance(now: now, in: transaction)
                throw StorageError(operation: "commit", code: 5, text: "no", isFull: false)
            }
        }
        engine.abandon()
    }

    var canBeginDeferred: Bool { engine.canBeginDeferred }

    func apply(_ command: Command) throws -> Outcome { try apply([command])[0] }

    /// Applies commands in a transaction that then fails.
    func applyInVain(_ commands: [Command]) throws {
        let now = now
        #expect(throws: StorageError.self) {
            try store.write { (transaction) throws(StorageError) in
                for command in commands {
                    _ = try self.engine.apply(command, now: now, in: transaction)
                }
                throw StorageError(operation: "commit", code: 5, text: "no", isFull: false)
            }
        }
        engine.abandon()
    }

    /// What happens by itself until there is nothing more to do.
    func advance() throws -> [Outcome] {
        var outcomes: [Outcome] = []
        let now = now
        while true {
            let step = try store.write { (transaction) throws(StorageError) in
                try self.engine.advance(now: now, in: transaction)
            }
            engine.committed()
            begin(step.outcomes)
            outcomes += step.outcomes
            if !step.hasMore { return outcomes }
        }
    }

    func register(
        app: String = "com.example.tides", on platform: Platform = .android,
        in project: String = "tides"
    ) throws -> Instance {
        let outcome = try apply(
            .register(
                NewInstance(
                    project: project, app: app, platform: platform, token: token(),
                    keyDigest: SecretDigest(
                        bytes: (0..<32).map {
                            UInt8(truncatingIfNeeded: secretCount >> (UInt64($0) % 8 * 8))
                        }), proof: .trusted)))
        guard case .registered(let instance, _) = outcome else { throw Surprise(outcome) }
        return instance
    }

    func token() -> Token {
        secretCount += 1
        return Token(words: (secretCount &* 0x9E37_79B9_7F4A_7C15, secretCount, ~secretCount))
    }

    func subscribe(_ instances: [Instance], to topic: String) throws {
        for instance in instances {
            _ = try apply(
                .changeTopics(
                    project: instance.project, ordinal: instance.ordinal, change: .subscribe,
                    topics: [topic]))
        }
    }

    /// Sends and expects acceptance.
    func accepted(_ message: SendCommand) throws -> (acceptance: Acceptance, fanouts: [Fanout]) {
        let outcome = try apply(.send(project: tides, message: message))
        guard case .accepted(let acceptance, let fanouts) = outcome else {
            throw Surprise(outcome)
        }
        return (acceptance, fanouts)
    }

    /// Sends and expects a refusal.
    func refused(_ message: SendCommand) throws -> MartletError {
        let outcome = try apply(.send(project: tides, message: message))
        guard case .refused(let error) = outcome else { throw Surprise(outcome) }
        return error
    }

    /// The instance connects, takes everything and leaves.
    func visit(_ instance: Instance) throws {
        let last = try lastSequence()
        let marks = LaneMarks(last)
        _ = try apply([
            .connected(
                project: instance.project, ordinal: instance.ordinal, holder: instance.holder,
                connection: ConnectionStart(number: 1, position: last)),
            .acknowledge([
                Acknowledgement(
                    project: instance.project, ordinal: instance.ordinal, through: marks,
                    departure: Acknowledgement.Departure(
                        connectionNumber: 1, position: last,
                        throttleFull: Instant(millisecondsSince1970: 0), seen: now))
            ]),
        ])
    }

    // MARK: Questions

    /// Bodies of what is stored for an instance, and how many messages were discarded for it.
    func mailbox(_ instance: Instance) throws -> (bodies: [[UInt8]], discardedCount: UInt64) {
        let (now, limits) = (now, limits)
        return try store.read { (transaction) throws in
            let state = try transaction.mailboxes.state(
                of: instance.ordinal, in: instance.project)
            var replay = MailboxReplay(limits: limits, state: state)
            let owner = MailboxOwner(
                project: instance.project, ordinal: instance.ordinal, platform: instance.platform,
                appKey: CollapseDigest(rawValue: 1))
            let scan = try transaction.log.forEachLogged(
                for: owner, after: state.logStart, rowsMax: .max
            ) { replay.add($0) }
            #expect(scan.isWhole)
            var bodies: [[UInt8]] = []
            for entry in replay.left(at: now) {
                let isThere = try transaction.messages.withMessage(
                    entry.sequence, on: instance.platform, in: instance.project
                ) { bodies.append(Array($0.body)) }
                #expect(isThere)
            }
            return (bodies, replay.discardedCount)
        }
    }

    func receipts(after event: UInt64 = 0) throws -> [Receipt] {
        let tides = tides
        return try store.read { (transaction) throws in
            try Receipt.page(after: event, limit: 1000, in: tides, transaction)
        }
    }

    /// The last sequence of the project.
    func lastSequence() throws -> MessageSequence {
        try store.read { (transaction) throws in
            try transaction.projects.project(tides)?.lastSequence ?? .none
        }
    }

    /// The state of an instance's mailbox.
    func state(_ instance: Instance) throws -> MailboxState {
        try store.read { (transaction) throws in
            try transaction.mailboxes.state(of: instance.ordinal, in: instance.project)
        }
    }

    /// OPS-7: begins the run of a node's process, which makes the store a cluster's.
    @discardableResult
    func beginRun(of node: String, process: UInt64) throws -> UInt32 {
        let now = now
        return try store.write { (transaction) throws(StorageError) in
            try transaction.connections.beginRun(of: node, process: process, now: now)
        }
    }

    func expectClean(_ location: SourceLocation = #_sourceLocation) throws {
        let report = try store.check()
        #expect(report.problemCount == 0, "\(report.problems)", sourceLocation: location)
    }
}

/// Something that a test did not count on.
struct Surprise: Error, CustomStringConvertible {
    let description: String
    init(_ what: Any) { description = "unexpected: \(what)" }
}

extension Recipients {
    var ordinals: [UInt32] {
        switch self {
        case .one(let ordinal): return [ordinal.rawValue]
        case .many(let set):
            var found: [UInt32] = []
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                block.view.forEachBit {
                    found.append(Ordinal(block: block.block, bit: $0).rawValue)
                }
            }
            return found
        }
    }
}
