// SPDX-License-Identifier: Apache-2.0
//
// The one thread that writes. It takes every request that waits, applies them in one transaction,
// makes that durable with one fsync, and only then tells anybody: while the disk works, the next
// batch gathers. Rests on the engine, the store, and a ring to sleep on.

import Glibc
import Logging
import MartletBase
import MartletEngine
import MartletRing
import MartletStore
import Synchronization

/// The writing side of a broker.
final class Committer: Sendable {
    /// Commands waiting past which senders are told to come back later.
    static let waitingCommandsMax = 65_536
    /// Commands in one transaction: bounds how long the first of them waits for the last.
    static let commandsPerTransactionMax = 4096

    let inbox = Inbox<Request>(capacity: Committer.waitingCommandsMax)
    let store: Store
    let programs = SharedPrograms()
    private let logger: Logger
    private let clock: @Sendable () -> Instant
    private let loops = Mutex<[LoopHandle]>([])
    private let isStopping = Atomic(false)
    private let place = Mutex<(address: RingAddress, waker: RingWaker)?>(nil)
    private let thread = Mutex<SystemThread?>(nil)

    init(store: Store, clock: @escaping @Sendable () -> Instant, logger: Logger) {
        self.store = store
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

    /// Applies what waits, then ends. No request is taken any more.
    func stop() {
        inbox.close()
        isStopping.store(true, ordering: .releasing)
        wake()
        thread.withLock { $0.take() }?.join()
    }

    func add(_ loop: LoopHandle) { loops.withLock { $0.append(loop) } }

    /// Where loops send their wakes.
    var address: RingAddress? { place.withLock { $0?.address } }

    /// Wakes the committer from a thread without a ring.
    func wake() { place.withLock { $0?.waker }?.wake() }

    // MARK: The committer's thread

    private func run(_ transport: inout UringTransport) {
        var engine = Engine(programs: programs)
        while true {
            let isLast = isStopping.load(ordering: .acquiring)
            let waiting = inbox.drain()
            if waiting.isEmpty {
                if isLast { return }
                do {
                    try transport.submitAndWait(timeoutMilliseconds: nil)
                } catch {
                    logger.error("the committer's ring failed", metadata: ["error": "\(error)"])
                    usleep(100_000)
                }
                while transport.nextEvent() != nil {}
                continue
            }
            var rest = waiting[...]
            while !rest.isEmpty {
                let batch = Array(rest.prefix(Self.commandsPerTransactionMax))
                rest = rest.dropFirst(batch.count)
                publish(batch, commit(batch, &engine), &transport)
            }
        }
    }

    /// What came of each command of the batch; all of it is durable on return.
    private func commit(_ batch: [Request], _ engine: inout Engine) -> [Outcome] {
        let now = clock()
        do throws(StorageError) {
            var isAgain = false
            return try store.write { (transaction) throws(StorageError) in
                // The map was full: what was read in the first attempt is not true any more.
                if isAgain { engine.abandon() }
                isAgain = true
                var outcomes: [Outcome] = []
                outcomes.reserveCapacity(batch.count)
                for request in batch {
                    outcomes.append(try engine.apply(request.command, now: now, in: transaction))
                }
                return outcomes
            }
        } catch {
            engine.abandon()
            // One command that the store cannot take must not take the others with it.
            if batch.count > 1 { return batch.flatMap { commit([$0], &engine) } }
            logger.error("a command could not be stored", metadata: ["error": "\(error)"])
            return [
                .refused(
                    MartletError(
                        .unavailable, "The store cannot take this now (\(error)).",
                        retryDelayMilliseconds: 1000))
            ]
        }
    }

    private func publish(
        _ batch: [Request], _ outcomes: [Outcome], _ transport: inout UringTransport
    ) {
        let loops = loops.withLock { $0 }
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        for (request, outcome) in zip(batch, outcomes) {
            switch outcome {
            case .accepted(_, let fanout?):
                for index in messages.indices { messages[index].append(.fanout(fanout)) }
            case .unregistered(let project, let ordinal):
                var holder: Holder?
                if case .unregister(_, _, let named) = request.command { holder = named }
                for index in messages.indices {
                    messages[index].append(.disconnect(project, ordinal, holder))
                }
            default: break
            }
            switch request.reply {
            case .connection(let loop, let connection, let context):
                messages[loop].append(.outcome(connection, context, outcome))
            case .caller(let tell): tell(outcome)
            case .acknowledging(let loop): messages[loop].append(.acknowledged)
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
        do { try transport.submitAndWait(timeoutMilliseconds: 0) } catch {
            for loop in loops { loop.waker.wake() }
        }
    }
}
