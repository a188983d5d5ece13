// SPDX-License-Identifier: Apache-2.0
//
// All commands of a transaction, in their order. Acknowledgements that stand together are applied
// together, in bounded steps, and what is over is told to whoever commits, for the next transaction: before
// everything that has come since. Whatever depends on who has taken which message has them done first.
//
// Whoever commits may end a transaction early, since others have begun to wait for it or its time is over.
// Then the commands of projects that have not been applied come back unchanged, and a change of a topic for
// many tokens comes back with what is left of it. Rests on AcknowledgingBudget.

public import MartletBase
public import MartletRows

/// What a loop tells of its devices.
private typealias Taken = (acknowledgements: [Acknowledgement], sent: [SentCount])

extension Engine {
    /// - Parameters:
    ///   - commands: all of one transaction's, what is left of earlier ones first.
    ///   - goesOn: asked before each command that may wait and after each step of one, but not before the
    ///     first: every transaction gets somewhere. Not asked again once it has said no.
    /// - Returns: what came of each. A refusal is an outcome; only trouble with the store throws, and
    ///   then the transaction must be abandoned.
    public mutating func apply(
        _ commands: [Command], now: Instant,
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
        for command in commands {
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
        return outcomes
    }

    /// - Returns: what came of each.
    private func apply(
        _ all: [Taken], now: Instant, _ storage: borrowing Transaction,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> [Outcome] {
        let rests = try storage.acknowledging.acknowledge(
            all.map(\.acknowledgements), now: now, limits: limits, &budget)
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

    /// What has been acknowledged is there before something asks for it.
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
    /// Whether a later transaction may apply it although it was meant for this one. What keeps the store's
    /// view of connections true does not wait, nor what concerns no project alone.
    fileprivate var mayWait: Bool {
        switch self {
        case .createProject, .changeProject, .createKey, .revokeKey, .createServiceAccount,
            .revokeServiceAccount, .acknowledge, .connected, .count, .touch:
            false
        case .register, .unregister, .unregisterToken, .changeTopics, .changeTopic, .createGroup,
            .changeGroup, .send, .rotate, .cancel, .receipt, .takeReceipts, .upstream,
            .takeUpstream:
            true
        }
    }
}
