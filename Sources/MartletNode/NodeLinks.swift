// SPDX-License-Identifier: Apache-2.0
//
// A node's links to the others of its cluster (OPS-7). Each node listens for the others, and has a link to the active one. Its
// commands go over the link; rows (RowFeed) and now-or-never messages (NowOrNeverRelay) come back. Answers to commands come
// only in rows, and every row is in the log too, so losing a link loses neither commands nor rows.
//
// The active node takes a run's commands in the order of their numbers and drops those that it has had: after losing its link
// a node forwards everything unanswered again. Rests on NodeSocket and ClusterState.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletCrypto
import MartletEngine
import MartletRows
import MartletStore
import MartletThreads
import MartletWire
import Synchronization

/// A node's links to other nodes.
final class NodeLinks: Sendable {
    private struct State {
        /// Our epoch while we are active; nil while we follow.
        var epoch: UInt32?
        /// By run: the number of the last command taken in our epoch.
        var taken: [UInt32: UInt64] = [:]
        /// Links of all peers at the node port, including strangers.
        var peers: [ObjectIdentifier: LinkOutbox] = [:]
        /// The link to the active node.
        var outgoing: LinkOutbox?
        var outgoingEpoch: UInt32 = 0
        /// Devices' messages that came over the link for our listeners, each with the row that our store needs first; nil
        /// until we know which.
        var upstream: [(row: UInt64?, handing: NodeUpstream)] = []
        /// The last row that the active node has told us of.
        var committed: UInt64 = 0
        /// Each link to an active node has a higher number.
        var sessions: UInt64 = 0
        /// Whether we have logged that there is no link.
        var hasTold = false
        /// Peers that have not proved to be nodes.
        var strangers = LinkStrangers()
        /// Links of nodes that have said HELLO.
        var members: [ObjectIdentifier: LinkOutbox] = [:]
        var isStopping = false
    }

    let node: NodeName
    var name: String { node.text }
    let address: NodeAddress
    /// Other nodes' parts in our fanouts, and ours in the active node's (FAN-1).
    let parts = FanoutParts()
    let reports = FanoutReports()
    /// The other nodes' loads (FAN-8).
    let figures = NodeFigureBook()
    /// Events of watched projects (EMB-3).
    let watches: WatchRelay
    let rows = RowFeed()
    /// Now-or-never messages (TTL-2).
    let nowOrNever = NowOrNeverRelay()
    /// When we last heard the active node over this link, in nanoseconds of the monotonic clock; `.max` if we needn't.
    private let heardAt = Atomic<UInt64>(.max)
    /// What the other nodes say while the log doesn't answer.
    let word = NodeWord()
    private let state = Mutex(State())
    let cluster: ClusterState
    let secret: [UInt8]
    let network: any NodeNetwork
    private let logger: Logger
    private let threads = Mutex<[SystemThread]>([])
    let committer = Mutex<Committer?>(nil)

    /// - Parameters:
    ///   - secret: a secret of the data folder, the same on all nodes.
    ///   - network: how to reach other nodes.
    init(
        _ configuration: ClusterConfiguration, _ cluster: ClusterState, secret: [UInt8],
        logger: Logger, network: any NodeNetwork
    ) {
        self.network = network
        node = configuration.node
        address = configuration.address
        watches = WatchRelay(configuration.node)
        self.cluster = cluster
        // Derived, so that the links' secret and that of access tokens say nothing about each other.
        self.secret = AuthenticationKey(secret).code(
            of: Array("martlet links".utf8) + cluster.applied.incarnation)
        self.logger = logger
    }

    /// Use it instead of `start` if you have your own network.
    func begin(_ committer: Committer) { self.committer.withLock { $0 = committer } }

    /// Listens for other nodes, and looks for the active node.
    /// - Throws: `UNAVAILABLE` if we can't listen at the address.
    func start(_ committer: Committer) throws(MartletError) {
        self.committer.withLock { $0 = committer }
        let listening = try Self.listen(at: address)
        let accepting = try SystemThread(name: "martlet-links") { [self] in accept(listening) }
        threads.withLock { $0.append(accepting) }
        let calling = try SystemThread(name: "martlet-link") { [self] in call() }
        threads.withLock { $0.append(calling) }
    }

    private static func listen(at address: NodeAddress) throws(MartletError) -> Int32 {
        do throws(NodeSocket.Failure) { return try NodeSocket.listen(at: address) } catch {
            let text = if case .failed(let text) = error { text } else { address.text }
            throw MartletError(
                .unavailable, "Other nodes cannot reach this node: \(text).", field: "node-address")
        }
    }

