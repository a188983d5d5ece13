// SPDX-License-Identifier: Apache-2.0
//
// Commands on their way into a transaction. Everything in one transaction is durable at the same
// time, so the more one project asks for, the longer all others wait. Whoever asks alone has the whole
// transaction (FAN-4); where several projects ask, they share it.
//
// Each project has a line, in which its commands stay in their order. What a command costs is counted in
// units of about three microseconds. A deficit round robin divides transactions by units:
//
//     several lines wait    each gives some units to the transaction. What a line gives beyond that is a
//                           debt, and with every transaction a part of the debt is forgiven. A line in
//                           debt gives nothing. What its next command does not fit into is carried over.
//     one line waits        it gives more, and all of that is debt. Whoever comes next to it has some
//                           transactions with little of the line in them, which are short.
//     new lines meanwhile   give their first units to the transaction that is being applied, which ends
//                           then: nobody waits for more than one fsync and what is left of another.
//
// A change of a topic for more tokens than a line's part is cut to what the line gives, and its rest is the
// line's first command then. Commands that concern connections, or no project alone, go first: they are few, and what
// an ended connection left has to be there before the next one's start. Rests on Requests.

import MartletBase
package import MartletEngine

/// What the committer has been given and has not applied.
package struct WaitingCommands {
    /// Commands in one transaction: bounds how long the first of them waits for the last.
    package static let perTransactionMax = 4096
    /// Units of one line where others wait too: a fifth of what its fsync takes. 16 sends, or 64 tokens of
    /// a topic.
    package static let unitsPerLine = 64
    /// Units of a line that waits alone, while others come now and then: as many sends as one connection
    /// mostly has outstanding, so that a burst stays together on its way. Whoever comes meanwhile does not
    /// wait for them, because the transaction ends then.
    package static let unitsOfOneMax = 1024
    /// Units of a project that has had the committer to itself for long: as many sends as commands.
    package static let unitsAloneMax = Command.commonWeight * perTransactionMax
    /// Units of all lines together, some milliseconds. Lines past it are first in the next transaction.
    package static let unitsTogetherMax = 1024
    /// A debt is no higher: it is forgiven within 16 transactions.
    package static let debtMax = 1024
    /// Commands without a line: connections of all projects that begin.
    static let commonMax = 256
    /// Commands that a line may have where all together ask for too much.
    package static let fewMax = 16
    /// Commands of one project past which it is told to come back later. What a project's senders may
    /// have outstanding is less, unless there are many of them.
    package static let waitingPerProjectMax = 16_384
    /// Transactions after which a project that no other one disturbed has them to itself.
    package static let aloneAfter = 256

    private struct Line {
        var requests: [Request] = []
        var first = 0
        /// Commands of the line in the present transaction; nil: the line gave nothing.
        var givenCount: Int?
        /// Units; below 0: what is carried over.
        var debt = 0

        var count: Int { requests.count - first }

        mutating func putBack(_ rests: [Request]) {
            requests.replaceSubrange(..<first, with: rests)
            first = 0
        }

        /// Takes the first ones out that weigh no more together, one at least, unless that has to wait for
        /// acknowledgements.
        /// - Returns: the commands and their weight.
        mutating func take(
            _ weightMax: Int, countMax: Int, canAsk: Bool = true
        ) -> (requests: [Request], weight: Int) {
            var (end, weight) = (first, 0)
            var part: Request?
            while end < requests.count, end - first < countMax,
                canAsk || !requests[end].command.asksWhoHas
            {
                let next = requests[end].command.weight
                if weight + next > weightMax {
                    if next > WaitingCommands.unitsPerLine {
                        part = requests[end].part(weightMax - weight)
                    }
                    if part != nil {
                        weight = weightMax
                        end += 1
                        break
                    }
                    guard end == first else { break }
                }
                weight += next
                end += 1
            }
            var taken: [Request] = []
            if first == 0, end == requests.count {
                swap(&taken, &requests)
            } else {
                taken = Array(requests[first..<end])
                first = end
                // Each is moved once on average.
                if 2 * first >= requests.count {
                    requests.removeFirst(first)
                    first = 0
                }
            }
            if let part { taken[taken.count - 1] = part }
            return (taken, weight)
        }
    }

    /// What belongs to no line.
    private var common = Line()
    private var lines: [LineName: Line] = [:]
    /// Commands in lines.
    private var lineCount = 0
    /// Lines in which commands wait, whose turn it is first.
    private var order: [LineName] = []
    /// Lines that gave something to the transaction, or are in debt.
    private var kept: [LineName] = []
    /// Units that the transaction has room for.
    private var unitsLeft = 0
    /// Whether one line has the transaction, and whether others have come since it was given to that.
    private var isOfOne = false
    private var hasNewcomers = false
    /// Whose the last commands were, and for how many transactions nobody else's came.
    private var last: LineName?
    private var aloneCount = WaitingCommands.aloneAfter
    /// What projects ask for beyond their part, until somebody tells them.
    private var refused: [Request] = []

    package init() {}

    /// Whether one project has had the transactions to itself for long.
    package var isAlone: Bool { aloneCount >= Self.aloneAfter }

    package var isEmpty: Bool { order.isEmpty && common.count == 0 }

    package mutating func add(_ requests: [Request]) {
        for request in requests {
            guard let name = request.command.line else {
                common.requests.append(request)
                hasNewcomers = true
                continue
            }
            let count = lines[name]?.count ?? 0
            // Where all together ask for too much, whoever asks for little is still taken.
            let isMuch = lineCount >= Committer.waitingCommandsMax
            guard count < (isMuch ? Self.fewMax : Self.waitingPerProjectMax) else {
                refused.append(request)
                continue
            }
            lineCount += 1
            if count == 0 {
                order.append(name)
                if !name.isRegistrations {
                    if name != last, last != nil { aloneCount = 0 }
                    last = name
                }
                if lines[name]?.givenCount == nil { hasNewcomers = true }
            }
            lines[name, default: Line()].requests.append(request)
        }
    }

    /// What was not added, once.
    package mutating func takeRefused() -> [Request] {
        guard !refused.isEmpty else { return [] }
        defer { refused = [] }
        return refused
    }

    // MARK: A transaction

    /// What goes into the next transaction.
    package mutating func next() -> [Request] {
        if order.count > 1 { aloneCount = 0 }
        let isAlone = isAlone
        aloneCount = min(aloneCount + 1, Self.aloneAfter)
        forgive(Self.unitsPerLine)
        let countMax = isAlone ? Self.perTransactionMax : Self.commonMax
        var batch = common.take(Command.commonWeight * countMax, countMax: countMax).requests
        hasNewcomers = false
        unitsLeft = Self.unitsTogetherMax
        isOfOne = order.count == 1
        if isOfOne {
            give(
                order[0], isAlone ? Self.unitsAloneMax : Self.unitsOfOneMax, isShare: false, &batch)
            order = order.filter { lines[$0]!.count > 0 }
            // A new line's part is due also where the first line used up the units.
            unitsLeft = Self.unitsTogetherMax
        } else if !order.isEmpty {
            let least = order.reduce(Int.max) { min($0, lines[$1]!.debt) }
            if least > 0 { forgive(least) }
            share(&batch)
        }
        return batch
    }

    /// Whether a transaction of one line ends as soon as it can, for somebody else has come.
    package var mustEnd: Bool { isOfOne && hasNewcomers }

    /// What newcomers give to the transaction that is being applied.
    /// - Parameter canAsk: whether all acknowledgements of the transaction are applied.
    package mutating func joining(canAsk: Bool) -> [Request] {
        var batch: [Request] = []
        if hasNewcomers, common.count == 0 { share(&batch, canAsk: canAsk) }
        return batch
    }

    /// What of a transaction's commands is not done yet goes before everything that has come since.
    package mutating func putBack(_ batch: [Request], _ outcomes: [Outcome]) {
        var commonRests: [Request] = []
        var rests: [LineName: [Request]] = [:]
        var unappliedUnits: [LineName: Int] = [:]
        var untouched: Set<LineName> = []
        var names: [LineName] = []
        for (request, outcome) in zip(batch, outcomes) {
            guard case .unfinished(let command) = outcome else { continue }
            let rest = Request(command: command, reply: request.reply)
            guard let name = command.line else {
                commonRests.append(rest)
                continue
            }
            let appliedUnits = command.doneCount - request.command.doneCount
            if rests[name] == nil {
                names.append(name)
                if appliedUnits == 0 { untouched.insert(name) }
            }
            rests[name, default: []].append(rest)
            unappliedUnits[name, default: 0] += request.command.givenWeight - appliedUnits
        }
        if !commonRests.isEmpty { common.putBack(commonRests) }
        var first: [LineName] = []
        for name in names {
            let rests = rests[name]!
            if lines[name]!.count > 0 { order.removeAll { $0 == name } }
            // Whoever did not come to its turn has the first one in the next transaction.
            if untouched.contains(name), rests.count == lines[name]!.givenCount {
                first.append(name)
            } else {
                order.append(name)
            }
            lines[name]!.putBack(rests)
            lines[name]!.debt = max(0, lines[name]!.debt - unappliedUnits[name]!)
            lineCount += rests.count
        }
        order.insert(contentsOf: first, at: 0)
        kept = kept.filter { name in
            lines[name]!.givenCount = nil
            lines[name]!.debt = min(lines[name]!.debt, Self.debtMax)
            let line = lines[name]!
            if line.count == 0, line.debt <= 0 { lines[name] = nil }
            return line.debt > 0
        }
    }

    /// Lines that have given nothing yet give their part, as long as there is room.
    private mutating func share(_ batch: inout [Request], canAsk: Bool = true) {
        var (unserved, served): ([LineName], [LineName]) = ([], [])
        for name in order {
            let mayGive =
                unitsLeft > 0 && batch.count < Self.perTransactionMax
                && lines[name]!.debt <= 0 && lines[name]!.givenCount == nil
            if mayGive {
                give(
                    name, Self.unitsPerLine - lines[name]!.debt, isShare: true, canAsk: canAsk,
                    &batch)
                if lines[name]!.count > 0 { served.append(name) }
            } else {
                unserved.append(name)
            }
        }
        order = unserved + served
    }

    /// - Parameter isShare: what a line gives in a transaction of several costs it nothing up to its part,
    ///   and what it did not need of that is carried over, since the rest of it waits.
    private mutating func give(
        _ name: LineName, _ units: Int, isShare: Bool, canAsk: Bool = true, _ batch: inout [Request]
    ) {
        let (taken, weight) = lines[name]!.take(
            units, countMax: Self.perTransactionMax - batch.count,
            canAsk: canAsk && common.count == 0)
        guard !taken.isEmpty else { return }
        let wasInDebt = lines[name]!.debt > 0
        lines[name]!.givenCount = taken.count
        lines[name]!.debt += weight - (isShare ? Self.unitsPerLine : 0)
        if lines[name]!.count == 0 { lines[name]!.debt = max(0, lines[name]!.debt) }
        if !wasInDebt { kept.append(name) }
        lineCount -= taken.count
        unitsLeft -= weight
        batch += taken
    }

    private mutating func forgive(_ units: Int) {
        kept = kept.filter { name in
            lines[name]!.debt = max(0, lines[name]!.debt - units)
            let line = lines[name]!
            if line.debt > 0 { return true }
            if line.count == 0 { lines[name] = nil }
            return false
        }
    }
}

