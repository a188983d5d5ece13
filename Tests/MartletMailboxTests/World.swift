// SPDX-License-Identifier: Apache-2.0
//
// A broker without sockets and threads: production's engine on rows in memory or in a store, two of production's
// loops, and a clock that the history moves. Commands are applied and told to the loops as the committer does.
// Rests on LoopDriver.

import EngineBench
import Foundation
import Glibc
import MartletBase
import MartletDelivery
import MartletEngine
import MartletRows
import MartletStore
import RedoBench

/// A folder of its own that vanishes.
final class TemporaryFolder: Sendable {
    let path: String

    init() {
        // In memory where that is possible: nothing here has to outlive the machine.
        let shared = "/dev/shm/"
        let parent = access(shared, W_OK) == 0 ? shared : NSTemporaryDirectory()
        path = parent + "martlet-mailbox-" + UUID().uuidString
        try? FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// An outcome that nobody counted on.
struct Unexpected: Error, CustomStringConvertible {
    let description: String
    init(_ outcome: Outcome) { description = "unexpected outcome: \(outcome)" }
}

/// One environment, used by many histories in turn, each with a project, an engine and loops of its own.
final class World {
    private static let loopCount = 2

    /// An instance's connection.
    struct Line {
        var instance: Instance
        var loop: Int
        var index: UInt32
        var number: UInt64
    }

    /// The folder of a world whose rows are in a store; nil: the rows are in memory.
    private let folder: TemporaryFolder?
    private var store: any RowStore
    private var engine: Engine
    private var loops: [LoopDriver] = []
    private var limits = BrokerLimits()
    private var rowsMax = 1024
    var now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private var connectionCount: UInt64 = 0
    private var tokenCount: UInt64 = 0
    private(set) var project = ProjectNumber(0)
    private var projectID = ""
    private(set) var historyCount = 0
    private var lines: [Ordinal: Line] = [:]
    /// By the number in the body.
    private(set) var streamIDs: [UInt64: UInt64] = [:]

    /// What is left of a loop's acknowledgements for the next transaction.
    private struct Rest {
        var loop: LoopDriver
        var batch: UInt64
        var command: Command
    }

    private var rests: [Rest] = []
    /// nil: production's, and a batch of acknowledgements is done before anything else happens.
    private var acknowledgingBounds: AcknowledgingBounds?

    /// Where the rows of a world are.
    enum Place {
        /// Faster than the others.
        case memory
        case store
        /// In a store that has them from the log of another one alone.
        case redoneStore
    }

    init(_ place: Place) throws {
        switch place {
        case .memory:
            folder = nil
            store = MemoryStore()
        case .store:
            let folder = TemporaryFolder()
            self.folder = folder
            store = try Self.open(folder)
        case .redoneStore:
            let folder = TemporaryFolder()
            self.folder = folder
            store = try RedoneStore(folder: folder.path)
        }
        engine = Engine()
    }

    private static func open(_ folder: TemporaryFolder) throws -> Store {
        try Store(
            StoreConfiguration(
                folder: folder.path + "/data", mapBytes: 1 << 26, durability: .os))
    }

    /// - Parameters:
    ///   - rowsMax: messages that a loop looks at before it turns to other sessions.
    ///   - acknowledgingBounds: what a transaction does of the acknowledgements that wait.
    func beginHistory(
        limits: BrokerLimits, rowsMax: Int, acknowledgingBounds: AcknowledgingBounds? = nil
    ) throws {
        self.limits = limits
        self.rowsMax = rowsMax
        self.acknowledgingBounds = acknowledgingBounds
        forgetMemory()
        streamIDs = [:]
        historyCount += 1
        projectID = "p\(historyCount)"
        let outcome = try apply(
            .createProject(id: projectID, senderID: 4711, conditionTopicsMax: 0))
        guard case .project(let made) = outcome else { throw Unexpected(outcome) }
        project = made.number
    }

    /// OPS-7: makes the broker a node of a cluster.
    func beginCluster() throws {
        let now = now
        _ = try store.write { (transaction) throws(StorageError) in
            try transaction.connections.beginRun(of: "a", process: 1, now: now)
        }
    }

    private func forgetMemory() {
        engine = Engine(limits: limits)
        engine.acknowledgingBounds = acknowledgingBounds ?? .alone
        rests = []
        lines = [:]
        loops = (0..<Self.loopCount).map { _ in LoopDriver(limits: limits, rowsMax: rowsMax) }
    }

    /// What was only in memory is lost.
    /// - Parameter isReopened: the store is opened anew too.
    func crash(isReopened: Bool) throws {
        if isReopened, let folder, let open = store as? Store {
            open.close()
            store = try Self.open(folder)
        }
        if isReopened, let redone = store as? RedoneStore { try redone.reopen() }
        forgetMemory()
        _ = try apply([])
    }

    // MARK: Committing

    func apply(_ command: Command) throws -> Outcome { try apply([command])[0] }

    /// Applies commands in one transaction, behind what is left of earlier ones, and tells the loops what
    /// came of them.
    func apply(_ commands: [Command]) throws -> [Outcome] {
        let outcomes = try commit(rests.map(\.command) + commands)
        var left: [Rest] = []
        for (rest, outcome) in zip(rests, outcomes) {
            if case .unfinished(let command) = outcome {
                left.append(Rest(loop: rest.loop, batch: rest.batch, command: command))
            } else {
                rest.loop.acknowledgementsSettled(rest.batch)
            }
        }
        defer { rests = left }
        return Array(outcomes.dropFirst(rests.count))
    }

    private func commit(_ commands: [Command]) throws -> [Outcome] {
        let now = now
        var isAgain = false
        let (own, outcomes) = try store.write { (transaction) throws(StorageError) in
            if isAgain { self.engine.abandon() }
            isAgain = true
            var own: [Outcome] = []
            while true {
                let advance = try self.engine.advance(now: now, in: transaction)
                own += advance.outcomes
                guard advance.hasMore else { break }
            }
            return (own, try self.engine.apply(commands, now: now, in: transaction))
        }
        engine.committed()
        publish(own + outcomes)
        return outcomes
    }

    private func note(_ fanout: Fanout) {
        // What an earlier history scheduled may become due too.
        guard fanout.project == project, fanout.header.sequence.isStored else { return }
        let id = fanout.body.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        streamIDs[id] = fanout.header.sequence.rawValue
    }

    private func publish(_ outcomes: [Outcome]) {
        for outcome in outcomes {
            switch outcome {
            case .accepted(_, let fanouts):
                for fanout in fanouts { note(fanout) }
                for loop in loops { for fanout in fanouts { loop.begin(fanout, now: now) } }
            case .unregistered(_, let ordinal, _): close(ordinal)
            case .cancelled(let project, _, let sequence?):
                for loop in loops { loop.cancel(sequence, in: project) }
            default: break
            }
        }
    }

    /// Time passes, and the committer and the loops see that it has.
    /// - Parameter loopsFirst: the loops do, and then the committer.
    func passTime(to instant: Instant, loopsFirst: Bool = false) throws {
        try finishRests()
        now = instant
        if loopsFirst { try settle() }
        _ = try apply([])
    }

    /// Loops turn until everything that can be sent was.
    func settle() throws {
        for (number, loop) in loops.enumerated() {
            try loop.settle(store, now: now)
            while let index = loop.nextOverfull() {
                let line = lines.values.first { $0.loop == number && $0.index == index }!
                try handOver(loop)
                try tellConnected(line)
                loop.stored(index, connectionNumber: line.number)
                try loop.settle(store, now: now)
            }
        }
    }

    /// The loops' acknowledgements reach the store.
    func handOver() throws {
        for loop in loops { try handOver(loop) }
    }

    private func handOver(_ loop: LoopDriver) throws {
        try handOver(loop, loop.takeAcknowledgements(), loop.takeSent())
    }

    private func handOver(
        _ loop: LoopDriver, _ acknowledgements: [Acknowledgement], _ sent: [SentCount]
    ) throws {
        guard !acknowledgements.isEmpty || !sent.isEmpty else { return }
        let batch = loop.lastBatch
        let outcome = try apply(.acknowledge(acknowledgements, sent: sent))
        if case .unfinished(let rest) = outcome {
            rests.append(Rest(loop: loop, batch: batch, command: rest))
            if acknowledgingBounds == nil { try finishRests() }
        } else {
            loop.acknowledgementsSettled(batch)
        }
    }

    /// Everything that was acknowledged is in the store.
    func finishRests() throws {
        while !rests.isEmpty { _ = try apply([]) }
    }

    // MARK: Instances

    func newToken() -> Token {
        tokenCount += 1
        return Token(words: (tokenCount &* 0x9E37_79B9_7F4A_7C15, tokenCount, ~tokenCount))
    }

    func register(app: String, platform: Platform) throws -> Instance {
        try register([(app, platform)])[0]
    }

    func register(_ kinds: [(app: String, platform: Platform)]) throws -> [Instance] {
        let commands = kinds.map { app, platform in
            let token = newToken()
            var generator = SeededGenerator(seed: tokenCount)
            let digest = (0..<32).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
            return Command.register(
                NewInstance(
                    project: projectID, app: app, platform: platform, token: token,
                    keyDigest: SecretDigest(bytes: digest), proof: .trusted))
        }
        return try apply(commands).map { outcome in
            guard case .registered(let instance, _) = outcome else { throw Unexpected(outcome) }
            return instance
        }
    }

    // MARK: Connections

    /// - Parameter taken: stream IDs that the device lists in its HELLO.
    /// - Parameter isHasty: it reads the store before what the last connection left is there.
    /// - Parameter readsEarly: it reads its mailbox before the store knows that it is connected.
    func connect(
        _ instance: Instance, _ state: DeviceState, taken: [UInt64], loop: Int, isHasty: Bool,
        readsEarly: Bool = false
    ) throws {
        if let line = lines[instance.ordinal], line.loop != loop { close(instance.ordinal) }
        if !isHasty {
            try handOver()
            try finishRests()
        }
        let (mailbox, position) = try store.read { (transaction) throws in
            (
                try transaction.mailboxes.state(of: instance.ordinal, in: project),
                try transaction.projects.project(project)!.lastSequence
            )
        }
        let app = try store.read { (transaction) throws in
            try transaction.projects.app(instance.app, in: project)!
        }
        connectionCount += 1
        let index = loops[loop].attach(
            Attachment(
                owner: MailboxOwner(
                    project: project, ordinal: instance.ordinal, platform: instance.platform,
                    appKey: CollapseDigest(of: app.name)),
                holder: instance.holder, mailbox: mailbox, position: position, state: state,
                taken: taken, connectionNumber: connectionCount), now: now)
        let line = Line(
            instance: instance, loop: loop, index: index, number: connectionCount)
        lines[instance.ordinal] = line
        if readsEarly { try settle() }
        // The committer takes what a loop hands over in its order; another loop's, of which the last
        // connection was, may come later.
        try handOver(loops[loop], loops[loop].takeQueuedAcknowledgements(), [])
        if !isHasty { try handOver() }
        try tellConnected(instance)
        loops[loop].stored(line.index, connectionNumber: line.number)
        if isHasty {
            try settle()
            try handOver()
        }
    }

    func setState(_ ordinal: Ordinal, _ state: DeviceState) {
        guard let line = lines[ordinal] else { return }
        loops[line.loop].setState(line.index, state)
    }

    func acknowledge(_ ordinal: Ordinal, through: UInt64, single: [UInt64]) -> Bool {
        guard let line = lines[ordinal] else { return false }
        return loops[line.loop].acknowledge(line.index, through: through, single: single)
    }

    func close(_ ordinal: Ordinal) {
        guard let line = lines.removeValue(forKey: ordinal) else { return }
        loops[line.loop].close(line.index, now: now)
    }

    /// The daily word that an instance is still connected (STO-2).
    func tellConnected(_ instance: Instance) throws {
        try tellConnected(lines[instance.ordinal]!)
    }

    private func tellConnected(_ line: Line) throws {
        let start = loops[line.loop].connectionStart(of: line.index)
        _ = try apply(
            .connected(
                project: project, ordinal: line.instance.ordinal, holder: line.instance.holder,
                connection: start))
    }

    func takeFrames(_ ordinal: Ordinal) -> [Frame] {
        guard let line = lines[ordinal] else { return [] }
        return loops[line.loop].takeFrames(line.index)
    }

    func report(_ number: UInt64) throws -> MessageReport? {
        try store.read { (transaction) throws in
            try Reports.message(number, in: project, limits: limits, now: now, transaction)
        }
    }

    /// What was counted day by day, together.
    func dayCounts() throws -> ReportCounts {
        try store.read { (transaction) throws in
            let due = try transaction.reporting.dueOutcomes(
                since: 0, in: project, limits: limits, now: now)
            return try Reports.days(0...now.day, in: project, due, transaction)
                .reduce(into: ReportCounts()) { $0 += $1.counts }
        }
    }

    /// Those that have not got a message, in pages of a few.
    func notReceived(_ number: UInt64) throws -> Set<String>? {
        var tokens: Set<String> = []
        var start = Ordinal(0)
        while true {
            let page = try store.read { (transaction) throws in
                try Reports.notReceived(number, in: project, from: start, limit: 3, transaction)
            }
            guard let page else { return nil }
            tokens.formUnion(page.tokens.map(\.text))
            guard let next = page.next else { return tokens }
            start = next
        }
    }

    func check() throws -> CheckReport { try store.check() }

    /// The first contradiction between the rows of the history; nil: all agree.
    func brokenInvariant() throws -> String? {
        try store.read { (transaction) throws in try transaction.brokenInvariant(in: project) }
    }
}