    /// Checks that we can listen at a node's address.
    /// - Throws: `UNAVAILABLE` if we can't.
    static func requireFree(_ address: NodeAddress) throws(MartletError) {
        close(try listen(at: address))
    }

    func stop() {
        end()
        for thread in threads.withLock({ threads in
            defer { threads = [] }
            return threads
        }) { thread.join() }
        committer.withLock { $0 = nil }
    }

    /// Ends all links. Their threads end soon after.
    func end() {
        let outboxes = state.withLock { state in
            state.isStopping = true
            return Array(state.peers.values) + (state.outgoing.map { [$0] } ?? [])
        }
        for outbox in outboxes { outbox.end() }
    }

    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Writing to a socket that its peer has closed raises SIGPIPE in the writing thread, which would end the process.
    private static func ignoreBrokenPipes() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    // MARK: The active node's side

    /// Begins or ends our epoch. All links of other nodes end.
    func lead(epoch: UInt32?) {
        let peers = state.withLock { state in
            state.epoch = epoch
            state.taken = [:]
            return Array(state.peers.values)
        }
        for peer in peers { peer.end() }
    }

    /// Tells the other nodes that we have a row in our store.
    func committed(_ position: LogPosition) {
        let peers = state.withLock { Array($0.members.values) }
        guard !peers.isEmpty else { return }
        let bytes = Self.committed(position)
        for peer in peers { peer.push(bytes) }
    }

    private static func committed(_ position: LogPosition) -> [UInt8] {
        NodeFrame.committed(NodeCommitted(row: position.row, chain: position.chain)).bytes
    }

    private func accept(_ listening: Int32) {
        Self.ignoreBrokenPipes()
        let socket = NodeSocket(descriptor: listening)
        while !isStopping {
            var poll = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
            guard Glibc.poll(&poll, 1, 100) > 0 else { continue }
            guard let (peer, origin) = socket.accept() else {
                // Usually we are out of descriptors, and the connection waits.
                SystemClock.pause(microseconds: 20_000)
                continue
            }
            let outbox = network.makeOutbox(limit: ClusterLimits.linkBytesMax)
            let isTaken = outbox.isWhole && take(outbox, from: origin)
            guard isTaken,
                let thread = try? SystemThread(
                    name: "martlet-peer",
                    { [self] in
                        if let reason = serve(SocketCarrier(peer), outbox) {
                            note(stranger: origin, reason)
                        }
                        forget(outbox)
                    })
            else {
                close(peer)
                if isTaken { forget(outbox) }
                continue
            }
            thread.detach()
        }
    }

    /// Takes a peer's link, which its thread then serves. If the table is full, it takes another peer's place.
    /// - Parameter origin: the peer's IP address.
    /// - Returns: false if there is no room.
    func take(_ outbox: LinkOutbox, from origin: String) -> Bool {
        let (isTaken, displaced) = state.withLock { state -> (Bool, LinkOutbox?) in
            guard state.peers.count - state.strangers.count < ClusterLimits.linksMax,
                !state.isStopping
            else { return (false, nil) }
            let displaced = state.strangers.add(ObjectIdentifier(outbox), from: origin)
            state.peers[ObjectIdentifier(outbox)] = outbox
            return (true, displaced.flatMap { state.peers.removeValue(forKey: $0) })
        }
        displaced?.end()
        return isTaken
    }

    func forget(_ outbox: LinkOutbox) {
        state.withLock { state in
            state.peers[ObjectIdentifier(outbox)] = nil
            state.members[ObjectIdentifier(outbox)] = nil
            state.strangers.remove(ObjectIdentifier(outbox))
        }
    }

    /// Logs that a peer has left without a proof, at most once a minute: a stranger, or a node with another folder's keys.
    private func note(stranger origin: String, _ reason: String) {
        let count = state.withLock { state in
            state.isStopping ? nil : state.strangers.failed(at: ClusterState.now)
        }
        guard let count else { return }
        logger.warning(
            "peers of the node address have not proved to have this cluster's keys",
            metadata: ["count": "\(count)", "last": "\(origin)", "reason": "\(reason)"])
    }

