// SPDX-License-Identifier: Apache-2.0
//
// The one thread that writes. It takes every request that waits, applies them in one transaction,
// makes that durable with one fsync, and only then tells anybody: while the disk works, the next
// batch gathers.
//
// A transaction is bounded in time. While it applies commands it looks into its inbox now and then; as soon
// as a project waits that has nothing in it, the rest of the others' commands is left to the next one, and
// the newcomer's first commands join. Rests on the engine, the store, and a ring to sleep on.

import Glibc
import Logging
import MartletBase
import MartletEngine
import MartletRing
import MartletRows
import MartletStore
import Synchronization

/// The writing side of a broker.
final class Committer: Sendable {
    /// Commands waiting past which senders are told to come back later.
    static let waitingCommandsMax = 65_536
    /// How often it looks for what is due although nothing is asked of it.
    static let idleMilliseconds = 1000
    /// How long it rests between steps of what happens by itself while nothing is asked of it: whatever
    /// comes then does not wait for a step to be on disk.
    private static let restMilliseconds = 2
    /// How long it rests where something was asked in the last second: a lone message would else wait for the
    /// fsync of such a step as often as not.
    private static let restBesideCommandsMilliseconds = 20
    private static let besideCommandsNanoseconds: UInt64 = 1_000_000_000
    /// How long a transaction applies commands while other projects come now and then. A newcomer waits for
    /// this time and for the fsync.
    private static let applyingSharedNanoseconds: UInt64 = 2_000_000
    /// The bound for a project that has the committer to itself (FAN-4): ten times the duration of an fsync,
    /// so fsyncs take a tenth of the committer's time.
    private static let applyingAloneNanoseconds: UInt64 = 10_000_000
    /// How often the inbox is looked into meanwhile: what that costs, a lock and perhaps a wake-up by the
    /// next request, is a hundredth of it.
    private static let lookNanoseconds: UInt64 = 100_000

    let inbox = Inbox<Request>(capacity: Committer.waitingCommandsMax)
    let store: Store
    let programs = SharedPrograms()
    /// FAN-1.
    let book: FanoutBook
    /// TTL-2: numbers, conditions and counts that live senders share with the committer.
    let liveSending: LiveSending
    private let notStoredNumbers = NotStoredNumbers()
    /// Of callers that embed the broker.
    let liveSender: Mutex<LiveSender>
    /// UPS-1.
    let upstream = UpstreamBook()
    private let logger: Logger
    private let clock: @Sendable () -> Instant
    private let limits: MailboxLimits
    private let quotas: ProjectQuotas
    private let trouble = Mutex(StoreTrouble())
    private let loops = Mutex<[LoopHandle]>([])
    private let isStopping = Atomic(false)
    private let place = Mutex<(address: RingAddress, waker: RingWaker)?>(nil)
    private let thread = Mutex<SystemThread?>(nil)

    init(
        store: Store, limits: MailboxLimits, quotas: ProjectQuotas,
        clock: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.store = store
        self.limits = limits
        book = FanoutBook(limits: limits)
        liveSending = LiveSending(
            programs: programs, limits: limits, book: book, numbers: notStoredNumbers)
        liveSender = Mutex(LiveSender(liveSending))
        self.quotas = quotas
        self.clock = clock
        self.logger = logger
    }

    /// - Throws: `RingError` if the kernel gives no ring, `MartletError` if it gives no thread.
    func start() throws {
        let startup = Startup<Void>()
        let running = try SystemThread(name: "martlet-commit") { [self] in
            var configuration = UringConfiguration()
            configuration.connectionsMax = 1
            configuration.submissionEntries = 256
            configuration.completionEntries = 4096
            configuration.receiveBufferCount = 1
            ThreadScheduling.runLater()
            do {
                var transport = try UringTransport(configuration: configuration)
                place.withLock { $0 = (transport.address, transport.waker) }
                startup.tell(.success(()))
                run(&transport)
            } catch {
                startup.tell(.failure(error))
            }
        }
        do {
            try startup.wait()
            thread.withLock { $0 = running }
        } catch {
            running.join()
            throw error
        }
    }

    /// Messages that senders were told are accepted.
    let acceptedCount = Atomic<UInt64>(0)

    /// Applies what waits, then ends. No request is taken any more.
    func stop() {
        inbox.close()
        isStopping.store(true, ordering: .releasing)
        wake()
        thread.withLock { $0.take() }?.join()
    }

    func add(_ loop: LoopHandle) { loops.withLock { $0.append(loop) } }
    var allLoops: [LoopHandle] { loops.withLock { $0 } }

    /// Where loops send their wakes.
    var address: RingAddress? { place.withLock { $0?.address } }

