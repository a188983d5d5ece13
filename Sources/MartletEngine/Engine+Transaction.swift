// SPDX-License-Identifier: Apache-2.0
//
// Applies a transaction's commands in order. Acknowledgements in a row are applied together, in bounded steps; what is left
// goes back to the committer, which puts it into the next transaction, before anything newer. A command that depends on
// acknowledgements (`asksWhoHas`) waits for all of them.
//
// The committer may end a transaction early, because commands of other projects have come or its time is up. Then the
// project commands that weren't applied come back unchanged, and a topic change for many tokens with the tokens that are
// left. Rests on AcknowledgingBudget.

package import MartletBase
package import MartletRows

/// Acknowledgements and sent counts that a loop reports about its devices.
private typealias Taken = (acknowledgements: [Acknowledgement], sent: [SentCount])

extension Engine {
    /// Applies the commands of one transaction.
    /// - Parameters:
    ///   - commands: the commands, with the rests of earlier transactions first.
    ///   - runs: the run of the node that each command comes from; empty if all are our own (OPS-7).
    ///   - goesOn: asked before each command that may wait, and after each step of a long one. The first command is applied
    ///     without asking, so every transaction makes progress. After false the engine doesn't ask again.
    /// - Returns: the outcome of each command, in order. A refusal is an outcome.
    /// - Throws: `StorageError` if the store fails. The transaction must then be abandoned.
    package mutating func apply(
        _ commands: [Command], of runs: [UInt32] = [], now: Instant,
        in storage: borrowing Transaction, goesOn: () -> Bool = { true }
    ) throws(StorageError) -> [Outcome] {
        var budget = AcknowledgingBudget(acknowledgingBounds, for: commands)
        var outcomes: [Outcome] = []
        outcomes.reserveCapacity(commands.count)
        var together: [Taken] = []
        var (hasBegun, hasEnded) = (false, false)
        func mayGoOn() -> Bool {
            if !hasEnded { hasEnded = !goesOn() }
            return !hasEnded
        }
        invariant(runs.isEmpty || runs.count == commands.count, "Each command has a run.")
        defer { nodeRun = nil }
        for (index, command) in commands.enumerated() {
            if !runs.isEmpty { nodeRun = runs[index] }
            if case .acknowledge(let acknowledgements, let sent) = command {
                forget(command)
                together.append((acknowledgements, sent))
                continue
            }
            if !together.isEmpty {
                outcomes += try apply(together, now: now, storage, &budget)
                together.removeAll(keepingCapacity: true)
            }
            if command.mayWait {
                if hasBegun, !mayGoOn() {
                    outcomes.append(.unfinished(command))
                    continue
                }
                hasBegun = true
            }
            if command.asksWhoHas { try finish(&outcomes, now: now, storage) }
            outcomes.append(try apply(command, now: now, in: storage, goesOn: mayGoOn))
        }
        if !together.isEmpty { outcomes += try apply(together, now: now, storage, &budget) }
        invariant(outcomes.count == commands.count, "Each command has an outcome.")
        return outcomes
    }

    /// - Returns: the outcome of each element: `done`, or `unfinished` with the rest.
    private func apply(
        _ all: [Taken], now: Instant, _ storage: borrowing Transaction,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> [Outcome] {
        let rests = try storage.acknowledging.acknowledge(
            all.map(\.acknowledgements), now: now, limits: limits, &budget)
        invariant(rests.count == all.count, "Each batch of acknowledgements has a rest.")
        var outcomes: [Outcome] = []
        for (one, rest) in zip(all, rests) {
            let sentCount = budget.admitSentCounts(one.sent.count)
            try storage.reports.countSent(Array(one.sent.prefix(sentCount)), now: now)
            let sentRest = Array(one.sent.dropFirst(sentCount))
            let isDone = rest.isEmpty && sentRest.isEmpty
            outcomes.append(isDone ? .done : .unfinished(.acknowledge(rest, sent: sentRest)))
        }
        return outcomes
    }

    /// Applies what is left of earlier acknowledgements, before a command that depends on them.
    private mutating func finish(
        _ outcomes: inout [Outcome], now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) {
        for index in outcomes.indices {
            while case .unfinished(let rest) = outcomes[index], case .acknowledge = rest {
                outcomes[index] = try apply(rest, now: now, in: storage)
            }
        }
    }
}

extension Command {
    /// Whether the command can wait for a later transaction. Not if it isn't about one project, or keeps the store's view of
    /// connections true.
    fileprivate var mayWait: Bool { scope != .broker }
}
