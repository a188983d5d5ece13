// SPDX-License-Identifier: Apache-2.0
//
// A node's links to the other nodes of its cluster (OPS-7). A node listens for the other nodes, and has a link to the active
// node. Over the link go its commands; back come the rows (RowFeed) and now-or-never messages (LiveRelay). Answers to commands
// come by the rows alone, and all rows are in the log too, so a lost link loses no command and no row.
//
// The active node takes the commands of a run in the order of their numbers, and drops the numbers that it has had: a
// node that lost the link forwards all unanswered commands again. Rests on NodeSocket and ClusterState.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCrypto
import MartletEngine
import MartletForwarding
import MartletRows
import MartletStore
import MartletWire
import Synchronization

/// The links of a node to other nodes.
final class NodeLinks: Sendable {
    private struct State {
        /// The epoch of an active node; nil: the node follows.
        var epoch: UInt32?
        /// By run, the last number of the commands that this node has taken in its epoch.
        var taken: [UInt32: UInt64] = [:]
        /// Links of all peers of the node port, strangers included.
        var peers: [ObjectIdentifier: LinkOutbox] = [:]
        /// The link to the active node.
        var outgoing: LinkOutbox?
        var outgoingEpoch: UInt32 = 0
        /// Messages of devices that came over the link for listeners of this node, and the row that the store needs for
        /// each; nil until the row is known.
        var upstream: [(row: UInt64?, handing: NodeUpstream)] = []
        /// The last row that the active node has told of.
        var committed: UInt64 = 0
        /// Rises with each link to an active node.
        var sessions: UInt64 = 0
        /// Whether the log tells of the missing link.
        var hasTold = false
        /// Links of peers that have not proved to be nodes.
        var strangers = LinkStrangers()
        /// Links of nodes, from the HELLO on.
        var members: [ObjectIdentifier: LinkOutbox] = [:]
        var isStopping = false
    }

    let node: NodeName
    var name: String { node.text }
    let address: NodeAddress
    /// FAN-1: the parts of other nodes in fanouts, and this node's parts in fanouts of the active node.
    let parts = FanoutParts()
    let reports = FanoutReports()
    /// FAN-8: the loads of the other nodes.
    let figures = NodeFigureBook()
    /// EMB-3: the events of watched projects.
    let watches: WatchRelay
    let rows = RowFeed()
    /// TTL-2: the now-or-never messages.
    let live = LiveRelay()
    /// When the active node was heard last over the present link, in nanoseconds of the monotonic clock; `.max`: it need
    /// not be heard.
    private let heardAt = Atomic<UInt64>(.max)
    /// What the other nodes say while the log does not answer.
    let word = NodeWord()
    private let state = Mutex(State())
    let cluster: ClusterState
    let secret: [UInt8]
    let network: any NodeNetwork
    private let logger: Logger
    private let threads = Mutex<[SystemThread]>([])
    let committer = Mutex<Committer?>(nil)

    /// - Parameters:
    ///   - secret: a secret of the data folder, equal on all nodes.
    ///   - network: the way to other nodes.
    init(
        _ configuration: ClusterConfiguration, _ cluster: ClusterState, secret: [UInt8],
        logger: Logger, network: any NodeNetwork = SocketNetwork()
    ) {
        self.network = network
        node = configuration.node
        address = configuration.address
        watches = WatchRelay(configuration.node)
        self.cluster = cluster
        // The secret of links is another one than the secret of access tokens, so neither tells of the other.
        self.secret = AuthenticationKey(secret).code(
            of: Array("martlet links".utf8) + cluster.applied.incarnation)
        self.logger = logger
    }

    /// Takes the place of `start` for an owner with a network of its own.
    func begin(_ committer: Committer) { self.committer.withLock { $0 = committer } }

    /// Listens for other nodes, and looks for the active node.
    /// - Throws: `UNAVAILABLE` if the address cannot be listened at.
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

