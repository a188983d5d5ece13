// SPDX-License-Identifier: Apache-2.0
//
// A line of the log with a count, written at most once in a while. What is counted meanwhile is told when the time is over,
// also if nothing more happens: else an operator would read the end of an attack with the beginning of the next one.
// Rests on Synchronization.

import Synchronization

/// Counts events, and tells how many there were: the first at once, later ones together.
package final class PacedLine: Sendable {
    private struct State {
        var lastTold: ContinuousClock.Instant?
        var untoldCount = 0
        var willTell = false
    }

    private let silence: Duration
    private let tell: @Sendable (Int) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - silence: the shortest time between two lines.
    ///   - tell: writes a line with the number of events since the line before. Any thread may call it.
    package init(every silence: Duration, _ tell: @escaping @Sendable (Int) -> Void) {
        self.silence = silence
        self.tell = tell
    }

    package func add(_ count: Int) {
        guard count > 0 else { return }
        let wait: Duration? = state.withLock { state in
            state.untoldCount += count
            guard !state.willTell else { return nil }
            state.willTell = true
            let next = state.lastTold.map { $0 + silence } ?? .now
            return max(.zero, next - .now)
        }
        guard let wait else { return }
        guard wait > .zero else { return tellAll() }
        Task { [weak self] in
            try? await Task.sleep(for: wait)
            self?.tellAll()
        }
    }

    private func tellAll() {
        let count = state.withLock { state in
            state.lastTold = .now
            state.willTell = false
            defer { state.untoldCount = 0 }
            return state.untoldCount
        }
        tell(count)
    }
}
