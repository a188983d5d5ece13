// SPDX-License-Identifier: Apache-2.0
//
// The loops of a broker: each on a thread and a transport of its own, all with the same listeners. The loops listen only
// when `serve` is called, and accept connections when all listen. The ports are kept for them from the start on, so a start
// that fails has welcomed nobody. Rests on Loop.

import Glibc
import MartletCommitter
import MartletCrypto
import MartletDelivery
import MartletEngine
import MartletRing
import MartletThreads
import MartletTransport
import Synchronization

/// The parts of a broker for all loops.
struct LoopParts: Sendable {
    let configuration: BrokerConfiguration
    let gauges: Gauges
    let inquiry: Inquiry
    let peers: Peers
    let quotas: ProjectQuotas
    let senderCredentials: SenderCredentials
    let administratorKey: String
    /// Stands for the device key of instances with an address at a push service; see `Broker.bridgeCredential` (GW-11).
    let bridgeCredential: String
    /// nil: the listeners speak plain text.
    let tls: TLSServer?
}

/// The loops of a broker that have started.
struct RunningLoops: Sendable {
    private struct Running: Sendable {
        let handle: LoopHandle
        let thread: SystemThread
        /// Whether the loop shall listen; false: its thread ends.
        let opening: Startup<Bool>
        /// Told when the loop listens.
        let listening: Startup<Void>
        /// Whether the loop shall accept connections; false: its thread ends.
        let running: Startup<Bool>
    }

    /// Sockets that keep the ports until the loops listen.
    private final class Reservation: Sendable {
        private let descriptors = Mutex<[Int32]>([])

        func add(_ socket: consuming ListeningSocket) {
            let descriptor = socket.take()
            descriptors.withLock { $0.append(descriptor) }
        }

        func end() {
            descriptors.withLock {
                for descriptor in $0 { close(descriptor) }
                $0 = []
            }
        }
    }

    private let parts: LoopParts
    private let reservation = Reservation()
    private var running: [Running] = []

    init(_ parts: LoopParts) { self.parts = parts }

    var count: Int { running.count }
    var handles: [LoopHandle] { running.map(\.handle) }

    /// Starts the loops, which wait for `serve`. Called with each kind of transport by name, so the compiler specialises
    /// a loop for each.
    /// - Returns: the ports of the listeners. After an error the loops that have started are still to be stopped.
    mutating func start<Kernel: SocketTransport & ~Copyable>(
        on kernel: Kernel.Type
    ) throws -> [UInt16] {
        let (configuration, gauges, tls) = (parts.configuration, parts.gauges, parts.tls)
        let (store, committer, clock) = (gauges.store, gauges.committer, gauges.clock)
        guard !configuration.listeners.isEmpty, let committerAddress = committer.address else {
            return []
        }
        // Each name is looked up once, so that all loops listen at the same place.
        var addresses = try configuration.listeners.map { (listener) throws(MartletError) in
            try listener.address.inNumbers()
        }
        let count =
            configuration.loopCount > 0
            ? configuration.loopCount : Processors.count()
        let numbers = ConnectionNumbers(
            committer.node.map { ConnectionNumbers.Node($0, clock: clock) })
        let refusalLog = RefusalLog(configuration.logger)
        let ceiling =
            configuration.deliveriesPerSecond > 0
            ? DeliveryCeiling(
                perSecond: configuration.deliveriesPerSecond, nodes: committer.node?.nodes) : nil
        let digest = Credentials.digest(parts.administratorKey)
        let bridgeDigest = Credentials.digest(parts.bridgeCredential)
        for index in addresses.indices {
            let address = addresses[index]
            try ListeningSocket.requireFree(address: address.host, port: address.port)
            let socket = try ListeningSocket(reserving: address.host, port: address.port)
            // For port 0 the system chooses a port, which the loops share.
            addresses[index].port = socket.port
            reservation.add(socket)
        }
        let connectionsMax = Kernel.connectionsMax(
            wanted: configuration.connectionsPerLoopMax, transportCount: count)
        gauges.strangers.bound(connectionsMax: connectionsMax * count)
        for number in 0..<count {
            let context = LoopContext(
                number: number, loopCount: count, store: store, requests: parts.inquiry,
                committer: committer,
                committerAddress: committerAddress, clock: clock,
                monotonic: { SystemClock.monotonicMilliseconds() }, configuration: configuration,
                administratorKey: digest, bridgeCredential: bridgeDigest,
                senderCredentials: parts.senderCredentials, tls: tls,
                connectionNumbers: numbers, ceiling: ceiling,
                quotas: parts.quotas,
                requestMemory: gauges.requestMemory, strangers: gauges.strangers,
                refusalLog: refusalLog,
                inbox: Inbox(capacity: .max), metrics: LoopMetrics(),
                heartbeat: committer.pulse.heartbeat(of: "loop \(number)"), peers: parts.peers,
                logger: configuration.logger)
            gauges.add(context.metrics)
            let startup = Startup<LoopHandle>()
            let (opening, listening, going) = (Startup<Bool>(), Startup<Void>(), Startup<Bool>())
            let places = addresses
            let thread = try SystemThread(name: "martlet-loop-\(number)") {
                ThreadScheduling.runSoon()
                do {
                    let kernel = try Kernel(connectionsMax: connectionsMax)
                    let waker = kernel.waker
                    var transport = SecureTransport(
                        kernel, tls,
                        securities: configuration.listeners.map { configuration.security(of: $0) },
                        connectionsMax: connectionsMax, counters: context.metrics.secure,
                        monotonic: context.monotonic)
                    let handle = LoopHandle(
                        inbox: context.inbox, address: transport.address, waker: waker)
                    // The loop is added before its first connection: the committer and the inquiry answer the
                    // loop's requests through the handle, and the loop must hear of each message accepted from
                    // then on.
                    context.committer.add(handle)
                    context.peers.add(handle)
                    startup.tell(.success(handle))
                    guard try opening.wait() else {
                        return listening.tell(
                            .failure(MartletError(.unavailable, "The broker is closed.")))
                    }
                    do {
                        for place in places {
                            _ = try transport.listen(address: place.host, port: place.port)
                        }
                    } catch { return listening.tell(.failure(error)) }
                    var loop = Loop(
                        context: context, transport: transport, connectionsMax: connectionsMax)
                    listening.tell(.success(()))
                    guard try going.wait() else { return }
                    loop.run()
                } catch {
                    startup.tell(.failure(error))
                }
            }
            do {
                running.append(
                    Running(
                        handle: try startup.wait(), thread: thread, opening: opening,
                        listening: listening, running: going))
            } catch {
                thread.join()
                throw error
            }
        }
        return addresses.map(\.port)
    }

    /// Has the loops listen, and run when all listen. After an error the loops are still to be stopped.
    func serve() throws {
        for loop in running {
            loop.opening.tell(.success(true))
            try loop.listening.wait()
        }
        for loop in running { loop.running.tell(.success(true)) }
        reservation.end()
    }

    /// NET-5: has the loops tell their peers to go and finish accepted requests, and waits for their threads.
    func stop() {
        for loop in running {
            _ = loop.handle.inbox.push([.shutDown])
            loop.handle.waker.wake()
            // A loop that runs has its answers, and ends by its message.
            loop.opening.tell(.success(false))
            loop.running.tell(.success(false))
        }
        for loop in running { loop.thread.join() }
        reservation.end()
    }
}
