// SPDX-License-Identifier: Apache-2.0
//
// The answers of a log to a row. An answer is certain or a doubt. A row in doubt is no answer to a client.
// Rests on LogError and Lease. Pure.

package import MartletRows

/// The answer to a row of the active node.
package enum AppendOutcome: Hashable, Sendable {
    /// The log and the standby have the row.
    case accepted
    /// The log does not have the row, now and later.
    case refused(AppendRefusal)
    /// The row may be in the log now or later. To append the same row again settles the fate.
    case inDoubt(LogError)
}

/// The reason of a refusal.
package enum AppendRefusal: Hashable, Sendable {
    /// Another row has the row's number; `epoch` is the epoch of the other row.
    case taken(epoch: UInt32)
    /// The log does not have the predecessor in the epoch of the row: another node is active.
    case predecessor
    /// The row was not sent, or the server has refused without a change.
    case failed(LogError)
}

/// The answer to the first row of an epoch.
package enum TakeoverOutcome: Hashable, Sendable {
    /// The log has the row, and the node is active.
    case taken
    /// The lease of another node is not over.
    case held(Lease)
    /// The log does not end with the predecessor: read on, and try again.
    case behind
    /// The log is unchanged.
    case failed(LogError)
    /// The takeover may have happened, or may happen later. A second attempt with an equal row settles
    /// the doubt, and so does reading on.
    case inDoubt(LogError)
}

/// Remembers the row whose fate is open. A second attempt may fail without having been sent, while the first attempt
/// still arrives: only an answer of the log about the row's number ends a doubt.
package struct OpenDoubt: Sendable {
    private var position: LogPosition?

    package init() {}

    /// The outcome of an attempt, in view of the attempts before.
    package mutating func judged(
        _ outcome: AppendOutcome, of row: LogPosition
    ) -> AppendOutcome {
        switch outcome {
        case .inDoubt: position = row
        case .refused(.failed(let error)):
            if position == row { return .inDoubt(error) }
        case .accepted, .refused: position = nil
        }
        return outcome
    }
}
