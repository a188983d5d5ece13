// SPDX-License-Identifier: Apache-2.0
//
// What the log says about a row. Either we know, or we are in doubt, and then no client may be answered. Rests on LogError and
// Lease. Pure.

package import MartletRows

/// The answer to the active node's row.
package enum AppendOutcome: Hashable, Sendable {
    /// The log and the standby have the row.
    case accepted
    /// The log doesn't have the row and never will.
    case refused(AppendRefusal)
    /// The row may be in the log now, or get there later. Appending it again tells.
    case inDoubt(LogError)
}

/// Why a row was refused.
package enum AppendRefusal: Hashable, Sendable {
    /// Another row, of this epoch, has its number.
    case taken(epoch: UInt32)
    /// The log doesn't have its predecessor in this epoch: another node is active.
    case predecessor
    /// It wasn't sent, or the server refused and nothing has changed.
    case failed(LogError)
}

/// The answer to an epoch's first row.
package enum TakeoverOutcome: Hashable, Sendable {
    /// The log has the row, and the node is active.
    case taken
    /// Another node's lease isn't over.
    case held(Lease)
    /// The log doesn't end with the predecessor: read on and try again.
    case behind
    /// The log is unchanged.
    case failed(LogError)
    /// The takeover may have happened, or may happen later. Trying again with the same row tells, and so does reading on.
    case inDoubt(LogError)
}

/// Remembers the row that is in doubt. A second attempt may fail before it is sent, while the first still arrives: only an
/// answer from the log about the row's number ends the doubt.
package struct OpenDoubt: Sendable {
    private var position: LogPosition?

    package init() {}

    /// What an attempt's outcome means after the attempts before.
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
