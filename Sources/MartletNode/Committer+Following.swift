// SPDX-License-Identifier: Apache-2.0
//
// The committer of a follower (OPS-7). It numbers commands and sends them to the active node, applies the log's rows, and
// tells the loops their events. The answer to a command comes from the row with its outcome: by then this node's own store has
// the effect.
//
// Each command is applied once. The active node applies a run's commands in the order of their numbers and drops repeated
// ones, and a command's row has its outcome. After a takeover we forward what is unanswered again, but not before we have
// applied the takeover: then no more rows of the former active node can come. If our run has ended, we forward its commands
// under the next run: every row with an outcome of the old one lies before its end.
//
// Rests on ClusterNode and NodeLinks.

import Glibc
import Logging
import MartletBase
import MartletCluster
import MartletCommitter
import MartletEngine
import MartletRows
import MartletThreads
import MartletTransport
import MartletWire
import Synchronization

/// This node's commands that no row has answered yet.
struct Outstanding {
    private(set) var entries: [UInt64: Request] = [:]
    private var last: UInt64 = 0
    /// Higher numbers are not on their way to the active node.
    var sentThrough: UInt64 = 0 {
        didSet { sentOnceThrough = max(sentOnceThrough, sentThrough) }
    }
    /// Higher numbers have never been on their way to any node. The others may be in a row of the log.
    private var sentOnceThrough: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    mutating func add(_ request: Request) {
        last += 1
        entries[last] = request
    }

    /// Reserves the first numbers for the commands of a row in doubt, so that a connection's later commands come after them.
    mutating func reserve(_ count: Int) {
        invariant(last == 0, "The first numbers are free until a command is added.")
        last = UInt64(count)
    }

    /// Adds a command with a reserved number, before any is on its way.
    mutating func add(_ request: Request, reserved number: UInt64) {
        invariant(number > sentThrough && number <= last, "A reserved number is not on the way.")
        entries[number] = request
    }

    mutating func take(_ number: UInt64) -> Request? {
        entries.removeValue(forKey: number)
    }

    /// The numbers that are not on their way, in order.
    var unsent: [UInt64] {
        guard sentThrough < last else { return [] }
        // Numbers rise for as long as the node follows, and few are unanswered at a time. They start over only when it follows
        // again, in a later epoch.
        if last - sentThrough > UInt64(2 * entries.count) {
            return entries.keys.filter { $0 > sentThrough }.sorted()
        }
        return (sentThrough + 1...last).filter { entries[$0] != nil }
    }

    /// Takes the newest commands.
    mutating func takeLast(_ count: Int) -> [Request] {
        let numbers = entries.keys.sorted().suffix(count)
        return numbers.compactMap { take($0) }
    }

    /// Takes all commands, in order.
    mutating func takeAll() -> [Request] {
        defer { entries = [:] }
        return entries.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Takes the commands that came before a time.
    /// - Parameter areUnsent: take only commands that no node can have applied.
    mutating func take(before time: Int64, areUnsent: Bool = false) -> [Request] {
        guard !entries.isEmpty else { return [] }
        let old = entries.filter { number, request in
            request.since < time && (!areUnsent || number > sentOnceThrough)
        }.sorted { $0.key < $1.key }
        for (number, _) in old { entries[number] = nil }
        return old.map(\.value)
    }
}

extension Committer {
    /// Follows and leads, by turns, until the broker stops.
    func run(as place: NodePlace, _ transport: inout some Transport & ~Copyable) {
        let links = place.links
        let node = ClusterNode(place, self)
        node.onAccepted = { links.rows.send($0) }
        var waiting = WaitingCommands()
        upstream.beginAnew(isRelaying: true)
        while true {
            guard follow(node, links, &waiting, &transport) else { return }
            // Our listeners get everything anew, and those of other nodes come over the links.
            upstream.beginAnew(isRelaying: false)
            links.lead(epoch: node.epoch)
            links.nowOrNever.lead(node.otherProcesses)
            links.rows.drop()
            node.makeRoom()
            var engine = makeEngine()
            engine.beginsRun = false
            bridges.handOver(true)
            run(&engine, &waiting, &transport, on: node)
            bridges.handOver(false)
            links.lead(epoch: nil)
            upstream.beginAnew(isRelaying: true)
            if isStopping.load(ordering: .acquiring), node.state.hold != nil {
                node.release()
                return
            }
        }
    }

