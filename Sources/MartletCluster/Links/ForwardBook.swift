// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: the commands that a node has forwarded and not answered. The book outlives links and epochs: a command keeps
// its run and its number, goes out again over each new link, and is answered once, by a row or by an OUTCOME. An
// OUTCOME waits until the store has the rows of the answer, so a client reads its own writes. Pure.

package import MartletWire

/// Unanswered commands of a node, each with the receiver of its answer.
package struct ForwardBook<Reply> {
    /// An answer for a receiver.
    package struct Answer {
        package var reply: Reply
        package var outcome: [UInt8]
    }

    fileprivate struct Entry {
        var forward: NodeForward
        var reply: Reply
        var outcome: [UInt8]?
    }

    /// Numbers of commands without an answer and without an outcome, rising. Some are answered already.
    private var order: [UInt64] = []
    private var orderStart = 0
    private var entries: [UInt64: Entry] = [:]
    /// Outcomes that wait for rows, in the order of the rows.
    private var held: [(row: UInt64, number: UInt64)] = []
    private var next: UInt64 = 1
    private let countMax: Int

    package init(countMax: Int = NodeLimits.forwardedMax) { self.countMax = countMax }

    /// Commands without an answer.
    package var count: Int { entries.count }

    private func isWaiting(_ number: UInt64) -> Bool {
        entries[number].map { $0.outcome == nil } ?? false
    }

    /// Takes a command.
    /// - Parameter run: the run of this node's process.
    /// - Returns: the frame, to be sent if the link may forward; nil: the book is full, and the command is refused.
    package mutating func forward(
        _ command: [UInt8], run: UInt32, reply: Reply
    ) -> NodeForward? {
        guard entries.count < countMax else { return nil }
        let forward = NodeForward(run: run, number: next, command: command)
        entries[next] = Entry(forward: forward, reply: reply)
        order.append(next)
        next += 1
        return forward
    }

    /// All commands without an outcome, for a new link, in the order of their numbers.
    package mutating func again() -> [NodeForward] {
        trim()
        return order[orderStart...].compactMap { isWaiting($0) ? entries[$0]?.forward : nil }
    }

    /// An applied row has the outcome of a command of this node.
    /// - Returns: the receiver; nil: the command was answered before, or is of another process.
    package mutating func answered(run: UInt32, number: UInt64) -> Reply? {
        guard let entry = entries[number], entry.forward.run == run else { return nil }
        entries[number] = nil
        trim()
        return entry.reply
    }

    /// An outcome came over the link.
    /// - Parameter applied: the last row in the store.
    /// - Returns: the answer; nil: the answer waits for its rows, or the command was answered before.
    package mutating func received(_ outcome: NodeOutcome, applied: UInt64) -> Answer? {
        guard let entry = entries[outcome.number], entry.forward.run == outcome.run,
            entry.outcome == nil
        else { return nil }
        if outcome.row <= applied {
            entries[outcome.number] = nil
            trim()
            return Answer(reply: entry.reply, outcome: outcome.outcome)
        }
        entries[outcome.number]?.outcome = outcome.outcome
        let place = held.lastIndex { $0.row <= outcome.row }.map { $0 + 1 } ?? 0
        held.insert((outcome.row, outcome.number), at: place)
        trim()
        return nil
    }

    /// The store has the rows up to `row`.
    /// - Returns: the answers that waited for them.
    package mutating func applied(_ row: UInt64) -> [Answer] {
        let count = held.firstIndex { $0.row > row } ?? held.count
        guard count > 0 else { return [] }
        var answers: [Answer] = []
        for (_, number) in held[..<count] {
            guard let entry = entries.removeValue(forKey: number), let outcome = entry.outcome
            else { continue }
            answers.append(Answer(reply: entry.reply, outcome: outcome))
        }
        held.removeFirst(count)
        return answers
    }

    /// Takes all commands without an outcome out of the book, in the order of their numbers: this node applies them
    /// itself, or refuses them. An outcome over a link does not reach them any more, but a row of the log may have
    /// theirs, so an active node applies them under their names.
    package mutating func takeAll() -> [(forward: NodeForward, reply: Reply)] {
        let numbers = order[orderStart...].filter(isWaiting)
        order = []
        orderStart = 0
        return numbers.compactMap { number in
            entries.removeValue(forKey: number).map { ($0.forward, $0.reply) }
        }
    }

    /// Drops numbers at the beginning of the order that wait no more.
    private mutating func trim() {
        while orderStart < order.count, !isWaiting(order[orderStart]) { orderStart += 1 }
        guard orderStart > order.count / 2 else { return }
        order.removeFirst(orderStart)
        orderStart = 0
    }
}

extension ForwardBook: Sendable where Reply: Sendable {}
extension ForwardBook.Entry: Sendable where Reply: Sendable {}
extension ForwardBook.Answer: Sendable where Reply: Sendable {}
