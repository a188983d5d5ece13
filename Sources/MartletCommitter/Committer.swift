// SPDX-License-Identifier: Apache-2.0
//
// The only thread that writes to the store. The committer applies waiting requests, as many as WaitingCommands gives, in one
// transaction, and makes the transaction durable with one synced write of the journal. Only then are the callers and loops
// told. While the disk works, the next batch gathers.
//
// A transaction is bounded in time. While the committer applies commands, it looks into its inbox every 100 µs.
// If a project without commands in the transaction waits there, the committer leaves the rest of the commands
// to the next transaction, and the newcomer's first commands join this transaction. Rests on the engine, the
// store, and a transport to sleep on.

import Glibc
package import Logging
package import MartletBase
package import MartletEngine
import MartletRing
import MartletRows
package import MartletStore
package import MartletThreads
package import MartletTransport
package import Synchronization

/// The writing side of a broker.
package final class Committer: Sendable {
    /// Waiting commands past which requests are refused with a retry delay.
    static let waitingCommandsMax = 65_536
    /// Longest sleep without requests: after that time the committer looks for due work.
    static let idleMilliseconds = 1000
    /// Rest between two steps of due work while no requests come. A request that comes during the rest does not
    /// wait for the fsync of a step.
    private static let restMilliseconds = 2
    /// Rest between two steps of due work if a request came within the last second. After a shorter rest, a
    /// lone message would wait for the fsync of a step as often as not.
    private static let restBesideCommandsMilliseconds = 20
    private static let besideCommandsNanoseconds: UInt64 = 1_000_000_000
    /// Time for which a transaction applies commands while other projects come now and then. A newcomer waits
    /// for this time and for the fsync.
    private static let applyingSharedNanoseconds: UInt64 = 2_000_000
    /// Time for which a transaction applies commands of a project that has the committer to itself (FAN-4): ten
    /// times the duration of an fsync, so fsyncs take a tenth of the committer's time.
    private static let applyingAloneNanoseconds: UInt64 = 10_000_000
    /// Time between two looks into the inbox during a transaction. A look costs a lock and perhaps a wake-up by
    /// the next request: a hundredth of this time.
    private static let lookNanoseconds: UInt64 = 100_000

    package let inbox = Inbox<Request>(capacity: Committer.waitingCommandsMax)
    package let store: Store
    package let programs = SharedPrograms()
    /// FAN-1: the fanouts in progress of all projects.
    package let book: FanoutBook
    /// TTL-2: numbers, conditions and counts shared by the senders of now-or-never messages and the committer.
    package let nowOrNeverSending: NowOrNeverSending
    private let nowOrNeverNumbers = NowOrNeverNumbers()
    /// TTL-2: the sender of callers that embed the broker.
    let nowOrNeverSender: Mutex<NowOrNeverSender>
    /// UPS-1: the listeners, and the messages of devices handed to each listener.
    package let upstream = UpstreamBook()
    /// REG-9: the parts of the process that serve senders beside the loops.
    package let revocations = Revocations()
    /// GW-11: the door to foreign push services.
    package let bridges = BridgeBook()
    /// EMB-3: the watchers of projects.
    package let watches: WatchBook
    package let metrics: BrokerMetrics
    /// OPS-12: whether the threads of the broker answer. While the committer writes, the disk has to answer.
    package let pulse: Pulse
    let disk: Heartbeat
    package let heartbeat: Heartbeat
    package let logger: Logger
    package let clock: @Sendable () -> Instant
    /// Wakes the owner of the committer's thread; nil: the committer owns it.
    private let wakeOwner: (@Sendable () -> Void)?
    /// OPS-7: nil: the broker is alone.
    package let node: (any BrokerNode)?
    /// OPS-11: the limits, which may change.
    package let limits: LimitsInForce
    private let quotas: ProjectQuotas
    private let trouble = Mutex(StoreTrouble())
    private let loops = Mutex<[LoopHandle]>([])
    package let isStopping = Atomic(false)
    private let place = Mutex<(address: TransportAddress, waker: TransportWaker)?>(nil)
    private let thread = Mutex<SystemThread?>(nil)

    package init(
        store: Store, limits: BrokerLimits, quotas: ProjectQuotas,
        clock: @escaping @Sendable () -> Instant, logger: Logger,
        metrics: BrokerMetrics, node: (any BrokerNode)? = nil,
        wakeOwner: (@Sendable () -> Void)? = nil
    ) {
        self.store = store
        pulse = Pulse()
        disk = pulse.heartbeat(of: "the disk")
        heartbeat = pulse.heartbeat(of: "the committer")
        self.wakeOwner = wakeOwner
        self.node = node
        watches = WatchBook(store.ledgers)
        let inForce = LimitsInForce(limits)
        self.limits = inForce
        self.metrics = metrics
        book = FanoutBook(limits: limits) { moment, began in
            metrics.delivered(moment, after: clock().rawValue - began.rawValue)
        }
        nowOrNeverSending = NowOrNeverSending(
            programs: programs, limits: inForce, book: book, numbers: nowOrNeverNumbers,
            bridgeFaults: bridges.faults)
        nowOrNeverSender = Mutex(NowOrNeverSender(nowOrNeverSending))
        self.quotas = quotas
        self.clock = clock
        self.logger = logger
        if node != nil { bridges.handOver(false) }
    }

    /// Starts the thread. It sleeps on io_uring.
    /// - Throws: `TransportError` if the kernel gives no transport, `MartletError` if the kernel gives no thread.
    package func startOnRing() throws { try start(on: UringTransport.self) }

    /// Like `startOnRing`, with epoll.
    package func startOnEpoll() throws { try start(on: EpollTransport.self) }

    private func start<Kernel: SocketTransport & ~Copyable>(on kernel: Kernel.Type) throws {
        let startup = Startup<Void>()
        let running = try SystemThread(name: "martlet-commit") { [self] in
            ThreadScheduling.runLater()
            do {
                var transport = try Kernel(connectionsMax: 0)
                place.withLock { $0 = (transport.address, transport.waker) }
                startup.tell(.success(()))
                if let node {
                    node.run(self, &transport)
                } else {
                    var engine = makeEngine()
                    var waiting = WaitingCommands()
                    run(&engine, &waiting, &transport)
                }
                heartbeat.end()
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

    /// Accepted messages of senders, including validated and repeated messages.
    package let acceptedCount = Atomic<UInt64>(0)

    /// Applies the waiting commands, then ends the thread. Later requests are refused.
    package func stop() {
        inbox.close()
        isStopping.store(true, ordering: .releasing)
        wake()
        thread.withLock { $0.take() }?.join()
    }

    package func add(_ loop: LoopHandle) { loops.withLock { $0.append(loop) } }
    package var allLoops: [LoopHandle] { loops.withLock { $0 } }

    /// Address for wakes by the transports of loops.
    package var address: TransportAddress? { place.withLock { $0?.address } }

    /// Wakes the committer from a thread without a transport.
    package func wake() {
        if let wakeOwner { wakeOwner() } else { place.withLock { $0?.waker }?.wake() }
    }

    /// Makes an engine for the thread that commits. A broker uses a single engine at a time.
    package func makeEngine() -> Engine {
        Engine(
            programs: programs, limits: limits.value, book: book, quotas: quotas,
            upstreamBook: upstream,
            nowOrNeverNumbers: nowOrNeverNumbers, bridgeFaults: bridges.faults)
    }

    // MARK: The committer's thread

    /// Applies commands until the broker stops.
    /// - Parameter log: has each transaction before the store. The function also returns when the committer may not write to
    ///   the log any more. Then `waiting` has the commands that were not applied.
    package func run(
        _ engine: inout Engine, _ waiting: inout WaitingCommands,
        _ transport: inout some Transport & ~Copyable, on log: (any CommitLog)? = nil
    ) {
        var hasMore = false
        var lastAsked: UInt64 = 0
        var gathering = Gathering()
        var changeCount: UInt64 = 0
        while true {
            if let log, !log.mayBegin(&transport) { return }
            if limits.changeCount != changeCount {
                changeCount = limits.changeCount
                engine.change(limits: limits.value)
            }
            heartbeat.beat()
            let isLast = isStopping.load(ordering: .acquiring)
            // The inbox is read before each transaction, so commands that came during a transaction are in the
            // next transaction. Their wake-ups are dropped, because they would fill the ring while the
            // committer does not sleep.
            while transport.nextEvent() != nil {}
            take(inbox.drain(), into: &waiting, &gathering, &transport, on: log)
            if waiting.isEmpty {
                if isLast {
                    if !nowOrNeverSending.counts.isEmpty {
                        finish(withCounts(), &engine, &transport, on: log)
                    }
                    return
                }
                if !engine.canBeginDeferred {
                    let isBusy = hasMore || upstream.isDue
                    let since = SystemClock.monotonicNanoseconds() - lastAsked
                    let rest =
                        since < Self.besideCommandsNanoseconds && !upstream.isDue
                        ? Self.restBesideCommandsMilliseconds : Self.restMilliseconds
                    if log?.hasWork != true {
                        wait(isBusy ? rest : Self.idleMilliseconds, &transport)
                    }
                    take(inbox.drain(), into: &waiting, &gathering, &transport, on: log)
                }
            }
            if !waiting.isEmpty {
                gather(&waiting, &gathering, &transport, on: log)
                lastAsked = SystemClock.monotonicNanoseconds()
            }
            let began = SystemClock.monotonicNanoseconds()
            var batch = waiting.next() + withCounts()
            var done = commit(&batch, from: &waiting, &engine, on: log)
            if done.isRefused, let error = log?.refusalOfWaiting() { done.refuse(batch, error) }
            // The commands that the log holds wait for their fate, and the commands behind wait for another turn.
            if done.isRefused, let heldCount = log?.heldCount {
                let first = done.decidedCount + heldCount
                waiting.putBack(
                    Array(batch.dropFirst(first)), Array(done.outcomes.dropFirst(first)))
            } else {
                waiting.putBack(batch, done.outcomes)
            }
            // With a transaction for each command, the log may take some commands and refuse a later command.
            if !done.isRefused || done.hasDecided {
                publish(batch, done, &transport, on: log)
            }
            log?.published(isLogged: done.isLogged)
            if done.isRefused, log?.mayGoOn() == false { return }
            hasMore = done.hasMore
            let now = SystemClock.monotonicNanoseconds()
            tick(now)
            gathering.published(batch.count(where: \.isOfConnection), at: now, after: now - began)
        }
    }

    /// Tells the log the refusals of the last minute, and watchers the sums of the last second (EMB-3).
    package func tick(_ nanoseconds: UInt64) {
        tellRefusals(nanoseconds)
        guard watches.isWatched else { return }
        watches.tick(nanoseconds: nanoseconds, at: clock(), living: node?.living ?? [])
    }

    /// Waits until the senders that were answered last have sent again, or until the time for gathering is
    /// over.
    private func gather(
        _ waiting: inout WaitingCommands, _ gathering: inout Gathering,
        _ transport: inout some Transport & ~Copyable, on log: (any CommitLog)?
    ) {
        while true {
            let left = gathering.wait(at: SystemClock.monotonicNanoseconds())
            guard left > 0 else { return }
            wait(microseconds: Int(left / 1000) + 1, &transport)
            take(inbox.drain(), into: &waiting, &gathering, &transport, on: log)
        }
    }

    private func take(
        _ requests: [Request], into waiting: inout WaitingCommands, _ gathering: inout Gathering,
        _ transport: inout some Transport & ~Copyable, on log: (any CommitLog)?
    ) {
        gathering.arrived(requests.count(where: \.isOfConnection))
        take(requests, into: &waiting, &transport, on: log)
    }

    /// TTL-2: the counts of now-or-never messages. The next transaction writes them too.
    package func withCounts() -> [Request] {
        let counts = nowOrNeverSending.counts.take()
        return counts.isEmpty ? [] : [Request(command: .count(counts), reply: .counting)]
    }

    private func finish(
        _ batch: [Request], _ engine: inout Engine, _ transport: inout some Transport & ~Copyable,
        on log: (any CommitLog)?
    ) {
        var batch = batch
        let done = commit(&batch, &engine, on: log)
        publish(batch, done, &transport, on: log)
    }

    /// Commits a batch within the time bounds of a transaction.
    /// - Parameter batch: commands of newcomers that join the transaction are appended.
    private func commit(
        _ batch: inout [Request], from waiting: inout WaitingCommands, _ engine: inout Engine,
        on log: (any CommitLog)?
    ) -> Committed {
        let isAlone = waiting.isAlone
        engine.acknowledgingBounds = isAlone ? .alone : .shared
        let began = SystemClock.monotonicNanoseconds()
        let end =
            began + (isAlone ? Self.applyingAloneNanoseconds : Self.applyingSharedNanoseconds)
        var nextLook = began + Self.lookNanoseconds
        log?.drop(&batch)
        return commit(&batch, &engine, on: log) {
            let now = SystemClock.monotonicNanoseconds()
            guard now >= nextLook else { return true }
            nextLook = now + Self.lookNanoseconds
            waiting.add(inbox.drain())
            return now < end && !waiting.mustEnd
        } joining: { canAsk in
            waiting.add(inbox.drain())
            var joining = waiting.joining(canAsk: canAsk)
            log?.drop(&joining)
            return joining
        }
    }

    package func wait(_ timeoutMilliseconds: Int, _ transport: inout some Transport & ~Copyable) {
        wait(microseconds: timeoutMilliseconds * 1000, &transport)
    }

    private func wait(microseconds: Int, _ transport: inout some Transport & ~Copyable) {
        heartbeat.rest(milliseconds: microseconds / 1000 + 1)
        defer { heartbeat.beat() }
        do {
            try transport.submitAndWait(timeoutMicroseconds: microseconds)
        } catch {
            logger.error("the committer's transport failed", metadata: ["error": "\(error)"])
            SystemClock.pause(microseconds: 100_000)
        }
        while transport.nextEvent() != nil {}
    }

    /// Adds requests to the waiting commands, and refuses at once the requests beyond a project's part.
    package func take(
        _ requests: [Request], into waiting: inout WaitingCommands,
        _ transport: inout some Transport & ~Copyable, on log: (any CommitLog)? = nil
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
            &transport, on: log)
    }

    /// The result of a transaction.
    package struct Committed {
        /// Outcomes of the commands, in the order of the batch.
        package var outcomes: [Outcome] = []
        /// Outcomes of due work, such as scheduled messages.
        package var own: [Outcome] = []
        /// Due work of later transactions, if each command had a transaction of its own. `before` is the index of the
        /// outcome that comes next: a loop hears of messages in the order of their sequences.
        var laterOwn: [(before: Int, outcomes: [Outcome])] = []
        /// Whether more due work is left.
        package var hasMore = false
        /// Whether the log has all outcomes.
        package var isLogged = false
        /// Whether the log has not taken the transaction. All its commands are unfinished then.
        package var isRefused = false

        /// Adds the due work of a transaction before its own outcomes are added.
        mutating func addOwn(_ outcomes: [Outcome]) {
            guard !outcomes.isEmpty else { return }
            laterOwn.append((self.outcomes.count, outcomes))
        }

        /// Commands before the first one that the log has not taken.
        var decidedCount: Int { outcomes.firstIndex(where: \.isUnfinished) ?? outcomes.count }

        /// Whether there is something to tell although the log has refused a transaction.
        var hasDecided: Bool { !laterOwn.isEmpty || !outcomes.allSatisfy(\.isUnfinished) }

        /// Refuses this process's unfinished commands. Forwarded commands wait, and their senders refuse late ones.
        mutating func refuse(_ batch: [Request], _ error: MartletError) {
            for (index, request) in batch.enumerated() where outcomes[index].isUnfinished {
                if !request.isForwarded { outcomes[index] = .refused(error) }
            }
        }

        /// All due work.
        package var allOwn: [Outcome] { own + laterOwn.flatMap(\.outcomes) }
    }

    /// Applies a batch and a step of due work in a transaction. All outcomes are durable on return. If the
    /// store refuses the transaction, each command gets a transaction of its own, and a command that the store
    /// refuses again gets `UNAVAILABLE`.
    /// - Parameters:
    ///   - goesOn: whether the transaction goes on; the engine asks between commands.
    ///   - joining: further commands for the transaction, requested once and appended to the batch. `canAsk` is
    ///     false if acknowledgements are left, so commands that depend on them must not join.
    package func commit(
        _ batch: inout [Request], _ engine: inout Engine, on log: (any CommitLog)? = nil,
        goesOn: () -> Bool = { true },
        joining: (_ canAsk: Bool) -> [Request] = { _ in [] }
    ) -> Committed {
        let now = log.map { max(clock(), $0.floor) } ?? clock()
        let ownCount = batch.count
        noteRoom(&engine)
        do throws(LoggedWriteError<LogRefusal>) {
            var isAgain = false
            let began = SystemClock.monotonicNanoseconds()
            heartbeat.end()
            disk.beat()
            defer {
                disk.end()
                heartbeat.beat()
            }
            var done = try write(on: log) { (transaction) throws(StorageError) in
                // The map was full. The engine drops its state of the first attempt, because the attempt was
                // undone.
                if isAgain { engine.abandon() }
                isAgain = true
                var done = Committed()
                try log?.begin(now: now, in: transaction)
                let advance = try engine.advance(
                    now: now, commandCount: batch.count, in: transaction)
                done.own = advance.outcomes
                done.hasMore = advance.hasMore
                done.outcomes = try engine.apply(
                    batch.prefix(ownCount).map(\.command),
                    of: log?.runs(of: batch.prefix(ownCount)) ?? [],
                    now: now, in: transaction, goesOn: goesOn)
                if batch.count == ownCount {
                    batch += joining(!done.outcomes.contains { $0.isUnfinishedAcknowledging })
                }
                if batch.count > ownCount {
                    done.outcomes += try engine.apply(
                        batch.dropFirst(ownCount).map(\.command),
                        of: log?.runs(of: batch.dropFirst(ownCount)) ?? [], now: now,
                        in: transaction)
                }
                return done
            } append: { (log, operations, done) throws(LogRefusal) in
                // Calls of the log have their own deadlines, and the log says how they went.
                disk.end()
                defer { disk.beat() }
                return try log.append(operations, of: batch, done, at: now)
            }
            engine.committed()
            done.isLogged = log != nil
            log?.committed()
            if watches.isWatched { watches.count(store.ledgers.takeWatchedCounts()) }
            metrics.committed(after: SystemClock.monotonicNanoseconds() - began)
            return done
        } catch {
            engine.abandon()
            let fault: StorageError
            switch error {
            case .store(let error): fault = error
            case .refused:
                var done = Committed()
                done.isRefused = true
                done.outcomes = batch.map { .unfinished($0.command) }
                return done
            case .behind(let error):
                log?.endProcess(error)
                preconditionFailure("Only a log is ahead of the store.")
            }
            guard !batch.isEmpty else {
                note("what is due could not be done", fault)
                return Committed()
            }
            // Each command gets a transaction of its own, so that a command refused by the store does not stop
            // the other commands.
            if batch.count > 1 {
                var all = Committed()
                all.isLogged = log != nil
                for request in batch {
                    guard !all.isRefused else {
                        all.outcomes.append(.unfinished(request.command))
                        continue
                    }
                    // A transaction before may have ended the run that the command comes from.
                    if let refusal = log?.refusal(of: request) {
                        all.outcomes.append(.refused(refusal))
                        continue
                    }
                    var single = [request]
                    var one = commit(&single, &engine, on: log)
                    all.addOwn(one.own)
                    while !one.isRefused, case .unfinished(let rest) = one.outcomes[0] {
                        single = [request.with(rest)]
                        one = commit(&single, &engine, on: log)
                        all.addOwn(one.own)
                    }
                    if !one.isLogged, !one.isRefused { log?.answer(request, one.outcomes[0]) }
                    all.outcomes += one.outcomes
                    all.hasMore = one.hasMore
                    all.isRefused = one.isRefused
                }
                return all
            }
            note("a command could not be stored", fault)
            let refusal = MartletError(
                .unavailable, "The store cannot take this now (\(fault)).",
                retryDelayMilliseconds: 1000)
            return Committed(outcomes: [.refused(refusal)])
        }
    }

    /// Writes a transaction: to the store only, or first to a log.
    private func write(
        on log: (any CommitLog)?,
        _ body: (borrowing Transaction) throws(StorageError) -> Committed,
        append: (any CommitLog, _ operations: [UInt8], _ done: Committed) throws(LogRefusal) ->
            LogPosition?
    ) throws(LoggedWriteError<LogRefusal>) -> Committed {
        guard let log else {
            do throws(StorageError) { return try store.write(body) } catch { throw .store(error) }
        }
        return try store.write(body) { (operations, done) throws(LogRefusal) in
            try append(log, operations, done)
        }
    }

    /// OPS-12: tells the engine whether the disk is short of room. An engine short of room refuses commands
    /// that store something new.
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

    /// OPS-12: the reason for which the store refused a command lately; nil: the store takes all commands.
    package var storeTrouble: String? {
        trouble.withLock { $0.lasting(at: SystemClock.monotonicMilliseconds()) }
    }

    private func note(_ what: Logger.Message, _ error: StorageError) {
        let now = SystemClock.monotonicMilliseconds()
        guard let count = trouble.withLock({ $0.note("\(error)", at: now) }) else { return }
        logger.error(what, metadata: ["error": "\(error)", "count": "\(count)"])
    }
}

extension Request {
    /// Whether a peer on a connection waits for the answer.
    fileprivate var isOfConnection: Bool {
        if case .connection = reply { true } else { false }
    }
}

extension Outcome {
    package var isUnfinished: Bool { if case .unfinished = self { true } else { false } }

    /// Whether some acknowledgements of the command are left.
    fileprivate var isUnfinishedAcknowledging: Bool {
        if case .unfinished(.acknowledge) = self { true } else { false }
    }
}