    func tellAll(_ message: LoopMessage, _ transport: inout some Transport & ~Copyable) {
        let loops = allLoops
        tell([[LoopMessage]](repeating: [message], count: loops.count), loops, &transport)
    }

    // MARK: Following

    /// Follows the log.
    /// - Parameter waiting: commands from before. When it returns true, the commands to begin with.
    /// - Returns: true if we are active now; false if the broker stops.
    private func follow(
        _ node: ClusterNode, _ links: NodeLinks, _ waiting: inout WaitingCommands,
        _ transport: inout some Transport & ~Copyable
    ) -> Bool {
        let state = node.state
        var outstanding = Outstanding()
        var session: UInt64 = 0
        var relaySession: UInt64 = 0
        var stopBy: Int64?
        var linkedAt = ClusterState.now
        var turned = ClusterState.now
        // There is no link to another node until a row of a later epoch comes, and that ends the doubt.
        if let doubted = node.doubted { outstanding.reserve(doubted.batch.count) }
        for request in waiting.takeAll() + withCounts() { keep(request, &outstanding) }
        while true {
            // Calls of the log have their own deadlines, and `ClusterState.trouble` says how they went.
            heartbeat.end()
            while transport.nextEvent() != nil {}
            for request in inbox.drain() { keep(request, &outstanding) }
            if outstanding.count > NodeLimits.forwardedMax {
                refuse(
                    outstanding.takeLast(outstanding.count - NodeLimits.forwardedMax),
                    .noActiveNode("more is being asked than the active node answers"), &transport)
            }
            let now = SystemClock.monotonicMilliseconds()
            if isStopping.load(ordering: .acquiring) {
                let end = stopBy ?? now + ClusterLimits.unansweredMilliseconds
                stopBy = end
                if outstanding.isEmpty && node.doubted == nil || now >= end || node.isStopped {
                    let unsent = outstanding.take(before: .max, areUnsent: true)
                    refuse(unsent, .noActiveNode("the node stops"), &transport)
                    refuse(
                        node.takeDoubted() + outstanding.takeAll(), .noAnswer("the node stops"),
                        &transport)
                    return false
                }
            }
            forward(node, links, &outstanding, &session, &transport)
            relay(node, links, &relaySession)
            links.reports.tell(at: ClusterState.now)
            tick(SystemClock.monotonicNanoseconds())
            var isAtEnd = true
            if let awaited = state.awaited {
                links.nowOrNever.ask(for: awaited, at: SystemClock.monotonicNanoseconds())
            }
            if !nowOrNeverSending.counts.isEmpty {
                for request in withCounts() { keep(request, &outstanding) }
            }
            if node.isStopped {
                links.nowOrNever.drop()
            } else {
                let completeAt = state.completeAt.load(ordering: .relaxed)
                let heard = links.heard
                for row in node.apply(links.rows.next(after: node.position)) {
                    publish(row, completeAt, node, links, &outstanding, &transport)
                }
                if mustRead(node, links) {
                    let read = node.follow()
                    isAtEnd = read.isAtEnd
                    for row in read.rows {
                        publish(row, completeAt, node, links, &outstanding, &transport)
                    }
                }
                links.noteApplied(heard, through: node.position.row)
                handOn(links.takeUpstream(through: node.position.row), &transport)
                tellLoops(nowOrNever: links.nowOrNever.due(through: node.position.row), links)
                links.nowOrNever.noteHanded()
                // More rows may have come by now.
                if links.rows.hasRows { isAtEnd = false }
                if isAtEnd {
                    if state.waiterCount.load(ordering: .relaxed) > 0 {
                        tellAll(.fresh, &transport)
                    }
                    if state.withLock({ $0.claimable != nil }), stopBy == nil,
                        node.takeOver(at: clock())
                    {
                        settle(node, at: node.position, &outstanding, &transport)
                        waiting.add(outstanding.takeAll())
                        return true
                    }
                }
            }
            // We were frozen, or waited for the log, and haven't read what came meanwhile.
            if ClusterState.now - turned > .seconds(1) { linkedAt = ClusterState.now }
            turned = ClusterState.now
            // Nobody takes our commands: no node is active, there is no link, or the log is away.
            let isUnlinked = note(session == 0 ? nil : links.heardLast, state, &linkedAt)
            let isRefusing = state.isLogRefusing
            let isAway = state.withLock { state in
                state.stopped != nil || isUnlinked || isRefusing
                    || state.trouble != nil && ClusterState.now - state.contact > ClusterLimits.away
            }
            let late = now - ClusterLimits.unansweredMilliseconds
            let unsent = outstanding.take(before: isAway ? .max : late, areUnsent: true)
            let lost =
                isUnlinked
                ? now - Int64(ClusterLimits.away / .milliseconds(1))
                : isRefusing ? now - Int64(ClusterLimits.refusing / .milliseconds(1)) : late
            let inDoubt = node.takeDoubted(before: late) + outstanding.take(before: lost)
            if !unsent.isEmpty || !inDoubt.isEmpty {
                let reason =
                    state.trouble
                    ?? (isUnlinked
                        ? "there is no link to the active node"
                        : isRefusing ? "the log takes no rows" : "no node is active")
                refuse(unsent, .noActiveNode(reason), &transport)
                refuse(inDoubt, .noAnswer(reason), &transport)
            }
            guard isAtEnd else { continue }
            let isAwaited =
                !outstanding.isEmpty || state.waiterCount.load(ordering: .relaxed) > 0
            wait(
                isAwaited ? ClusterLimits.pollWaitingMilliseconds : ClusterLimits.pollMilliseconds,
                &transport)
        }
    }

