// SPDX-License-Identifier: Apache-2.0
//
// Finds out whether the broker can still write (OPS-12). A check writes a row, at most one at a time and one a second, and
// says so after some time at the latest: a probe must get its answer while a disk hangs. Rests on Pulse.

import MartletBase
import MartletThreads
import Synchronization

/// The checks of a broker, and the last result.
final class WriteCheck: Sendable {
    typealias Tell = @Sendable (MartletError?) -> Void

    /// Milliseconds for which a result is valid.
    private static let validMilliseconds: Int64 = 1000

    private struct State {
        var last: (at: Int64, error: MartletError?)?
        /// When the row that is being written was handed to the committer; nil: none is.
        var began: Int64?
        var waiting: [Tell] = []
    }

    /// What a check has to do.
    enum Step {
        case told
        /// A row is being written. Wait for its result this long; after that, the answer is that none came in time.
        case wait(milliseconds: Int64)
        /// As `wait`, and the caller has the row written.
        case write(milliseconds: Int64)
    }

    private let state = Mutex(State())
    private let pulse: Pulse

    init(_ pulse: Pulse) { self.pulse = pulse }

    /// Begins a check.
    /// - Parameter tell: called once with the reason why no change is taken, now or by `finish`; nil: changes are taken.
    func begin(_ tell: @escaping Tell) -> Step {
        if let silence = pulse.silence {
            tell(MartletError(.unavailable, silence, retryDelayMilliseconds: 1000))
            return .told
        }
        let now = SystemClock.monotonicMilliseconds()
        let (result, step) = state.withLock { state -> (MartletError??, Step) in
            if let last = state.last, now - last.at < Self.validMilliseconds {
                return (.some(last.error), .told)
            }
            let isBegun = state.began != nil
            let left = state.began.map { Pulse.silentMilliseconds - pulse.waited(since: $0) }
            guard left ?? 1 > 0 else { return (.some(late(state.began)), .told) }
            state.waiting.append(tell)
            if !isBegun { state.began = now }
            let milliseconds = left ?? Pulse.silentMilliseconds
            return (
                nil,
                isBegun ? .wait(milliseconds: milliseconds) : .write(milliseconds: milliseconds)
            )
        }
        if let result { tell(result) }
        return step
    }

    /// Tells the result to all who wait.
    func finish(_ error: MartletError?) {
        let waiting = state.withLock { state in
            state.last = (SystemClock.monotonicMilliseconds(), error)
            state.began = nil
            defer { state.waiting = [] }
            return state.waiting
        }
        for tell in waiting { tell(error) }
    }

    /// The result of a check that has waited for too long.
    var late: MartletError { late(state.withLock { $0.began }) }

    private func late(_ began: Int64?) -> MartletError {
        let seconds = began.map { pulse.waited(since: $0) / 1000 } ?? 0
        return MartletError(
            .unavailable,
            pulse.silence ?? "A change has waited for \(max(seconds, 1)) s to be written.",
            retryDelayMilliseconds: 1000)
    }
}