    /// Wakes the committer from a thread without a ring.
    func wake() { place.withLock { $0?.waker }?.wake() }

    /// For whoever commits: one at a time.
    func makeEngine() -> Engine {
        Engine(
            programs: programs, limits: limits, book: book, quotas: quotas, upstreamBook: upstream,
            notStoredNumbers: notStoredNumbers)
    }

    // MARK: The committer's thread

    private func run(_ transport: inout UringTransport) {
        var engine = makeEngine()
        var hasMore = false
        var lastAsked: UInt64 = 0
        var waiting = WaitingCommands()
        var gathering = Gathering()
        while true {
            let isLast = isStopping.load(ordering: .acquiring)
            // What has come during a transaction is in the next one, whatever waits already. Wake-ups that
            // told of it would fill the ring while the committer does not sleep.
            while transport.nextEvent() != nil {}
            take(inbox.drain(), into: &waiting, &gathering, &transport)
            if waiting.isEmpty {
                if isLast {
                    if !liveSending.counts.isEmpty { finish(withCounts(), &engine, &transport) }
                    return
                }
                if !engine.canBeginDeferred {
                    let isBusy = hasMore || upstream.isDue
                    let since = SystemClock.monotonicNanoseconds() - lastAsked
                    let rest =
                        since < Self.besideCommandsNanoseconds && !upstream.isDue
                        ? Self.restBesideCommandsMilliseconds : Self.restMilliseconds
                    wait(isBusy ? rest : Self.idleMilliseconds, &transport)
                    take(inbox.drain(), into: &waiting, &gathering, &transport)
                }
            }
            if !waiting.isEmpty {
                gather(&waiting, &gathering, &transport)
                lastAsked = SystemClock.monotonicNanoseconds()
            }
            let began = SystemClock.monotonicNanoseconds()
            var batch = waiting.next() + withCounts()
            let done = commit(&batch, from: &waiting, &engine)
            waiting.putBack(batch, done.outcomes)
            publish(batch, done, &transport)
            hasMore = done.hasMore
            let now = SystemClock.monotonicNanoseconds()
            gathering.published(batch.count(where: \.isOfConnection), at: now, after: now - began)
        }
    }

    /// Waits for those who were just answered.
    private func gather(
        _ waiting: inout WaitingCommands, _ gathering: inout Gathering,
        _ transport: inout UringTransport
    ) {
        while true {
            let left = gathering.wait(at: SystemClock.monotonicNanoseconds())
            guard left > 0 else { return }
            wait(microseconds: Int(left / 1000) + 1, &transport)
            take(inbox.drain(), into: &waiting, &gathering, &transport)
        }
    }

    private func take(
        _ requests: [Request], into waiting: inout WaitingCommands, _ gathering: inout Gathering,
        _ transport: inout UringTransport
    ) {
        gathering.arrived(requests.count(where: \.isOfConnection))
        take(requests, into: &waiting, &transport)
    }

    /// TTL-2: what was counted of messages that are not stored is written with whatever is written next.
    func withCounts() -> [Request] {
        let counts = liveSending.counts.take()
        return counts.isEmpty ? [] : [Request(command: .count(counts), reply: .counting)]
    }

    private func finish(
        _ batch: [Request], _ engine: inout Engine, _ transport: inout UringTransport
    ) {
        var batch = batch
        let done = commit(&batch, &engine)
        publish(batch, done, &transport)
    }

    /// - Parameter batch: what newcomers give to the transaction is appended.
    private func commit(
        _ batch: inout [Request], from waiting: inout WaitingCommands, _ engine: inout Engine
    ) -> Committed {
        let isAlone = waiting.isAlone
        engine.acknowledgingBounds = isAlone ? .alone : .shared
        let began = SystemClock.monotonicNanoseconds()
        let end =
            began + (isAlone ? Self.applyingAloneNanoseconds : Self.applyingSharedNanoseconds)
        var nextLook = began + Self.lookNanoseconds
        return commit(&batch, &engine) {
            let now = SystemClock.monotonicNanoseconds()
            guard now >= nextLook else { return true }
            nextLook = now + Self.lookNanoseconds
            waiting.add(inbox.drain())
            return now < end && !waiting.mustEnd
        } joining: { canAsk in
            waiting.add(inbox.drain())
            return waiting.joining(canAsk: canAsk)
        }
    }

    private func wait(_ timeoutMilliseconds: Int, _ transport: inout UringTransport) {
        wait(microseconds: timeoutMilliseconds * 1000, &transport)
    }

