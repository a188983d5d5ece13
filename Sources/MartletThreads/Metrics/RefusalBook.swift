// SPDX-License-Identifier: Apache-2.0
//
// Refusals by project and cause (OPS-10). Whoever refuses a request counts it here: the committer its commands, a loop what
// it refuses before a command is made, the embedding API what it throws by itself. A noisy sender is then seen in the
// metrics, in `martlet top`, in the console, and in a line of the log once a minute. Rests on MartletBase.

package import MartletBase
import Synchronization

/// The refusals of a broker since its start.
package final class RefusalBook: Sendable {
    /// Projects that are told apart, as many as a list of loads has: those with the first refusals. Further projects count
    /// together, so that the series stay bounded and never fall.
    package static let projectsMax = 1000
    /// Nanoseconds between two lines of the log.
    private static let lineNanoseconds: UInt64 = 60_000_000_000
    /// Projects and causes that a line names.
    private static let namedMax = 5

    /// In whose name a request was refused.
    package enum Owner: Hashable {
        /// A peer whose project is not known: nobody has welcomed it, or it is an administrator.
        case nobody
        case project(ProjectNumber)
        /// All projects beyond `projectsMax`.
        case others
    }

    package struct Entry {
        package var owner: Owner
        package var cause: ErrorWord
        package var count: UInt64
    }

    /// The refusals since the line before.
    package struct Line {
        package var count: UInt64
        /// The most frequent ones.
        package var entries: [Entry]
    }

    private struct State {
        var counts: [Owner: [ErrorWord: UInt64]] = [:]
        /// Whether there were refusals since the last line. The committer asks after each transaction.
        var isUntold = false
        /// The counts at the last line.
        var told: [Owner: [ErrorWord: UInt64]] = [:]
        var lastLine: UInt64?
        /// IDs of projects, which never change.
        var names: [ProjectNumber: String] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package func count(_ cause: ErrorWord, in project: ProjectNumber?) {
        state.withLock { state in
            var owner = project.map { Owner.project($0) } ?? .nobody
            if state.counts.count >= Self.projectsMax, state.counts[owner] == nil {
                owner = .others
            }
            state.counts[owner, default: [:]][cause, default: 0] += 1
            state.isUntold = true
        }
    }

    /// The counts of projects by ID.
    /// - Parameters:
    ///   - others: the name of all projects that are not told apart.
    ///   - find: reads the IDs of projects. A project whose ID cannot be read now is left out.
    package func counts(
        others: String, _ find: ([ProjectNumber]) -> [ProjectNumber: String]
    ) -> [(project: String, cause: ErrorWord, count: UInt64)] {
        let unknown = state.withLock { state in
            state.counts.keys.compactMap { owner -> ProjectNumber? in
                guard case .project(let number) = owner, state.names[number] == nil else {
                    return nil
                }
                return number
            }
        }
        let found = unknown.isEmpty ? [:] : find(unknown)
        return state.withLock { state in
            state.names.merge(found) { old, _ in old }
            var all: [(project: String, cause: ErrorWord, count: UInt64)] = []
            for (owner, causes) in state.counts {
                let name: String?
                switch owner {
                case .nobody: name = nil
                case .project(let number): name = state.names[number]
                case .others: name = others
                }
                guard let name else { continue }
                for (cause, count) in causes { all.append((name, cause, count)) }
            }
            return all
        }
    }

    /// The line that is due: at the first refusal, and a minute after the line before if there were more.
    package func takeLine(at nanoseconds: UInt64) -> Line? {
        state.withLock { state in
            guard state.isUntold else { return nil }
            if let last = state.lastLine, nanoseconds &- last < Self.lineNanoseconds { return nil }
            var entries: [Entry] = []
            for (owner, causes) in state.counts {
                for (cause, count) in causes {
                    let more = count - (state.told[owner]?[cause] ?? 0)
                    if more > 0 { entries.append(Entry(owner: owner, cause: cause, count: more)) }
                }
            }
            state.isUntold = false
            state.told = state.counts
            state.lastLine = nanoseconds
            entries.sort { $0.count > $1.count }
            return Line(
                count: entries.reduce(0) { $0 + $1.count },
                entries: Array(entries.prefix(Self.namedMax)))
        }
    }
}
