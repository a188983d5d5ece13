// SPDX-License-Identifier: Apache-2.0
//
// All commands of a transaction, in their order. Acknowledgements that stand together are applied
// together, in bounded steps, and what is over is told to whoever commits, for the next transaction: before
// everything that has come since. Whatever depends on who has taken which message has them done first.
// Rests on AcknowledgingBudget.

public import MartletBase

/// What a loop tells of its devices.
private typealias Taken = (acknowledgements: [Acknowledgement], sent: [SentCount])

extension Engine {
    /// - Parameter commands: all of one transaction's, what is left of earlier ones first.
    /// - Returns: what came of each. A refusal is an outcome; only trouble with the store throws, and
    ///   then the transaction must be abandoned.
    public mutating func apply(
        _ commands: some Collection<Command>, now: Instant,
        in storage: borrowing some StorageWriter & ~Copyable
    ) throws(StorageError) -> [Outcome] {
        var budget = AcknowledgingBudget(acknowledgingBounds, for: commands)
        var outcomes: [Outcome] = []
        outcomes.reserveCapacity(commands.count)
        var together: [Taken] = []
        for command in commands {
            if case .acknowledge(let acknowledgements, let sent) = command {
                forget(command)
                together.append((acknowledgements, sent))
                continue
            }
            outcomes += try apply(together, now: now, storage, &budget)
            together.removeAll(keepingCapacity: true)
            if command.asksWhoHas { try finish(&outcomes, now: now, storage) }
            outcomes.append(try apply(command, now: now, in: storage))
        }
        return outcomes + (try apply(together, now: now, storage, &budget))
    }

    /// - Returns: what came of each.
    private func apply(
        _ all: [Taken], now: Instant, _ storage: borrowing some StorageWriter & ~Copyable,
        _ budget: inout AcknowledgingBudget
    ) throws(StorageError) -> [Outcome] {
        guard !all.isEmpty else { return [] }
        let rests = try storage.acknowledge(
            all.map(\.acknowledgements), now: now, limits: limits, &budget)
        var outcomes: [Outcome] = []
        for (one, rest) in zip(all, rests) {
            let sentCount = budget.admitSentCounts(one.sent.count)
            try storage.countSent(Array(one.sent.prefix(sentCount)), now: now)
            let sentRest = Array(one.sent.dropFirst(sentCount))
            let isDone = rest.isEmpty && sentRest.isEmpty
            outcomes.append(isDone ? .done : .unfinished(.acknowledge(rest, sent: sentRest)))
        }
        return outcomes
    }

    /// What has been acknowledged is there before something asks for it.
    private mutating func finish(
        _ outcomes: inout [Outcome], now: Instant,
        _ storage: borrowing some StorageWriter & ~Copyable
    ) throws(StorageError) {
        for index in outcomes.indices {
            while case .unfinished(let rest) = outcomes[index] {
                outcomes[index] = try apply(rest, now: now, in: storage)
            }
        }
    }
}
