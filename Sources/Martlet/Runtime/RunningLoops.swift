// SPDX-License-Identifier: Apache-2.0
//
// The loops of a broker: each on a thread and a transport of its own, all with the same listeners. Rests on Loop.

import Glibc
import MartletDelivery
import MartletEngine
import MartletRing
import MartletTLS
import MartletTransport

/// The parts of a broker for all loops.
struct LoopParts: Sendable {
    let configuration: BrokerConfiguration
    let gauges: Gauges
    let inquiry: Inquiry
    let peers: Peers
    let quotas: ProjectQuotas
    let senderCredentials: SenderCredentials
    let administratorKey: String
    /// GW-11: see `Broker.bridgeCredential`.
    let bridgeCredential: String
    /// nil: the listeners speak plain text.
    let tls: TLSServer?
}

/// The loops of a broker that have started.
struct RunningLoops: Sendable {
    private struct Running: Sendable {
        let handle: LoopHandle
        let thread: SystemThread
    }

    private let parts: LoopParts
    private var running: [Running] = []

    init(_ parts: LoopParts) { self.parts = parts }

    var count: Int { running.count }
    var handles: [LoopHandle] { running.map(\.handle) }

    /// Starts the loops. Called with each kind of transport by name, so the compiler specialises a loop for each.
    /// - Returns: the ports of the listeners. After an error the loops that have started are still to be stopped.
    mutating func start<Kernel: SocketTransport & ~Copyable>(
        on kernel: Kernel.Type
    ) throws -> [UInt16] {
        let (configuration, gauges, tls) = (parts.configuration, parts.gauges, parts.tls)
        let (store, committer, clock) = (gauges.store, gauges.committer, gauges.clock)
        guard !configuration.listeners.isEmpty, let committerAddress = committer.address else {
            return []
        }
        var addresses = configuration.listeners.map(\.address)
        let count =
            configuration.loopCount > 0
            ? configuration.loopCount : Processors.count()
        let numbers = ConnectionNumbers(
            committer.cluster.map { ConnectionNumbers.Node($0, clock: clock) })
        let refusalLog = RefusalLog(configuration.logger)
        let ceiling =
            configuration.deliveriesPerSecond > 0
            ? DeliveryCeiling(
                perSecond: configuration.deliveriesPerSecond, nodes: committer.cluster?.nodes) : nil
        let digest = Credentials.digest(parts.administratorKey)
        let bridgeDigest = Credentials.digest(parts.bridgeCredential)
        for address in addresses {
            try ListeningSocket.requireFree(address: address.host, port: address.port)
        }
        let connectionsMax = Kernel.connectionsMax(
            wanted: configuration.connectionsPerLoopMax, transportCount: count)
        gauges.strangers.bound(connectionsMax: connectionsMax * count)
        for number in 0..<count {
            let context = LoopContext(
                number: number, loopCount: count, store: store, inquiry: parts.inquiry,
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
            let startup = Startup<(LoopHandle, [UInt16])>()
            let listening = addresses
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
                    var ports: [UInt16] = []
                    for address in listening {
                        ports.append(
                            try transport.listen(address: address.host, port: address.port))
                    }
                    let handle = LoopHandle(
                        inbox: context.inbox, address: transport.address, waker: waker)
                    var loop = Loop(
                        context: context, transport: transport, connectionsMax: connectionsMax)
                    // The loop is added before its first connection: the committer and the inquiry answer the
                    // loop's requests through the handle, and the loop must hear of each message accepted from
                    // then on.
                    context.committer.add(handle)
                    context.peers.add(handle)
                    startup.tell(.success((handle, ports)))
                    loop.run()
                } catch {
                    startup.tell(.failure(error))
                }
            }
            do {
                let (handle, ports) = try startup.wait()
                // For port 0 the system chooses the port of the first loop, and the other loops share the port.
                for (index, port) in ports.enumerated() { addresses[index].port = port }
                running.append(Running(handle: handle, thread: thread))
            } catch {
                thread.join()
                throw error
            }
        }
        return addresses.map(\.port)
    }

    /// NET-5: has the loops tell their peers to go and finish accepted requests, and waits for their threads.
    func stop() {
        for loop in running {
            _ = loop.handle.inbox.push([.shutDown])
            loop.handle.waker.wake()
        }
        for loop in running { loop.thread.join() }
    }
}