    /// Notes whether there is a link to the active node.
    /// - Parameter heard: when we last heard the active node over it; nil if there is none.
    /// - Returns: whether another node is active by its lease, and we haven't heard it for some seconds. During a takeover no
    ///   lease is valid, and commands just wait.
    private func note(
        _ heard: Duration?, _ state: ClusterState, _ linkedAt: inout Duration
    ) -> Bool {
        let now = ClusterState.now
        let isUnlinked = state.withLock { state in
            let isHeld = state.lease.map { $0.remaining > now - state.leaseSeen } ?? false
            linkedAt = isHeld ? max(linkedAt, heard ?? .zero) : now
            state.isUnlinked = now - linkedAt > ClusterLimits.away
            return state.isUnlinked
        }
        return isUnlinked
    }

    /// Whether to read the log, beside the rows that come over the link. A waiting question needs to know from the log itself
    /// that there is no further row, and so does a takeover.
    ///
    /// If the log is away, a call takes seconds, and meanwhile rows from the link, refusals and our shutdown all wait. So once
    /// it has failed to answer, we read it again only after it has answered our other thread.
    private func mustRead(_ node: ClusterNode, _ links: NodeLinks) -> Bool {
        guard !node.isLogAway else { return false }
        return links.mustRead(after: node.position.row) && !links.rows.hasRows
            || node.state.awaited.map { !node.state.isCurrent(at: $0) } ?? false
            || node.state.withLock { $0.claimable != nil }
            || SystemClock.monotonicNanoseconds() - node.lastReading
                >= UInt64(ClusterLimits.pollMilliseconds) * 1_000_000
    }