    /// - Returns: why a peer left that has not proved to be a node; nil for a node.
    func serve(_ socket: some NodeCarrier, _ outbox: LinkOutbox) -> String? {
        Self.ignoreBrokenPipes()
        var epoch: UInt32?
        var isStranger = true
        var talk = LinkTalk(isActive: true)
        let remote = RemoteListeners(outbox)
        defer {
            if let committer = committer.withLock({ $0 }) { remote.leave(committer) }
            end(talk, outbox)
        }
        let reason = socket.serve(
            secret: secret, isServer: true, outbox,
            opened: {
                isStranger = false
                state.withLock { $0.strangers.remove(ObjectIdentifier(outbox)) }
            },
            tick: {
                tell(&talk, outbox)
                return !isStopping && !talk.isSilent
            },
            received: { frame in
                talk.hear(frame)
                switch frame {
                case .hello(let hello):
                    guard epoch == nil else { return false }
                    if let refusal = refusal(of: hello) {
                        // From our place, a node that is cut off can tell what it lacks.
                        if refusal.word == .unavailable {
                            let isActive = state.withLock { $0.epoch != nil }
                            outbox.push(NodeFrame.hello(self.hello(isActive: isActive)).bytes)
                        }
                        outbox.push(NodeFrame.error(refusal).bytes)
                        return false
                    }
                    epoch = hello.position.epoch
                    // Rows and messages come after HELLO.
                    outbox.push(NodeFrame.hello(self.hello(isActive: true)).bytes)
                    state.withLock { $0.members[ObjectIdentifier(outbox)] = outbox }
                    begin(&talk, hello, outbox)
                    // Earlier rows weren't sent over this link, and HELLO may be older than the last one.
                    outbox.push(Self.committed(cluster.applied))
                    let wanted = LivingRunsRow.Run(
                        number: 0, process: hello.process, node: hello.node)
                    cluster.withLock { state in
                        if !state.wanted.contains(wanted) { state.wanted.append(wanted) }
                    }
                    committer.withLock { $0 }?.wake()
                    return true
                case .forward(let frame):
                    guard let epoch else { return false }
                    return take(frame.command, frame.run, frame.number, in: epoch)
                case .ping(let ping):
                    // If the lease is over, another node may be active and have sent messages to devices.
                    if cluster.isActive { nowOrNever.answer(ping, on: outbox) }
                    return true
                case .listen(let frame):
                    guard let epoch, state.withLock({ $0.epoch == epoch }),
                        let committer = committer.withLock({ $0 })
                    else { return false }
                    remote.take(frame, committer)
                    return true
                case .ended, .figures, .watch, .events: return hear(frame, talk, outbox)
                case .pong: return epoch != nil
                case .committed, .upstream, .row, .fanout, .quotas, .error: return false
                }
            })
        return isStranger ? reason : nil
    }

    /// Why we refuse another node's link; nil if we take it.
    private func refusal(of hello: NodeHello) -> MartletError? {
        guard hello.position.incarnation == cluster.applied.incarnation else {
            return MartletError(
                .invalidArgument,
                "Node \(name) belongs to another cluster, or to one that was begun anew.",
                field: "incarnation")
        }
        guard hello.node != name, (try? NodeName(validating: hello.node)) != nil else {
            return MartletError(
                .invalidArgument, "'\(hello.node)' is no name of another node.", field: "node")
        }
        guard LinkFormat.isCommon(hello) else {
            return MartletError(
                .invalidArgument,
                """
                Node \(name) has formats \(Self.text(LinkFormat.rows)) of rows and \
                \(Self.text(LinkFormat.readable)) of links, and node \(hello.node) has \
                \(Self.text(hello.rowFormats)) and \(Self.text(hello.commandFormats)): upgrade the older.
                """, field: "formats")
        }
        let epoch = state.withLock { $0.epoch }
        guard let epoch else {
            return isCutOff
                ? MartletError(
                    .unavailable, "Node \(name) is not active, and the log does not answer it.",
                    field: Self.cutOffField)
                : MartletError(.unavailable, "Node \(name) is not active.", field: "active")
        }
        guard hello.position.epoch == epoch else {
            return MartletError(
                .unavailable,
                "Node \(name) is active in epoch \(epoch), and node \(hello.node) is in epoch "
                    + "\(hello.position.epoch).", field: "epoch")
        }
        return nil
    }

    private static func text(_ formats: ClosedRange<some Numeric>) -> String {
        formats.lowerBound == formats.upperBound
            ? "\(formats.lowerBound)" : "\(formats.lowerBound) to \(formats.upperBound)"
    }

    func hello(isActive: Bool) -> NodeHello {
        let position = cluster.applied
        return NodeHello(
            position: NodePosition(
                incarnation: position.incarnation, epoch: position.epoch, row: position.row,
                chain: position.chain),
            node: node.text, address: address.text, process: cluster.process,
            run: cluster.run ?? 0, isActive: isActive,
            rowFormats: LinkFormat.rows,
            commandFormats: LinkFormat.readable)
    }

