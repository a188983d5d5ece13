// SPDX-License-Identifier: Apache-2.0
//
// A broker without threads: the loops, the committer and the inquiry of production on one thread, each
// step taken when its owner says so, on clocks and connections of the owner's. What a simulator needs,
// and nothing that it could do differently from production: a turn, a batch, an answer are the same
// functions that the threads call. Rests on Loop, Committer and Inquiry.

package import MartletBase
package import MartletEngine
package import MartletRing
package import MartletStore
import Synchronization

/// A broker that is turned by hand.
package final class SteppedBroker<Kernel: Transport & ~Copyable> {
    /// What the owner changes on the way, for tests of its own checks.
    package struct Tampering {
        package var fanout: ((Fanout) -> Fanout?)?
        package var command: ((Command) -> Command)?
        package init() {}
    }

    private let loops: UnsafeMutablePointer<Loop<Kernel>>
    private let contexts: [LoopContext]
    private let committer: Committer
    private let inquiry: Inquiry
    private var engine: Engine
    private var committerTransport: Kernel
    private var waiting = WaitingCommands()
    package var tampering = Tampering()
    /// Instead of production's.
    package var acknowledgingBounds: AcknowledgingBounds?
    /// Whether transactions end early, so that commands of one turn are committed apart.
    package var isCutShort = true
    /// Questions whether a transaction goes on: while it is cut short, each third is told no.
    private var questionCount = 0

    /// - Parameters:
    ///   - monotonic: milliseconds that only rise.
    ///   - transport: makes that of each loop; the last number is the committer's, which only wakes.
    package init(
        store: Store, configuration: BrokerConfiguration, administratorKey: String,
        clock: @escaping @Sendable () -> Instant, monotonic: @escaping @Sendable () -> Int64,
        loopCount: Int, connectionsMax: Int, transport: (Int) -> Kernel
    ) {
        let quotas = ProjectQuotas(configuration.limits)
        committer = Committer(
            store: store, limits: configuration.limits, quotas: quotas, clock: clock,
            logger: configuration.logger)
        let gauges = Gauges(
            store: store, committer: committer, limits: configuration.limits, clock: clock)
        let peers = Peers()
        inquiry = Inquiry(
            Answerer(
                store: store, programs: committer.programs, gauges: gauges,
                limits: configuration.limits), peers: peers, logger: configuration.logger)
        engine = committer.makeEngine()
        let ceiling =
            configuration.deliveriesPerSecond > 0
            ? DeliveryCeiling(perSecond: configuration.deliveriesPerSecond) : nil
        committerTransport = transport(loopCount)
        let numbers = ConnectionNumbers()
        let digest = Credentials.digest(administratorKey)
        var contexts: [LoopContext] = []
        loops = .allocate(capacity: loopCount)
        for number in 0..<loopCount {
            let kernel = transport(number)
            let context = LoopContext(
                number: number, store: store, inquiry: inquiry, committer: committer,
                committerAddress: committerTransport.address, clock: clock, monotonic: monotonic,
                configuration: configuration, administratorKey: digest,
                // Nobody presents an access token to a broker without a folder.
                senderCredentials: SenderCredentials(store: store, secret: Array(digest.bytes)),
                connectionNumbers: numbers, ceiling: ceiling, quotas: quotas,
                requestMemory: gauges.requestMemory,
                frameBounds: FrameBounds(configuration.limits, loopCount: loopCount),
                inbox: Inbox(capacity: .max), metrics: LoopMetrics(), peers: peers,
                logger: configuration.logger)
            gauges.add(context.metrics)
            let handle = LoopHandle(
                inbox: context.inbox, address: kernel.address, waker: RingWaker())
            committer.add(handle)
            peers.add(handle)
            contexts.append(context)
            (loops + number).initialize(
                to: Loop(context: context, transport: kernel, connectionsMax: connectionsMax))
        }
        self.contexts = contexts
    }

    deinit {
        // Optimised, `deinitialize(count:)` leaves out the deinit of a generic element that cannot
        // be copied.
        for number in contexts.indices { _ = (loops + number).move() }
        loops.deallocate()
    }

    // MARK: Steps

    /// One turn of a loop, and what it hands to the kernel.
    /// - Returns: how many milliseconds it may rest if nothing happens; nil if it has drained.
    package func turn(_ number: Int) -> Int? {
        if loops[number].turn() { return nil }
        loops[number].submitAndWait(0)
        return loops[number].waitMilliseconds()
    }

    /// NET-5: tells the loops to finish what was accepted.
    package func drain() {
        for context in contexts { _ = context.inbox.push([.drain]) }
    }

    /// Commits a transaction of what waits, and what is due.
    /// - Parameter observe: told, in the order of the commands, before anybody else: what happened by
    ///   itself, and what came of the commands.
    /// - Returns: whether there is more to do at once.
    package func commit(
        _ observe: (_ own: [Outcome], _ commands: [(command: Command, outcome: Outcome)]) -> Void
    ) -> Bool {
        committer.take(committer.inbox.drain(), into: &waiting, &committerTransport)
        let hasMore = commit(
            (waiting.next() + committer.withCounts()).map(tampered), isWhole: false, observe)
        return hasMore || !waiting.isEmpty || committer.upstream.isDue
    }

    /// Commits commands of the owner's.
    package func perform(
        _ commands: [Command],
        _ observe: (_ own: [Outcome], _ commands: [(command: Command, outcome: Outcome)]) -> Void
    ) {
        _ = commit(
            commands.map { Request(command: $0, reply: .caller { _ in }) }, isWhole: true, observe)
    }

    private func commit(
        _ requests: [Request], isWhole: Bool,
        _ observe: (_ own: [Outcome], _ commands: [(command: Command, outcome: Outcome)]) -> Void
    ) -> Bool {
        var batch = requests
        engine.acknowledgingBounds =
            acknowledgingBounds ?? (waiting.isAlone ? .alone : .shared)
        var done = committer.commit(
            &batch, &engine,
            goesOn: {
                questionCount += 1
                return isWhole || !isCutShort || questionCount % 3 != 0
            },
            joining: { waiting.joining(canAsk: $0).map(tampered) })
        observe(
            done.own,
            zip(batch, done.outcomes).map { (command: $0.command, outcome: $1) })
        if tampering.fanout != nil { done.outcomes = done.outcomes.map(tampered) }
        waiting.putBack(batch, done.outcomes)
        committer.publish(batch, done, &committerTransport)
        return done.hasMore
    }

    /// - Parameter observe: told of messages that are not stored, by the loops that send them, before anybody
    ///   gets them.
    package func observeLive(_ observe: @escaping (Command, Outcome) -> Void) {
        for number in contexts.indices { loops[number].observeLive = observe }
    }

    /// Answers the questions that wait.
    /// - Returns: whether there were any.
    package func answerQuestions() -> Bool { inquiry.answerWaiting() > 0 }

    // MARK: Looking

    /// Fanouts of a project in progress on a loop.
    package func fanoutCount(of project: ProjectNumber, on loop: Int) -> Int {
        loops[loop].delivery.fanoutCount(of: project)
    }

    /// Frames that broke the protocol, and connections that could not be accepted.
    package var protocolViolationCount: UInt64 {
        contexts.reduce(0) { $0 + $1.metrics.protocolViolations.load(ordering: .relaxed) }
    }

    // MARK: Tampering

    private func tampered(_ request: Request) -> Request {
        guard let change = tampering.command else { return request }
        var request = request
        request.command = change(request.command)
        return request
    }

    private func tampered(_ outcome: Outcome) -> Outcome {
        guard case .accepted(let acceptance, let fanouts) = outcome,
            let change = tampering.fanout
        else { return outcome }
        return .accepted(acceptance, fanouts: fanouts.compactMap(change))
    }
}