/// Which commands stay in their order.
private enum LineName: Hashable {
    case project(ProjectNumber)
    /// New devices of a project; nothing else is asked of one before it is there.
    case registrations(String)

    /// Registrations do not end a project's time alone, because devices mostly register with the busy
    /// project. Registrations of another project share each transaction for which they wait.
    var isRegistrations: Bool { if case .registrations = self { true } else { false } }
}

extension Request {
    /// A change of a topic that is cut to some tokens; nil: it is nothing that can be cut.
    fileprivate func part(_ tokenCount: Int) -> Request? {
        guard tokenCount > 0,
            case .changeTopic(let project, let topic, let change, let tokens, var progress) =
                command
        else { return nil }
        progress.stepMax = tokenCount
        return Request(
            command: .changeTopic(
                project: project, topic: topic, change: change, tokens: tokens,
                progress: progress),
            reply: reply)
    }
}

extension Command {
    /// Units of a command that writes some rows.
    fileprivate static var commonWeight: Int { 4 }

    /// What it takes to apply, in units. A token of a topic's change is one unit, and so are two targets of
    /// a message that names several.
    fileprivate var weight: Int {
        switch self {
        case .changeTopic(_, _, _, let tokens, let progress):
            max(1, tokens.count - progress.doneCount)
        case .changeTopics(_, _, _, let topics, _): Self.commonWeight + topics.count
        case .send(_, let message):
            if case .several(let targets) = message.target {
                Self.commonWeight + targets.count / 2
            } else {
                Self.commonWeight
            }
        case .createGroup(_, _, _, let tokens), .changeGroup(_, _, _, _, let tokens):
            Self.commonWeight + tokens.count
        default: Self.commonWeight
        }
    }

    /// Units of what the next transaction applies of it.
    fileprivate var givenWeight: Int {
        guard case .changeTopic(_, _, _, _, let progress) = self else { return weight }
        return min(weight, progress.stepMax)
    }

    /// Units that earlier transactions have applied of it.
    fileprivate var doneCount: Int {
        if case .changeTopic(_, _, _, _, let progress) = self { progress.doneCount } else { 0 }
    }

    /// nil if it goes before what waits in lines.
    fileprivate var line: LineName? {
        switch self {
        case .register(let instance): .registrations(instance.project)
        case .send(let project, _), .changeTopic(let project, _, _, _, _),
            .changeTopics(let project, _, _, _, _), .unregister(let project, _, _),
            .unregisterToken(let project, _),
            .rotate(let project, _, _, _), .cancel(let project, _),
            .receipt(let project, _, _, _, _), .takeReceipts(let project, _),
            .takeUpstream(let project, _),
            .createGroup(let project, _, _, _), .changeGroup(let project, _, _, _, _):
            .project(project)
        case .upstream(let message): .project(message.project)
        default: nil
        }
    }
}