    /// Changes parts of fanouts (FAN-1). If one ends, there may be room for a deferred message, which the committer then
    /// begins.
    func changeFanouts(_ change: (Instant) -> Void) {
        guard let committer = committer.withLock({ $0 }) else { return }
        change(committer.clock())
        if committer.book.takeRoom() { committer.wake() }
    }

    /// Hands a command to the committer, unless we have had it in this epoch.
    /// - Returns: false if the link must end.
    private func take(
        _ bytes: [UInt8], _ run: UInt32, _ number: UInt64, in epoch: UInt32
    ) -> Bool {
        guard let committer = committer.withLock({ $0 }) else { return false }
        let command: Command
        do throws(ForwardingError) { command = try Command(forwarded: bytes) } catch {
            logger.error("a forwarded command cannot be read", metadata: ["error": "\(error)"])
            return false
        }
        let request = Request(
            command: command, reply: .node(run: run, number: number, epoch: epoch))
        // Under the lock, because for a moment a node may have its former link beside the new one, and a run's numbers must
        // rise in the inbox. The node itself bounds its unanswered commands.
        let pushed = state.withLock { state -> Inbox<Request>.Pushed in
            guard state.epoch == epoch else { return .closed }
            guard number > state.taken[run] ?? 0 else { return .taken(mustWake: false) }
            state.taken[run] = number
            return committer.inbox.push([request], mustFit: true)
        }
        guard case .taken(let mustWake) = pushed else { return false }
        if mustWake { committer.wake() }
        return true
    }

    /// Our watchers; nil while we stop (EMB-3).
    var watchBook: WatchBook? { committer.withLock { $0 }?.watches }

    // MARK: The follower's side

    /// The number of the link to an epoch's active node; 0 if there is none.
    func session(inEpoch epoch: UInt32) -> UInt64 {
        state.withLock { $0.outgoing != nil && $0.outgoingEpoch == epoch ? $0.sessions : 0 }
    }

    /// - Returns: false if the link has ended.
    func forward(_ command: [UInt8], run: UInt32, number: UInt64, in session: UInt64) -> Bool {
        let outbox = state.withLock { $0.sessions == session ? $0.outgoing : nil }
        return outbox?.push(
            NodeFrame.forward(NodeForward(run: run, number: number, command: command)).bytes)
            ?? false
    }

    /// Tells the active node of a change among our listeners (UPS-1).
    func tell(_ change: UpstreamBook.Change, in session: UInt64) {
        let outbox = state.withLock { $0.sessions == session ? $0.outgoing : nil }
        outbox?.push(NodeFrame.listen(NodeListen(change)).bytes)
    }

    /// Devices' messages for our listeners that our store has by now, in the order in which they came (UPS-1).
    /// - Parameter row: the last applied row.
    func takeUpstream(through row: UInt64) -> [NodeUpstream] {
        state.withLock { state in
            let count = state.upstream.prefix { $0.row.map { $0 <= row } ?? false }.count
            guard count > 0 else { return [] }
            defer { state.upstream.removeFirst(count) }
            return state.upstream.prefix(count).map(\.handing)
        }
    }

    /// Ends the link to the active node. A new one follows.
    func restart() { state.withLock { $0.outgoing }?.end() }

    /// The active node of the last applied epoch; nil if there is none, or it is us.
    private var target: (address: NodeAddress, epoch: UInt32)? {
        cluster.withLock { state in
            guard state.hold == nil, let lease = state.lease, let holder = lease.holder,
                holder != node, lease.epoch == state.applied.epoch,
                let address = try? NodeAddress(validating: lease.address)
            else { return nil }
            return (address, lease.epoch)
        }
    }

