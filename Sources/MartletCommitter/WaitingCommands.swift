// SPDX-License-Identifier: Apache-2.0
//
// Commands on their way into a transaction. All commands of a transaction become durable at the same time, so
// each further command of a project lengthens the wait of all other projects. A project alone has the whole
// transaction (FAN-4). Several projects share a transaction.
//
// Each project has a line, in which its commands keep their order. The cost of a command is counted in units of
// about three microseconds. A deficit round robin divides transactions by units:
//
//     several lines wait    Each line gives its share to the transaction. Units beyond the share are a
//                           debt, and each transaction forgives a part of the debt. A line in debt gives
//                           no commands. Units too few for the next command are carried over.
//     one line waits        The line gives more than a share, and all its units are a debt. If another
//                           line comes, the next transactions are short: they have little of the debtor.
//     new lines meanwhile   The new lines give their first units to the transaction in progress, which
//                           then ends: no line waits for more than one fsync and the rest of another.
//
// A change of a topic for more tokens than a line's share is cut to the units that the line gives. The rest is
// the line's first command then. Commands without a line go first: commands that concern connections, or no
// single project. They are few, and the store needs the news of an ended connection before the start of the
// next connection. Rests on Requests.

import MartletBase
package import MartletEngine
package import MartletThreads

/// Commands that the committer has got and not applied.
package struct WaitingCommands {
    /// Commands in a transaction. The bound limits the time for which the first command waits for the last.
    package static let perTransactionMax = 4096
    /// Units of a line in a transaction that several lines share: a fifth of the duration of an fsync. 64 units
    /// are 16 sends, or 64 tokens of a topic.
    package static let unitsPerLine = 64
    /// Units of a line that waits alone while other lines come now and then: as many sends as a connection
    /// mostly has outstanding, so that a burst stays together. A newcomer does not wait for all of them,
    /// because the transaction ends when a newcomer comes.
    package static let unitsOfOneMax = 1024
    /// Units of a project that has had the committer to itself for long: enough for `perTransactionMax` sends.
    package static let unitsAloneMax = Command.commonWeight * perTransactionMax
    /// Units of all lines in a transaction: some milliseconds. Lines past the bound are first in the next
    /// transaction.
    package static let unitsTogetherMax = 1024
    /// Highest debt of a line. Each transaction forgives 64 units, so the highest debt is gone after 16
    /// transactions.
    package static let debtMax = 1024
    /// Commands without a line in a transaction. Most of them are the starts of connections, of all projects.
    static let commonMax = 256
    /// Commands that a line may have while all lines together have too many commands.
    package static let fewMax = 16
    /// Commands of a project past which further commands are refused with a retry delay. Few senders do not
    /// reach the bound, because a connection has at most 1024 outstanding requests.
    package static let waitingPerProjectMax = 16_384
    /// Transactions without another project, after which a project has the committer to itself.
    package static let aloneAfter = 256

    private struct Line {
        var requests: [Request] = []
        var first = 0
        /// Commands of the line in the present transaction; nil: the line gave no commands.
        var givenCount: Int?
        /// Debt in units. A value below 0 is a credit that was carried over.
        var debt = 0

        var count: Int { requests.count - first }

        mutating func putBack(_ rests: [Request]) {
            requests.replaceSubrange(..<first, with: rests)
            first = 0
        }

        /// Takes the first commands of the line, as many as `weightMax` allows, but at least one command. A
        /// command that depends on acknowledgements stays in the line if `canAsk` is false.
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
            invariant(end <= requests.count, "A line gives its own commands.")
            var taken: [Request] = []
            if first == 0, end == requests.count {
                swap(&taken, &requests)
            } else {
                taken = Array(requests[first..<end])
                first = end
                // On average each command is moved once.
                if 2 * first >= requests.count {
                    requests.removeFirst(first)
                    first = 0
                }
            }
            if let part { taken[taken.count - 1] = part }
            return (taken, weight)
        }
    }

    /// Commands without a line.
    private var common = Line()
    private var lines: [LineName: Line] = [:]
    /// Number of commands in all lines.
    private var lineCount = 0
    /// Lines with waiting commands, in the order of their turns.
    private var order: [LineName] = []
    /// Lines that gave commands to the transaction, or are in debt.
    private var kept: [LineName] = []
    /// Units left in the transaction.
    private var unitsLeft = 0
    /// `isOfOne`: a single line has the transaction. `hasNewcomers`: other commands have come since then.
    private var isOfOne = false
    private var hasNewcomers = false
    /// `last`: the line of the last commands. `aloneCount`: transactions since another line came.
    private var last: LineName?
    private var aloneCount = WaitingCommands.aloneAfter
    /// Requests beyond a project's part, until `takeRefused` takes them.
    private var refused: [Request] = []

    package init() {}

    /// Whether a project has had the committer to itself for `aloneAfter` transactions.
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
            // While all lines together have too many commands, a line with few commands may still add commands.
            let isMuch = lineCount >= Committer.waitingCommandsMax
            guard count < (isMuch ? Self.fewMax : Self.waitingPerProjectMax) else {
                refused.append(request)
                continue
            }
            invariant(count >= 0, "A line has no fewer than no commands.")
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

    /// Takes the requests that were not added. Each request is returned once.
    package mutating func takeRefused() -> [Request] {
        guard !refused.isEmpty else { return [] }
        defer { refused = [] }
        return refused
    }

    /// OPS-7: takes all commands, between two transactions. The commands of a line keep their order.
    package mutating func takeAll() -> [Request] {
        var all = Array(common.requests[common.first...])
        for name in order {
            let line = lines[name]!
            all += line.requests[line.first...]
        }
        self = WaitingCommands()
        return all
    }

    // MARK: A transaction

    /// Takes the commands of the next transaction.
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
            // A new line gets its share even if the first line has used up the units.
            unitsLeft = Self.unitsTogetherMax
        } else if !order.isEmpty {
            let least = order.reduce(Int.max) { min($0, lines[$1]!.debt) }
            if least > 0 { forgive(least) }
            share(&batch)
        }
        return batch
    }

    /// Whether the transaction of a single line must end early, because other commands have come.
    package var mustEnd: Bool { isOfOne && hasNewcomers }

    /// Takes the commands that newcomers give to the transaction in progress.
    /// - Parameter canAsk: whether all acknowledgements of the transaction are applied.
    package mutating func joining(canAsk: Bool) -> [Request] {
        var batch: [Request] = []
        if hasNewcomers, common.count == 0 { share(&batch, canAsk: canAsk) }
        return batch
    }

    /// Puts the unfinished commands of a transaction back, before all commands that have come since.
    package mutating func putBack(_ batch: [Request], _ outcomes: [Outcome]) {
        invariant(batch.count == outcomes.count, "Each command has an outcome.")
        var commonRests: [Request] = []
        var rests: [LineName: [Request]] = [:]
        var unappliedUnits: [LineName: Int] = [:]
        var untouched: Set<LineName> = []
        var names: [LineName] = []
        for (request, outcome) in zip(batch, outcomes) {
            guard case .unfinished(let command) = outcome else { continue }
            let rest = request.with(command)
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
            // A line with no command applied has the first turn in the next transaction.
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

    /// Takes a share from each line that has given no commands, as long as the transaction has room.
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

    /// Takes commands from a line into the batch.
    /// - Parameter isShare: whether several lines share the transaction. Then the units of the share are no
    ///   debt, and unused units are carried over, because the rest of the line waits.
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
        invariant(lineCount >= 0, "The commands of all lines are counted.")
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

/// A set of commands that keep their order.
private enum LineName: Hashable {
    case project(ProjectNumber)
    /// Registrations of new devices of a project. A new device has no other commands before its registration.
    case registrations(String)

    /// Registrations do not end a project's time alone, because devices mostly register with the busy project.
    /// Registrations of another project share each transaction for which they wait.
    var isRegistrations: Bool { if case .registrations = self { true } else { false } }
}

extension Request {
    /// The part of a topic change with the next `tokenCount` tokens; nil: the command cannot be cut.
    fileprivate func part(_ tokenCount: Int) -> Request? {
        guard tokenCount > 0,
            case .changeTopic(let project, let topic, let change, let tokens, var progress) =
                command
        else { return nil }
        progress.stepMax = tokenCount
        return with(
            .changeTopic(
                project: project, topic: topic, change: change, tokens: tokens,
                progress: progress))
    }
}

extension Command {
    /// Units of the part that the next transaction applies.
    fileprivate var givenWeight: Int {
        guard case .changeTopic(_, _, _, _, let progress) = self else { return weight }
        return min(weight, progress.stepMax)
    }

    /// Units of the part that earlier transactions have applied.
    fileprivate var doneCount: Int {
        if case .changeTopic(_, _, _, _, let progress) = self { progress.doneCount } else { 0 }
    }

    /// The command's line; nil: the command goes before all lines.
    fileprivate var line: LineName? {
        switch scope {
        case .broker: nil
        case .registrations(let project): .registrations(project)
        case .project(let project): .project(project)
        }
    }
}