    // MARK: Now-or-never messages

    /// Tells the loops of fanouts that came over the link (TTL-2). The active node counts the parts of large ones.
    private func tellLoops(nowOrNever fanouts: [Fanout], _ links: NodeLinks) {
        guard !fanouts.isEmpty else { return }
        var recipientCounts: [FanoutKey: UInt64] = [:]
        for fanout in fanouts {
            recipientCounts[FanoutKey(fanout), default: 0] += fanout.recipients.count
        }
        let counted = links.reports.counting(fanouts, loops: allLoops.count, book, at: clock()) {
            recipientCounts[FanoutKey($0), default: 0] > NowOrNeverSending.untoldMax
        }
        tellLoops(nowOrNever: counted, at: clock())
    }

    // MARK: Messages of devices

    /// Tells the active node of our listeners (UPS-1). A node that becomes active hands everything out anew, and each new link
    /// hears of all listeners.
    private func relay(_ node: ClusterNode, _ links: NodeLinks, _ session: inout UInt64) {
        let current = links.session(inEpoch: node.position.epoch)
        let changes: [UpstreamBook.Change]
        if current == session {
            changes = upstream.takeChanges()
        } else {
            changes = upstream.beginRelay()
            session = current
        }
        guard session != 0 else { return }
        for change in changes { links.tell(change, in: session) }
    }

    /// Hands the active node's messages to our listeners (UPS-1).
    private func handOn(
        _ handings: [NodeUpstream], _ transport: inout some Transport & ~Copyable
    ) {
        guard !handings.isEmpty else { return }
        let loops = allLoops
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        for handing in handings {
            // The listener has left. The active node hears of that too.
            guard let message = UpstreamMessage(handing.delivery),
                let destination = upstream.relayed([message.number], to: handing.listener)
            else { continue }
            switch destination {
            case .loop(let loop): messages[loop].append(.upstream(handing.listener, [message]))
            case .caller(let tell): tell([message])
            case .node: break
            }
        }
        tell(messages, loops, &transport)
    }

    // MARK: Commands

    /// Keeps a command until a row answers it. Other nodes forward theirs again themselves.
    private func keep(_ request: Request, _ outstanding: inout Outstanding) {
        if !request.isForwarded { outstanding.add(request) }
    }

    /// Sends the active node the commands that are not on their way yet.
    private func forward(
        _ node: ClusterNode, _ links: NodeLinks, _ outstanding: inout Outstanding,
        _ session: inout UInt64, _ transport: inout some Transport & ~Copyable
    ) {
        // The link is to the node of the last applied epoch, so a repeated command can't meet a row from before the takeover.
        let current = links.session(inEpoch: node.position.epoch)
        if current != session {
            session = current
            outstanding.sentThrough = 0
        }
        // The active node keeps what it has. New commands are refused, and we know that they weren't applied.
        guard session != 0, let run = node.state.run, !node.state.isLogRefusing else { return }
        for number in outstanding.unsent {
            guard let request = outstanding.entries[number] else { continue }
            do throws(ForwardingError) {
                let bytes = try request.command.forwarded()
                guard links.forward(bytes, run: run, number: number, in: session) else { return }
                node.state.withLock { $0.forwardedCount += 1 }
            } catch {
                guard let request = outstanding.take(number) else { continue }
                refuse(
                    [request],
                    MartletError(
                        .resourceExhausted,
                        "The request is longer than a node may tell another (\(error))."),
                    &transport)
            }
            outstanding.sentThrough = number
        }
    }

    private func refuse(
        _ requests: [Request], _ error: MartletError,
        _ transport: inout some Transport & ~Copyable
    ) {
        guard !requests.isEmpty else { return }
        let loops = allLoops
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        for request in requests {
            answer(request, .refused(error), &messages)
        }
        tell(messages, loops, &transport)
    }