    private func wait(microseconds: Int, _ transport: inout UringTransport) {
        do {
            try transport.submitAndWait(timeoutMicroseconds: microseconds)
        } catch {
            logger.error("the committer's ring failed", metadata: ["error": "\(error)"])
            usleep(100_000)
        }
        while transport.nextEvent() != nil {}
    }

    /// What a project asks for beyond its part is refused at once.
    func take(
        _ requests: [Request], into waiting: inout WaitingCommands,
        _ transport: inout some Transport & ~Copyable
    ) {
        waiting.add(requests)
        let refused = waiting.takeRefused()
        guard !refused.isEmpty else { return }
        let refusal = MartletError(
            .unavailable,
            "More is asked for in this project than the broker can write; try again.",
            retryDelayMilliseconds: 200)
        publish(
            refused,
            Committed(outcomes: Array(repeating: .refused(refusal), count: refused.count)),
            &transport)
    }

    /// What came of a transaction.
    struct Committed {
        /// Of each command, in order.
        var outcomes: [Outcome] = []
        /// What happened by itself.
        var own: [Outcome] = []
        /// There is more to do by itself.
        var hasMore = false
    }

    /// What came of each command of the batch, and of what was due; all of it is durable on return.
    /// - Parameters:
    ///   - goesOn: asked as the engine asks.
    ///   - joining: asked once what else goes into the transaction, which is appended to the batch, and
    ///     told whether that may depend on who has taken which message.
    func commit(
        _ batch: inout [Request], _ engine: inout Engine, goesOn: () -> Bool = { true },
        joining: (_ canAsk: Bool) -> [Request] = { _ in [] }
    ) -> Committed {
        let now = clock()
        let ownCount = batch.count
        noteRoom(&engine)
        do throws(StorageError) {
            var isAgain = false
            let done = try store.write { (transaction) throws(StorageError) in
                // The map was full: what was read in the first attempt is not true any more.
                if isAgain { engine.abandon() }
                isAgain = true
                var done = Committed()
                let advance = try engine.advance(
                    now: now, commandCount: batch.count, in: transaction)
                done.own = advance.outcomes
                done.hasMore = advance.hasMore
                done.outcomes = try engine.apply(
                    batch.prefix(ownCount).map(\.command), now: now, in: transaction,
                    goesOn: goesOn)
                if batch.count == ownCount {
                    batch += joining(!done.outcomes.contains { $0.isUnfinishedAcknowledging })
                }
                if batch.count > ownCount {
                    done.outcomes += try engine.apply(
                        batch.dropFirst(ownCount).map(\.command), now: now, in: transaction)
                }
                return done
            }
            engine.committed()
            return done
        } catch {
            engine.abandon()
            guard !batch.isEmpty else {
                note("what is due could not be done", error)
                return Committed()
            }
            // One command that the store cannot take must not take the others with it.
            if batch.count > 1 {
                var all = Committed()
                for request in batch {
                    var single = [request]
                    var one = commit(&single, &engine)
                    all.own += one.own
                    while case .unfinished(let rest) = one.outcomes[0] {
                        single = [Request(command: rest, reply: request.reply)]
                        one = commit(&single, &engine)
                        all.own += one.own
                    }
                    all.outcomes += one.outcomes
                    all.hasMore = one.hasMore
                }
                return all
            }
            note("a command could not be stored", error)
            let refusal = MartletError(
                .unavailable, "The store cannot take this now (\(error)).",
                retryDelayMilliseconds: 1000)
            return Committed(outcomes: [.refused(refusal)])
        }
    }

    /// OPS-12: an engine that may keep nothing new refuses what would.
    private func noteRoom(_ engine: inout Engine) {
        let isShort = store.isShortOfRoom
        guard isShort != engine.isShortOfRoom else { return }
        engine.isShortOfRoom = isShort
        if isShort {
            logger.error(
                "the disk is full but for what is kept for deletions: nothing new is taken")
        } else {
            logger.notice("the disk has room again")
        }
    }

    /// OPS-12: why the store does not take what it should; nil: it does.
    var storeTrouble: String? {
        trouble.withLock { $0.lasting(at: SystemClock.monotonicMilliseconds()) }
    }

    private func note(_ what: Logger.Message, _ error: StorageError) {
        let now = SystemClock.monotonicMilliseconds()
        guard let count = trouble.withLock({ $0.note("\(error)", at: now) }) else { return }
        logger.error(what, metadata: ["error": "\(error)", "count": "\(count)"])
    }

    private static func acknowledged(
        _ batch: UInt64, _ command: Command, _ outcome: Outcome
    ) -> LoopMessage {
        guard case .refused = outcome, case .acknowledge(let lost, _) = command else {
            return .acknowledged(batch: batch, areStored: true, departures: [])
        }
        return .acknowledged(
            batch: batch, areStored: false, departures: lost.filter { $0.departure != nil })
    }