    /// Keeps up a link to the active node until we end.
    func call() {
        Self.ignoreBrokenPipes()
        var met: UInt32?
        while !isStopping {
            figures.refresh(at: ClusterState.now)
            askOthers()
            guard let target else {
                SystemClock.pause(microseconds: 20_000)
                continue
            }
            let outbox = network.makeOutbox(limit: ClusterLimits.linkBytesMax)
            let incarnation = cluster.applied.incarnation
            do throws(NodeSocket.Failure) {
                let socket = try network.connect(to: target.address)
                var talk = LinkTalk(isActive: false)
                heardAt.store(.max, ordering: .relaxed)
                var refusal: MartletError?
                defer { end(talk, outbox) }
                let reason = socket.serve(
                    secret: secret, isServer: false, outbox,
                    opened: {
                        nowOrNever.open(outbox)
                        outbox.push(NodeFrame.hello(hello(isActive: false)).bytes)
                    },
                    tick: {
                        figures.refresh(at: ClusterState.now)
                        tell(&talk, outbox)
                        return !isStopping && !talk.isSilent
                            && self.target.map { $0 == target } ?? false
                    },
                    received: { frame in
                        talk.hear(frame)
                        if talk.heard != nil {
                            heardAt.store(SystemClock.monotonicNanoseconds(), ordering: .relaxed)
                        }
                        switch frame {
                        case .hello(let hello):
                            // If it isn't active any more, it says why after its HELLO.
                            guard hello.isActive, hello.position.epoch == target.epoch else {
                                return true
                            }
                            guard LinkFormat.isCommon(hello) else { return false }
                            met = target.epoch
                            begin(&talk, hello, outbox)
                            state.withLock { state in
                                state.outgoing = outbox
                                state.outgoingEpoch = target.epoch
                                state.committed = max(state.committed, hello.position.row)
                                state.sessions += 1
                                state.hasTold = false
                            }
                        case .committed(let frame):
                            // The active node hands out what its store has, and tells us the row afterwards.
                            state.withLock { state in
                                state.committed = max(state.committed, frame.row)
                                var index = state.upstream.count
                                while index > 0, state.upstream[index - 1].row == nil {
                                    index -= 1
                                    state.upstream[index].row = frame.row
                                }
                            }
                        case .figures, .quotas, .watch, .events: return hear(frame, talk, outbox)
                        case .upstream(let frame):
                            state.withLock { $0.upstream.append((nil, frame)) }
                        case .row(let frame):
                            guard rows.take(frame, from: outbox, of: incarnation) else {
                                return false
                            }
                        case .fanout(let frame):
                            guard nowOrNever.take(frame, from: outbox) else { return false }
                        case .ping(let ping):
                            outbox.push(NodeFrame.pong(Pong(value: ping.value)).bytes)
                        case .pong(let pong): nowOrNever.take(pong, from: outbox)
                        case .error(let frame):
                            guard talk.hasRefusals else {
                                refusal = frame.error
                                return false
                            }
                            cluster.withLock { $0.refusalHeard = ClusterState.now }
                        case .forward, .ended, .listen: return false
                        }
                        committer.withLock { $0 }?.wake()
                        return true
                    })
                note(refusal?.message ?? reason, target.address)
            } catch {
                switch error {
                case .refused: note("nothing listens there", target.address)
                case .failed(let text): note(text, target.address)
                }
                // There was a process and it is gone, so nobody need wait for the lease.
                if case .refused = error, met == target.epoch {
                    cluster.withLock { state in
                        if state.hold == nil, state.lease?.epoch == target.epoch {
                            state.goneEpoch = target.epoch
                        }
                    }
                }
            }
            outbox.end()
            let hasEnded = state.withLock { state in
                state.upstream = []
                guard state.outgoing === outbox else { return false }
                state.outgoing = nil
                return true
            }
            // It may have handed over its role.
            if hasEnded { cluster.withLock { $0.mustLook = true } }
            SystemClock.pause(microseconds: 50_000)
        }
    }

    /// Logs once why there is no link. Without one none of our commands is applied.
    private func note(_ reason: String, _ address: NodeAddress) {
        let isNew = state.withLock { state in
            defer { state.hasTold = true }
            return !state.hasTold && !state.isStopping
        }
        guard isNew else { return }
        logger.warning(
            "there is no link to the active node",
            metadata: ["address": "\(address.text)", "reason": "\(reason)"])
    }

    /// Whether our store lacks a row that the active node has told us of, and it isn't coming over the link. Without a link
    /// that brings rows, any may be missing.
    /// - Parameter row: the last applied row.
    func mustRead(after row: UInt64) -> Bool {
        !rows.isFed || state.withLock { $0.outgoing == nil || $0.committed > row }
    }

    /// When we last heard the active node over this link.
    var heardLast: Duration {
        let heard = heardAt.load(ordering: .relaxed)
        return heard == .max ? ClusterState.now : .nanoseconds(Int64(heard))
    }

    /// The last row that the active node has told us of.
    var committedRow: UInt64 { state.withLock { $0.committed } }

    /// Whether there is a link to the active node.
    var isUp: Bool { state.withLock { $0.outgoing != nil } }
}