    /// Tells the loops a row's events, and answers our commands.
    ///
    /// A now-or-never message is for the devices that were connected when it was accepted (TTL-2). If a node has long had
    /// no news from the log, it opens devices from an old store, and another node may have delivered the message to them by
    /// then. So if a row is late, none of our devices gets its now-or-never messages.
    /// - Parameter completeAt: the last time at which the store had all rows, before this one was read.
    private func publish(
        _ row: AppliedRow, _ completeAt: UInt64, _ node: ClusterNode, _ links: NodeLinks,
        _ outstanding: inout Outstanding, _ transport: inout some Transport & ~Copyable
    ) {
        let loops = allLoops
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        func tellAll(_ message: LoopMessage) {
            for index in messages.indices { messages[index].append(message) }
        }
        let run = node.state.run
        var answers: [UInt64: LoggedOutcome] = [:]
        for logged in row.outcomes where logged.run == run { answers[logged.number] = logged }
        func tellAnswer(_ number: UInt64) {
            guard let logged = answers.removeValue(forKey: number),
                let request = outstanding.take(number)
            else { return }
            let outcome = node.outcome(logged)
            if case .upstreamTaken(let project, let numbers) = outcome {
                upstream.acknowledged(numbers, in: project)
            }
            answer(request, outcome, &messages)
        }
        // Answers without a place among the events are from earlier transactions.
        let placed = row.events.compactMap { event -> UInt64? in
            guard case .answered(let answered, let number) = event, answered == run else {
                return nil
            }
            return number
        }
        for number in Set(answers.keys).subtracting(placed).sorted() { tellAnswer(number) }
        let isLate =
            SystemClock.monotonicNanoseconds() - completeAt >= ClusterLimits.questionNanoseconds
        let events =
            isLate ? row.events.filter { $0.fanout?.header.sequence.isStored != false } : row.events
        var counted = links.reports.counting(
            events.compactMap(\.fanout), loops: loops.count, book, at: clock())[...]
        for event in events {
            switch event {
            case .tookOver(let name):
                logger.notice(
                    "another node is active",
                    metadata: ["node": "\(name)", "epoch": "\(row.position.epoch)"])
            case .runBegan, .runEnded: break
            case .news(.fanout): tellAll(.news(.fanout(counted.removeFirst())))
            case .news(let news):
                note(news)
                tellAll(.news(news))
            case .answered(let answered, let number):
                if answered == run { tellAnswer(number) }
            }
        }
        settle(node, at: row.position, &outstanding, &messages)
        if node.learn(row.events) {
            logger.warning("the cluster has counted this node as gone; its devices connect again")
            for index in messages.indices { messages[index].append(.runEnded) }
            outstanding.sentThrough = 0
            links.restart()
        }
        tell(messages, loops, &transport)
    }

    /// Ends the doubt about the last transaction from when we were active.
    private func settle(
        _ node: ClusterNode, at position: LogPosition, _ outstanding: inout Outstanding,
        _ transport: inout some Transport & ~Copyable
    ) {
        let loops = allLoops
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        settle(node, at: position, &outstanding, &messages)
        tell(messages, loops, &transport)
    }

    /// - Parameter position: the row that was just applied.
    private func settle(
        _ node: ClusterNode, at position: LogPosition, _ outstanding: inout Outstanding,
        _ messages: inout [[LoopMessage]]
    ) {
        guard let doubted = node.doubted, position.row >= doubted.row.row else { return }
        node.doubted = nil
        let isAccepted = position == doubted.row
        for (index, (request, outcome)) in zip(doubted.batch, doubted.outcomes).enumerated() {
            var left = request
            if isAccepted {
                guard case .unfinished(let rest) = outcome else {
                    answer(request, outcome, &messages)
                    continue
                }
                left = request.with(rest)
            }
            // It is another node's, which will forward it again.
            if !left.isForwarded { outstanding.add(left, reserved: UInt64(index + 1)) }
        }
    }
}
