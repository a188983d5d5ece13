// SPDX-License-Identifier: Apache-2.0
//
// The committer tells what a transaction has done: outcomes to the callers, and news and messages of devices to the loops.
// Everything of a batch goes to a loop at once, with one wake-up. Rests on Committer and News.

import Logging
package import MartletBase
package import MartletEngine
import MartletRows
import MartletStore
package import MartletThreads
package import MartletTransport
import Synchronization

extension Committer {
    static func acknowledged(
        _ batch: UInt64, _ command: Command, _ outcome: Outcome
    ) -> LoopMessage {
        guard case .refused = outcome, case .acknowledge(let lost, _) = command else {
            return .acknowledged(batch: batch, areStored: true, again: [])
        }
        return .acknowledged(
            batch: batch, areStored: false,
            again: lost.filter { $0.departure != nil || $0.arrival != nil })
    }

    /// Hands the outcomes of a batch to the callers and the loops.
    package func publish(
        _ batch: [Request], _ done: Committed, _ transport: inout some Transport & ~Copyable,
        on log: (any CommitLog)? = nil
    ) {
        invariant(batch.count == done.outcomes.count, "Each command has an outcome.")
        let loops = allLoops
        var messages = [[LoopMessage]](repeating: [], count: loops.count)
        func tellAll(_ message: LoopMessage) {
            for index in messages.indices { messages[index].append(message) }
        }
        let now = clock()
        var receipts: Set<ProjectNumber> = []
        let isWatched = watches.isWatched
        var told = OutcomeNews()
        func spread(_ outcome: Outcome, of request: Request? = nil) {
            told.loops.removeAll(keepingCapacity: true)
            told.upstream.removeAll(keepingCapacity: true)
            told.add(outcome, of: request?.command)
            // A message's variants share their progress.
            if case .fanout(let fanout)? = told.loops.first {
                begin(fanout.progress, loops: loops.count, at: now)
            }
            for change in told.upstream {
                switch change {
                case .accepted(let acceptance): upstream.accepted(acceptance)
                case .taken(let project, let numbers): upstream.taken(numbers, in: project)
                }
            }
            for news in told.loops {
                note(news)
                switch news {
                case .receipts(let project): receipts.insert(project)
                // NET-4: this node's loops have told each other.
                case .connected where request?.isForwarded != true: break
                case .fanout, .weight, .connected, .disconnect, .cancel, .revoked:
                    tellAll(.news(news))
                }
            }
        }
        func tellOwn(_ outcomes: [Outcome]) {
            for outcome in outcomes {
                spread(outcome)
                if isWatched, case .accepted(_, let fanouts) = outcome { watches.began(fanouts) }
            }
        }
        tellOwn(done.own)
        var later = done.laterOwn[...]
        for (index, (request, outcome)) in zip(batch, done.outcomes).enumerated() {
            while let next = later.first, next.before <= index {
                later.removeFirst()
                tellOwn(next.outcomes)
            }
            // The caller is told when the rest of the command is done.
            if case .unfinished = outcome { continue }
            spread(outcome, of: request)
            if case .accepted = outcome, request.command.keepsMessage {
                acceptedCount.add(1, ordering: .relaxed)
            }
            if isWatched { watches.applied(request.command, outcome) }
            if !done.isLogged { log?.answer(request, outcome) }
            answer(request, outcome, &messages)
        }
        for rest in later { tellOwn(rest.outcomes) }
        bridges.tell(told.door)
        for project in receipts { tellAll(.news(.receipts(project))) }
        for handing in handOutUpstream(now) {
            switch handing.destination {
            case .loop(let loop):
                messages[loop].append(.upstream(handing.listener, handing.messages))
            case .caller(let tell), .node(let tell): tell(handing.messages)
            }
        }
        tell(messages, loops, &transport)
    }

    /// Takes the news that is for this process itself.
    package func note(_ news: News) {
        switch news {
        case .weight(let project, let weight): book.setWeight(weight, of: project)
        case .revoked(let keyID): revocations.revoked(keyID)
        case .fanout, .connected, .disconnect, .cancel, .receipts: break
        }
    }

    /// Begins to count a fanout.
    /// - Parameters:
    ///   - loops: how many loops hear of it.
    ///   - isForNodes: whether other nodes do.
    package func begin(
        _ progress: FanoutProgress?, loops: Int, isForNodes: Bool = true, at now: Instant
    ) {
        guard let progress else { return }
        if isForNodes, let node {
            node.begin(progress, loops: loops, at: now)
        } else {
            progress.begin(loops: loops, at: now)
        }
    }

    /// OPS-10: counts a refused command.
    package func noteRefusal(of command: Command, _ error: MartletError) {
        switch command.scope {
        case .project(let number): metrics.refused(error, in: number)
        case .registrations(let id): metrics.refused(error, in: number(of: id))
        case .broker: metrics.refused(error, in: nil)
        }
    }

    /// The number of a project that a peer names; nil: there is none.
    package func number(of id: String) -> ProjectNumber? {
        try? store.read { (transaction) throws in
            try Authentication.project(id: id, in: transaction).number
        }
    }

    /// OPS-10: tells the log once a minute what was refused.
    func tellRefusals(_ nanoseconds: UInt64) {
        guard let line = metrics.refusalBook.takeLine(at: nanoseconds) else { return }
        let most = line.entries.map { entry in
            let told = "\(entry.count) \(entry.cause.name)"
            switch entry.owner {
            case .nobody: return told
            case .others: return told + " in other projects"
            case .project(let number):
                let project = try? store.read { (transaction) throws in
                    try transaction.projects.project(number)
                }
                return told + " in " + (project.map(\.id) ?? "project \(number.rawValue)")
            }
        }
        logger.notice(
            "requests were refused",
            metadata: ["count": "\(line.count)", "most": "\(most.joined(separator: ", "))"])
    }

    /// Tells the receiver of an outcome. The node that tells the client counts a refusal.
    /// - Parameter messages: by loop, the messages to be told.
    package func answer(_ request: Request, _ outcome: Outcome, _ messages: inout [[LoopMessage]]) {
        if case .refused(let error) = outcome {
            if !request.isForwarded { noteRefusal(of: request.command, error) }
        }
        switch request.reply {
        case .connection(let loop, let connection, let context):
            messages[loop].append(.outcome(connection, context, outcome))
        case .caller(let tell): tell(outcome)
        case .counting:
            if case .refused = outcome, case .count(let days) = request.command {
                nowOrNeverSending.counts.giveBack(days)
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
        case .node: break
        }
    }

    /// Hands messages to the loops.
    package func tell(
        _ messages: [[LoopMessage]], _ loops: [LoopHandle],
        _ transport: inout some Transport & ~Copyable
    ) {
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

    /// UPS-1: hands messages of devices to listeners with room.
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

extension Command {
    /// Whether an accepted command is a message. A message that is only checked is none (MSG-7).
    fileprivate var keepsMessage: Bool {
        if case .send(_, let message) = self { !message.validateOnly } else { false }
    }
}
