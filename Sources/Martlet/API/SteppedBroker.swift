// SPDX-License-Identifier: Apache-2.0
//
// A broker without threads for a simulator. The loops, the committer and the inquiry of production run on the
// owner's thread, with the owner's clocks and connections, and take each step on the owner's call. A step
// cannot differ from production: a turn, a batch and an answer are the functions that the threads call. Rests
// on Loop, Committer and Inquiry.

package import MartletBase
import MartletCommitter
import MartletDelivery
package import MartletEngine
import MartletNode
package import MartletStore
import MartletThreads
package import MartletTransport
import Synchronization

/// A broker that takes its steps on its owner's call.
package final class SteppedBroker<Kernel: Transport & ~Copyable> {
    /// Changes to fanouts and commands, with which the owner tests its own checks.
    package struct Tampering {
        package var fanout: ((Fanout) -> Fanout?)?
        package var command: ((Command) -> Command)?
        package init() {}
    }

    private let loops: UnsafeMutablePointer<Loop<Kernel>>
    private let contexts: [LoopContext]
    let committer: Committer
    let inquiry: Inquiry
    /// OPS-7: the broker's place in a cluster; nil: the broker is alone.
    let node: NodePlace?
    private var engine: Engine
    private var committerTransport: Kernel
    private var waiting = WaitingCommands()
    package var tampering = Tampering()
    /// Bounds of acknowledgements in place of production's bounds; nil: production's bounds.
    package var acknowledgingBounds: AcknowledgingBounds?
    /// Whether transactions end early, so that commands of a turn are committed apart.
    package var isCutShort = true
    /// How often the engine asked whether a transaction goes on. With `isCutShort`, every third answer is no.
    private var questionCount = 0

    /// - Parameters:
    ///   - monotonic: monotonic clock, in milliseconds.
    ///   - transport: makes the transport of a loop, by the loop's number. The last number is for the
    ///     committer, which uses its transport to wake loops.
    ///   - node: OPS-7: the broker's place in a cluster. The owner's threads then call `runCommitter`, `runKeeper` and
    ///     `runLink`, and `commit` is not called.
    package init(
        store: Store, configuration: BrokerConfiguration, administratorKey: String,
        clock: @escaping @Sendable () -> Instant, monotonic: @escaping @Sendable () -> Int64,
        loopCount: Int, connectionsMax: Int, node: SteppedNode? = nil, transport: (Int) -> Kernel
    ) {
        let quotas = ProjectQuotas(configuration.limits)
        let digest = Credentials.digest(administratorKey)
        let place = node.map {
            NodePlace(
                $0.configuration, applied: $0.applied, store: store, secret: Array(digest.bytes),
                logger: configuration.logger, network: $0.network, owner: $0.owner)
        }
        self.node = place
        committer = Committer(
            store: store, limits: configuration.limits, quotas: quotas, clock: clock,
            logger: configuration.logger,
            metrics: BrokerMetrics(other: nil, folder: configuration.folder), node: place,
            wakeOwner: node?.owner.wake)
        place?.begin(committer)
        let gauges = Gauges(
            store: store, committer: committer, limits: configuration.limits,
            strangers: StrangerBook(configuration.limits, monotonic: monotonic), clock: clock)
        let peers = Peers()
        inquiry = Inquiry(
            Answerer(
                store: store, programs: committer.programs, gauges: gauges,
                quotas: quotas, folder: configuration.folder), peers: peers,
            logger: configuration.logger, committer: committer)
        engine = committer.makeEngine()
        let ceiling =
            configuration.deliveriesPerSecond > 0
            ? DeliveryCeiling(perSecond: configuration.deliveriesPerSecond) : nil
        committerTransport = transport(loopCount)
        let numbers = ConnectionNumbers(
            place.map { ConnectionNumbers.Node($0, clock: clock) })
        let refusalLog = RefusalLog(configuration.logger)
        var contexts: [LoopContext] = []
        loops = .allocate(capacity: loopCount)
        for number in 0..<loopCount {
            let kernel = transport(number)
            let context = LoopContext(
                number: number, loopCount: loopCount, store: store, requests: inquiry,
                committer: committer,
                committerAddress: committerTransport.address, clock: clock, monotonic: monotonic,
                configuration: configuration, administratorKey: digest,
                // A stepped broker has no door to push services, and nobody knows the text of this digest.
                bridgeCredential: Credentials.digest(Credentials.deviceKey()),
                // A broker without a folder is presented no access tokens, so the secret does not matter.
                senderCredentials: SenderCredentials(store: store, secret: Array(digest.bytes)),
                tls: nil, connectionNumbers: numbers, ceiling: ceiling, quotas: quotas,
                requestMemory: gauges.requestMemory, strangers: gauges.strangers,
                refusalLog: refusalLog,
                inbox: Inbox(capacity: .max), metrics: LoopMetrics(),
                heartbeat: committer.pulse.heartbeat(of: "loop \(number)"), peers: peers,
                logger: configuration.logger)
            gauges.add(context.metrics)
            let handle = LoopHandle(
                inbox: context.inbox, address: kernel.address, waker: TransportWaker())
            committer.add(handle)
            peers.add(handle)
            contexts.append(context)
            (loops + number).initialize(
                to: Loop(context: context, transport: kernel, connectionsMax: connectionsMax))
        }
        self.contexts = contexts
    }

    deinit {
        // In optimised code `deinitialize(count:)` leaves out the deinit of a generic element that cannot be
        // copied.
        for number in contexts.indices { _ = (loops + number).move() }
        loops.deallocate()
    }

    // MARK: Steps

    /// Runs a turn of a loop, and hands its operations to the kernel.
    /// - Returns: milliseconds for which the loop may rest without an event; nil if the loop has drained.
    package func turn(_ number: Int) -> Int? {
        let hasEnded = loops[number].turn()
        if let broken = loops[number].delivery.brokenInvariant() {
            fatalError("loop \(number): \(broken)")
        }
        if hasEnded { return nil }
        loops[number].submitAndWait(0)
        return loops[number].waitMilliseconds()
    }

    /// NET-5: tells the loops to finish accepted requests.
    package func drain() {
        for context in contexts { _ = context.inbox.push([.shutDown]) }
    }

    /// Commits a transaction with waiting commands and a step of due work.
    /// - Parameter observe: called before all receivers, with the outcomes of due work, and the outcomes of the
    ///   commands in their order.
    /// - Returns: whether there is more to commit at once.
    package func commit(
        _ observe: (_ own: [Outcome], _ commands: [(command: Command, outcome: Outcome)]) -> Void
    ) -> Bool {
        committer.take(committer.inbox.drain(), into: &waiting, &committerTransport)
        let hasMore = commit(
            (waiting.next() + committer.withCounts()).map(tampered), isWhole: false, observe)
        return hasMore || !waiting.isEmpty || committer.upstream.isDue
    }

    /// Commits commands of the owner.
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
        invariant(batch.count == done.outcomes.count, "Each command has an outcome.")
        observe(
            done.allOwn,
            zip(batch, done.outcomes).map { (command: $0.command, outcome: $1) })
        if tampering.fanout != nil { done.outcomes = done.outcomes.map(tampered) }
        waiting.putBack(batch, done.outcomes)
        committer.publish(batch, done, &committerTransport)
        return done.hasMore
    }

    /// - Parameter observe: called by the sending loop for each now-or-never message, before the first
    ///   delivery.
    package func observeNowOrNever(_ observe: @escaping (Command, Outcome) -> Void) {
        for number in contexts.indices { loops[number].nowOrNever.observe = observe }
    }

    /// Answers the waiting questions.
    /// - Returns: whether a question waited.
    package func answerQuestions() -> Bool { inquiry.answerWaiting() > 0 }

    // MARK: Looking

    /// Number of a project's fanouts in progress on a loop.
    package func fanoutCount(of project: ProjectNumber, on loop: Int) -> Int {
        loops[loop].delivery.fanoutCount(of: project)
    }

    /// Violations of the protocol on all loops.
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