    /// Checks that the address of a node can be listened at.
    /// - Throws: `UNAVAILABLE` if it cannot.
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

    /// Ends all links. Their threads end a moment later.
    func end() {
        let outboxes = state.withLock { state in
            state.isStopping = true
            return Array(state.peers.values) + (state.outgoing.map { [$0] } ?? [])
        }
        for outbox in outboxes { outbox.end() }
    }

    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// SIGPIPE ends the process otherwise when a peer has closed its socket. The signal is for the writing thread.
    private static func ignoreBrokenPipes() {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    // MARK: The active node's side

    /// Begins or ends an epoch of this node. All links of other nodes end.
    func lead(epoch: UInt32?) {
        let peers = state.withLock { state in
            state.epoch = epoch
            state.taken = [:]
            return Array(state.peers.values)
        }
        for peer in peers { peer.end() }
    }

    /// Tells the other nodes that a row is in the store of this node.
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
                // Mostly there are no descriptors left, and the connection waits.
                usleep(20_000)
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

    /// Takes the link of a peer, whose thread serves the link then. A peer of a full table takes the place of another one.
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

    /// Logs the end of a peer without a proof, at most once a minute: a stranger, or a node with another folder's keys.
    private func note(stranger origin: String, _ reason: String) {
        let count = state.withLock { state in
            state.isStopping ? nil : state.strangers.failed(at: ClusterState.now)
        }
        guard let count else { return }
        logger.warning(
            "peers of the node address have not proved to have this cluster's keys",
            metadata: ["count": "\(count)", "last": "\(origin)", "reason": "\(reason)"])
    }

    /// - Returns: the reason for the end of a peer that has not proved to be a node; nil for a node.
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
                        // The place of a node without an active role tells a node that is cut off what it lacks.
                        if refusal.word == .unavailable {
                            let isActive = state.withLock { $0.epoch != nil }
                            outbox.push(NodeFrame.hello(self.hello(isActive: isActive)).bytes)
                        }
                        outbox.push(NodeFrame.error(refusal).bytes)
                        return false
                    }
                    epoch = hello.position.epoch
                    // Rows and messages come behind HELLO.
                    outbox.push(NodeFrame.hello(self.hello(isActive: true)).bytes)
                    state.withLock { $0.members[ObjectIdentifier(outbox)] = outbox }
                    begin(&talk, hello, outbox)
                    // A row of before was not sent over the link, and the HELLO may be older than the row.
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
                    // With the lease over, another node may be active, and have sent messages to devices.
                    if cluster.isActive { live.answer(ping, on: outbox) }
                    return true
                case .listen(let frame):
                    guard let epoch, state.withLock({ $0.epoch == epoch }),
                        let committer = committer.withLock({ $0 })
                    else { return false }
                    remote.take(frame, committer)
                    return true
                case .ended, .figures, .watch, .watched: return hear(frame, talk, outbox)
                case .pong: return epoch != nil
                case .committed, .upstream, .row, .fanout, .quotas, .error: return false
                }
            })
        return isStranger ? reason : nil
    }

    /// The reason for which this node takes no link of another node; nil: it takes the link.
    private func refusal(of hello: NodeHello) -> MartletError? {
        guard hello.position.incarnation == cluster.applied.incarnation else {
            return MartletError(
                .invalidArgument,
                "Node \(name) is of another cluster, or of one that has begun anew.",
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

    /// FAN-1: changes parts of fanouts. An end may make room for a deferred message, which the committer begins then.
    func changeFanouts(_ change: (Instant) -> Void) {
        guard let committer = committer.withLock({ $0 }) else { return }
        change(committer.clock())
        if committer.book.takeRoom() { committer.wake() }
    }

    /// Hands a command to the committer, unless this node has had the command in its epoch.
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
        // Under the lock, because a node may have a former link for a moment beside its new link, and the numbers of a
        // run rise in the inbox. The node bounds its own unanswered commands.
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

    /// EMB-3: the watchers of this node; nil: the node stops.
    var watchBook: WatchBook? { committer.withLock { $0 }?.watches }

    // MARK: The follower's side

    /// The number of the link to the active node of an epoch; 0: there is none.
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

    /// UPS-1: tells the active node of a change among the listeners of this node.
    func tell(_ change: UpstreamBook.Change, in session: UInt64) {
        let outbox = state.withLock { $0.sessions == session ? $0.outgoing : nil }
        outbox?.push(NodeFrame.listen(NodeListen(change)).bytes)
    }

    /// UPS-1: the messages of devices for listeners of this node that the store of this node has, in the order of coming.
    /// - Parameter row: the last applied row.
    func takeUpstream(through row: UInt64) -> [NodeUpstream] {
        state.withLock { state in
            let count = state.upstream.prefix { $0.row.map { $0 <= row } ?? false }.count
            guard count > 0 else { return [] }
            defer { state.upstream.removeFirst(count) }
            return state.upstream.prefix(count).map(\.handing)
        }
    }

    /// Ends the link to the active node. Another one follows.
    func restart() { state.withLock { $0.outgoing }?.end() }

    /// The active node of the last applied epoch; nil: this node, or none.
    private var target: (address: NodeAddress, epoch: UInt32)? {
        cluster.withLock { state in
            guard state.hold == nil, let lease = state.lease, let holder = lease.holder,
                holder != node, lease.epoch == state.applied.epoch,
                let address = try? NodeAddress(validating: lease.address)
            else { return nil }
            return (address, lease.epoch)
        }
    }

    /// Keeps a link to the active node, until the node ends.
    func call() {
        Self.ignoreBrokenPipes()
        var met: UInt32?
        while !isStopping {
            figures.refresh(at: ClusterState.now)
            askOthers()
            guard let target else {
                usleep(20_000)
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
                        live.open(outbox)
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
                            // A node that is not active any more says why behind its HELLO.
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
                            // The active node hands out what its store has, and tells of the row afterwards.
                            state.withLock { state in
                                state.committed = max(state.committed, frame.row)
                                var index = state.upstream.count
                                while index > 0, state.upstream[index - 1].row == nil {
                                    index -= 1
                                    state.upstream[index].row = frame.row
                                }
                            }
                        case .figures, .quotas, .watch, .watched: return hear(frame, talk, outbox)
                        case .upstream(let frame):
                            state.withLock { $0.upstream.append((nil, frame)) }
                        case .row(let frame):
                            guard rows.take(frame, from: outbox, of: incarnation) else {
                                return false
                            }
                        case .fanout(let frame):
                            guard live.take(frame, from: outbox) else { return false }
                        case .ping(let ping):
                            outbox.push(NodeFrame.pong(Pong(value: ping.value)).bytes)
                        case .pong(let pong): live.take(pong, from: outbox)
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
                // A process that was there has ended, so the lease need not be waited for.
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
            // The active node may have handed its role over.
            if hasEnded { cluster.withLock { $0.mustLook = true } }
            usleep(50_000)
        }
    }

    /// Tells once why there is no link. Without a link no command of this node is applied.
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

    /// Whether the store of this node lacks a row that the active node has told of, and the row does not come over the
    /// link. Without a link that brings rows, any row may be missing.
    /// - Parameter row: the last applied row.
    func mustRead(after row: UInt64) -> Bool {
        !rows.isFed || state.withLock { $0.outgoing == nil || $0.committed > row }
    }

    /// When the active node was heard last over the present link.
    var heardLast: Duration {
        let heard = heardAt.load(ordering: .relaxed)
        return heard == .max ? ClusterState.now : .nanoseconds(Int64(heard))
    }

    /// The last row that the active node has told of.
    var committedRow: UInt64 { state.withLock { $0.committed } }

    /// Whether the link to the active node stands.
    var isUp: Bool { state.withLock { $0.outgoing != nil } }
}