    /// Tells whoever asked, and the loops, what came of a batch.
    func publish(
        _ batch: [Request], _ done: Committed, _ transport: inout some Transport & ~Copyable
    ) {
        let loops = loops.withLock { $0 }
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        func tellAll(_ message: LoopMessage) {
            for index in messages.indices { messages[index].append(message) }
        }
        let now = clock()
        func begin(_ fanouts: [Fanout]) {
            fanouts.first?.progress?.begin(loops: loops.count, at: now)
            for fanout in fanouts { tellAll(.fanout(fanout)) }
        }
        var receipts: Set<ProjectNumber> = []
        for outcome in done.own {
            if case .accepted(_, let fanouts) = outcome { begin(fanouts) }
        }
        for (request, outcome) in zip(batch, done.outcomes) {
            // Whoever asked is told when the rest is done too.
            if case .unfinished = outcome { continue }
            if let keyID = request.command.revokedKeyID, !outcome.isRefused {
                tellAll(.revoked(keyID: keyID))
            }
            switch outcome {
            case .accepted(_, let fanouts):
                begin(fanouts)
                acceptedCount.add(1, ordering: .relaxed)
            case .project(let project):
                book.setWeight(project.weight, of: project.number)
                tellAll(.weight(project.number, project.weight))
            case .unregistered(let project, let ordinal, let holder):
                tellAll(.disconnect(project, ordinal, holder))
            case .cancelled(let project, _, let sequence?): tellAll(.cancel(project, sequence))
            case .receiptKept(let project?): receipts.insert(project)
            case .upstreamAccepted(let acceptance, let fanouts):
                upstream.accepted(acceptance)
                begin(fanouts)
            case .upstreamTaken(let project, let numbers): upstream.taken(numbers, in: project)
            default: break
            }
            switch request.reply {
            case .connection(let loop, let connection, let context):
                messages[loop].append(.outcome(connection, context, outcome))
            case .caller(let tell): tell(outcome)
            case .counting:
                if case .refused = outcome, case .count(let days) = request.command {
                    liveSending.counts.giveBack(days)
                }
            case .undoing(let loop, let newcomer):
                if case .refused(let error) = outcome, error.word == .unavailable {
                    messages[loop].append(.notUndone(newcomer))
                }
            case .acknowledging(let loop, let batch):
                messages[loop].append(Self.acknowledged(batch, request.command, outcome))
            case .connected(let loop, let connection, let number):
                if case .refused = outcome {
                    messages[loop].append(.notStored(connection))
                } else {
                    messages[loop].append(.stored(connection, connectionNumber: number))
                }
            }
        }
        for project in receipts { tellAll(.receipts(project)) }
        for handing in handOutUpstream(now) {
            switch handing.destination {
            case .loop(let loop):
                messages[loop].append(.upstream(handing.listener, handing.messages))
            case .caller(let tell): tell(handing.messages)
            }
        }
        var hasWakes = false
        for (loop, batch) in zip(loops, messages) where !batch.isEmpty {
            if case .taken(mustWake: true) = loop.inbox.push(batch) {
                transport.wake(loop.address, value: 1)
                hasWakes = true
            }
        }
        guard hasWakes else { return }
        do { try transport.submitAndWait(timeoutMicroseconds: 0) } catch {
            for loop in loops { loop.waker.wake() }
        }
    }

    /// UPS-1: messages of devices to those senders that have room for them.
    private func handOutUpstream(_ now: Instant) -> [UpstreamBook.Handing] {
        upstream.handOut(now: now) { wanted in
            do {
                return try store.read { (transaction) throws in
                    try UpstreamMessage.find(wanted, now: now, transaction)
                }
            } catch {
                logger.error(
                    "messages of devices could not be read", metadata: ["error": "\(error)"])
                return nil
            }
        }
    }
}

extension Request {
    /// Whether somebody on a connection waits for the answer.
    fileprivate var isOfConnection: Bool {
        if case .connection = reply { true } else { false }
    }
}

extension Command {
    /// REG-9: the credential that it ends.
    fileprivate var revokedKeyID: String? {
        switch self {
        case .revokeKey(_, let keyID), .revokeServiceAccount(_, let keyID): keyID
        default: nil
        }
    }
}

extension Outcome {
    fileprivate var isRefused: Bool { if case .refused = self { true } else { false } }

    /// Whether somebody's acknowledgements are not all applied.
    fileprivate var isUnfinishedAcknowledging: Bool {
        if case .unfinished(.acknowledge) = self { true } else { false }
    }
}
