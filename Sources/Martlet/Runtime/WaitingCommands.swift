// SPDX-License-Identifier: Apache-2.0
//
// Commands on their way into a transaction. Everything in one transaction is durable at the same
// time, so the more one project asks for, the longer all others wait: where several ask, each gives a
// transaction a bounded part, and what is over waits for the next one, behind nobody else's. Whoever
// asks alone has the whole of it (FAN-4).
//
// A project's commands stay in their order. Those that concern connections, or no project alone, go
// first: they are few, and what an ended connection left has to be there before the next one's start.
// Rests on Requests.

import MartletBase
import MartletEngine

/// What the committer has been given and has not applied.
struct WaitingCommands {
    /// Commands in one transaction: bounds how long the first of them waits for the last.
    static let perTransactionMax = 4096
    /// Those of one project where others ask too, or fewer that take as long: some milliseconds, in which
    /// the next one's gather.
    static let perProjectMax = 16
    /// Those that belong to no project's line, likewise: connections of all projects that begin.
    static let commonMax = 256
    /// Commands of one project past which it is told to come back later. What a project's senders may
    /// have outstanding is less, unless there are many of them.
    static let waitingPerProjectMax = 16_384
    /// Transactions after which a project that no other one disturbed has them to itself.
    static let aloneAfter = 256

    private struct Line {
        var requests: [Request] = []
        var first = 0

        var count: Int { requests.count - first }

        mutating func putBack(_ rests: [Request]) {
            requests.replaceSubrange(..<first, with: rests)
            first = 0
        }

        /// Takes the first ones out that weigh no more together, one at least, unless that has to wait for
        /// acknowledgements.
        mutating func take(_ weightMax: Int, canAsk: Bool = true) -> [Request] {
            var (end, weight) = (first, 0)
            while end < requests.count, canAsk || !requests[end].command.asksWhoHas {
                weight += requests[end].command.weight
                guard weight <= weightMax || end == first else { break }
                end += 1
            }
            if first == 0, end == requests.count {
                var taken: [Request] = []
                swap(&taken, &requests)
                return taken
            }
            let taken = Array(requests[first..<end])
            first = end
            // Each is moved once on average.
            if 2 * first >= requests.count {
                requests.removeFirst(first)
                first = 0
            }
            return taken
        }
    }

    /// What belongs to no line.
    private var common = Line()
    private var lines: [LineName: Line] = [:]
    /// Commands in lines.
    private var lineCount = 0
    /// Projects with a line, whose turn it is first.
    private var order: [LineName] = []
    /// Whose the last commands were, and for how many transactions nobody else's came.
    private var last: LineName?
    private var aloneCount = WaitingCommands.aloneAfter

    /// Whether one project has had the transactions to itself for long.
    var isAlone: Bool { aloneCount >= Self.aloneAfter }

    var isEmpty: Bool { order.isEmpty && common.count == 0 }

    /// - Returns: what is refused, of projects that ask for too much.
    mutating func add(_ requests: [Request]) -> [Request] {
        var refused: [Request] = []
        for request in requests {
            guard let line = request.command.line else {
                common.requests.append(request)
                continue
            }
            let count = lines[line]?.count ?? 0
            // Where all together ask for too much, whoever asks for little is still taken.
            let isMuch = lineCount >= Committer.waitingCommandsMax
            guard count < (isMuch ? Self.perProjectMax : Self.waitingPerProjectMax) else {
                refused.append(request)
                continue
            }
            lineCount += 1
            if count == 0 {
                order.append(line)
                if line != last, last != nil { aloneCount = 0 }
                last = line
            }
            lines[line, default: Line()].requests.append(request)
        }
        return refused
    }

    /// What of a transaction's commands is not done yet goes before everything that has come since.
    mutating func putBack(_ batch: [Request], _ outcomes: [Outcome]) {
        var rests: [Request] = []
        for (request, outcome) in zip(batch, outcomes) {
            guard case .unfinished(let rest) = outcome else { continue }
            rests.append(Request(command: rest, reply: request.reply))
        }
        if !rests.isEmpty { common.putBack(rests) }
    }

    /// What goes into the next transaction.
    mutating func next() -> [Request] {
        if order.count > 1 { aloneCount = 0 }
        let isAlone = isAlone
        aloneCount = min(aloneCount + 1, Self.aloneAfter)
        let perProject = isAlone ? Self.perTransactionMax : Self.perProjectMax
        var batch = common.take(isAlone ? Self.perTransactionMax : Self.commonMax)
        var later: [LineName] = []
        for line in order {
            let room = min(perProject, Self.perTransactionMax - batch.count)
            if room > 0 {
                let taken = lines[line]!.take(room, canAsk: common.count == 0)
                lineCount -= taken.count
                batch += taken
            }
            if lines[line]!.count == 0 { lines[line] = nil } else { later.append(line) }
        }
        // Who had no place has the first one in the next transaction.
        if batch.count >= Self.perTransactionMax, let first = later.last {
            later.removeLast()
            later.insert(first, at: 0)
        }
        order = later
        return batch
    }
}

/// Which commands stay in their order.
private enum LineName: Hashable {
    case project(ProjectNumber)
    /// New devices of a project; nothing else is asked of one before it is there.
    case registrations(String)
}

extension Command {
    /// Targets that are looked up in the time of one common command.
    private static var targetsPerWeight: Int { 8 }

    /// What it takes to apply, in common commands.
    fileprivate var weight: Int {
        guard case .send(_, let message) = self, case .several(let targets) = message.target else {
            return 1
        }
        return 1 + targets.count / Self.targetsPerWeight
    }

    /// nil if it goes before what waits in lines.
    fileprivate var line: LineName? {
        switch self {
        case .register(let instance): .registrations(instance.project)
        case .send(let project, _), .changeTopic(let project, _, _, _, _),
            .changeTopics(let project, _, _, _, _), .unregister(let project, _, _),
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
