// SPDX-License-Identifier: Apache-2.0
//
// The events of projects for open pages (EMB-3). A project is watched once, however many viewers follow it, and an event is
// written as JSON once. Events gather for a quarter of a second: no event wakes a thread, and a viewer costs a few sends a
// second beside any load. Sums and a bounded number of other events go out; the rest is counted. Rests on
// ProjectWatch and EventText.

import Martlet
import Synchronization

/// The projects that viewers follow.
final class ProjectFeeds: Sendable {
    private struct State {
        var feeds: [String: ProjectFeed] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Adds a viewer of a project.
    /// - Returns: the number of the viewer, for `leave`.
    func follow(_ project: String, _ watch: ProjectWatch, _ outlet: EventOutlet) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            let feed = state.feeds[project] ?? ProjectFeed(watch)
            state.feeds[project] = feed
            feed.add(outlet, state.lastNumber)
            return state.lastNumber
        }
    }

    /// Removes a viewer. The watch of a project ends with its last viewer.
    func leave(_ project: String, _ number: UInt64) {
        state.withLock { state in
            guard let feed = state.feeds[project], feed.remove(number) else { return }
            feed.end()
            state.feeds[project] = nil
        }
    }
}

/// The events of one project, and the viewers that get them.
private final class ProjectFeed: Sendable {
    private let outlets: Outlets
    private let task: Task<Void, Never>

    init(_ watch: ProjectWatch) {
        let outlets = Outlets()
        self.outlets = outlets
        task = Task {
            let events = watch.makeAsyncIterator()
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(Limits.consoleGatherMilliseconds))
                var gathered = GatheredEvents()
                for event in events.takeWaiting() { gathered.add(event) }
                if let batch = gathered.batch { outlets.send(batch) }
            }
        }
    }

    func add(_ outlet: EventOutlet, _ number: UInt64) { outlets.change { $0[number] = outlet } }

    /// - Returns: whether no viewer is left.
    func remove(_ number: UInt64) -> Bool {
        outlets.change { outlets in
            outlets[number] = nil
            return outlets.isEmpty
        }
    }

    func end() { task.cancel() }
}

/// The viewers of a project.
private final class Outlets: Sendable {
    private let all = Mutex<[UInt64: EventOutlet]>([:])

    func change<Result: Sendable>(_ body: (inout [UInt64: EventOutlet]) -> Result) -> Result {
        all.withLock { body(&$0) }
    }

    func send(_ events: EventBatch) {
        for outlet in all.withLock({ Array($0.values) }) { outlet.send(events) }
    }
}

/// Events of a quarter of a second.
private struct GatheredEvents {
    private var text = ""
    private var count = 0
    private var leftOut = 0

    mutating func add(_ event: ProjectEvent) {
        if case .sums = event {
        } else {
            guard count < Limits.consoleProjectEventsMax else {
                leftOut += 1
                return
            }
            count += 1
        }
        let (name, data) = EventText.of(event)
        text += EventBatch.text(name, data)
    }

    /// nil: no event came.
    var batch: EventBatch? {
        guard !text.isEmpty || leftOut > 0 else { return nil }
        return EventBatch(EventBatch.leftOut(leftOut) + text, count: count + leftOut)
    }
}
