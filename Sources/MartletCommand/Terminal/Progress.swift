// SPDX-License-Identifier: Apache-2.0
//
// A line on standard error about work of more than a second, in a terminal only. Rests on Terminal.

import Synchronization

/// The progress of one piece of work.
final class Progress: Sendable {
    private struct State {
        var began = ContinuousClock.now
        var last: ContinuousClock.Instant?
    }

    private let what: String
    private let state = Mutex(State())

    init(_ what: String) { self.what = what }

    /// Shows the finished part of the work.
    func show(_ done: Int, of total: Int) {
        show("\(done) of \(total) (\(100 * done / max(1, total)) %)")
    }

    /// Shows the state of the work, at most ten times a second, and not in the first second.
    func show(_ text: @autoclosure () -> String) {
        guard Terminal.showsProgress else { return }
        let isDue = state.withLock { state in
            let now = ContinuousClock.now
            guard now - state.began > .seconds(1) else { return false }
            if let last = state.last, now - last < .milliseconds(100) { return false }
            state.last = now
            return true
        }
        if isDue { Terminal.replaceLine("\(what): \(text())") }
    }

    /// Removes the line.
    func end() {
        if state.withLock({ $0.last != nil }) { Terminal.replaceLine("") }
    }
}

/// Runs `body`, and shows `what` if `body` takes longer than a second.
func showing<Result: Sendable>(
    _ what: String, _ body: () async throws -> Result
) async rethrows -> Result {
    guard Terminal.showsProgress else { return try await body() }
    let shown = Mutex(false)
    let ticker = Task {
        try await Task.sleep(for: .seconds(1))
        shown.withLock {
            guard !Task.isCancelled else { return }
            $0 = true
            Terminal.replaceLine(what + " …")
        }
    }
    defer {
        ticker.cancel()
        if shown.withLock({ $0 }) { Terminal.replaceLine("") }
    }
    return try await body()
}
