// SPDX-License-Identifier: Apache-2.0
//
// OPS-7: the commands that an active node has taken from followers in its epoch. A follower with a new link forwards
// all unanswered commands again, and the active node applies each of them once:
//
//   - A number up to the highest was taken before. Its answer is still to come, or came in a row, or came in an
//     OUTCOME that the lost link may have swallowed. Such answers are kept until the follower has them.
//   - A higher number is new to this epoch. It is not in a row of an earlier epoch either: a follower forwards after it
//     has applied all rows that the active node had at HELLO, and does not forward answered commands.
//
// A new epoch begins with an empty intake. Pure.

package import MartletWire

/// Commands of followers at the active node.
package struct ForwardIntake: Sendable {
    package enum Taking: Hashable, Sendable {
        /// The command is to be applied.
        case first
        /// The command was taken before. The answer, if the command made no row and has one.
        case again(NodeOutcome?)
    }

    private struct Process {
        var highest: UInt64
        /// Commands without an outcome.
        var openCount = 0
        /// Answers without a row, by number, until the follower has them.
        var outcomes: [UInt64: NodeOutcome] = [:]
    }

    private var processes: [UInt64: Process] = [:]
    private let openMax: Int

    /// - Parameter forwardedMax: commands that a follower has without an answer. A follower that reads the log knows
    ///   answers of a row before the active node hears of the row, and forwards further commands. So the active node
    ///   takes twice as many.
    package init(forwardedMax: Int = NodeLimits.forwardedMax) { openMax = 2 * forwardedMax }

    /// - Throws: `tooMuch` if the follower has more open commands than a follower may have.
    package mutating func take(
        _ forward: NodeForward, of process: UInt64
    ) throws(LinkFault) -> Taking {
        var known = processes[process] ?? Process(highest: 0)
        guard forward.number > known.highest else {
            return .again(known.outcomes[forward.number])
        }
        guard known.openCount < openMax, known.outcomes.count < openMax else {
            throw .tooMuch
        }
        known.highest = forward.number
        known.openCount += 1
        processes[process] = known
        return .first
    }

    /// A command's outcome is in a committed row.
    package mutating func answeredByRow(of process: UInt64) {
        processes[process]?.openCount -= 1
    }

    /// A command made no row. The answer is kept until the follower has the answer.
    package mutating func answered(_ outcome: NodeOutcome, of process: UInt64) {
        processes[process]?.openCount -= 1
        processes[process]?.outcomes[outcome.number] = outcome
    }

    /// The follower has the answer of a command.
    mutating func forget(_ number: UInt64, of process: UInt64) {
        processes[process]?.outcomes[number] = nil
    }

    /// Numbers of the answers that are kept for a process, rising.
    func kept(of process: UInt64) -> [UInt64] {
        processes[process]?.outcomes.keys.sorted() ?? []
    }

    /// The process has ended, and never forwards again.
    package mutating func end(_ process: UInt64) { processes[process] = nil }

    /// Answers that are kept for a process.
    package func keptCount(of process: UInt64) -> Int { processes[process]?.outcomes.count ?? 0 }
}
