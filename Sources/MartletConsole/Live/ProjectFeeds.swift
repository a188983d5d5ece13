// SPDX-License-Identifier: Apache-2.0
//
// The events of projects for open pages (EMB-3). A project is watched once, however many viewers follow it, and an event is
// written as JSON once. Events gather for a quarter of a second, so that a viewer costs a few sends a second beside any
// load. Sums and a bounded number of other events go out; the rest is counted. Rests on ProjectWatch and EventText.

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
        let (outlets, gathered) = (Outlets(), GatheredEvents())
        self.outlets = outlets
        task = Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { for await event in watch { gathered.add(event) } }
                group.addTask {
                    while !Task.isCancelled {
                        try? await Task.sleep(
                            for: .milliseconds(Limits.consoleGatherMilliseconds))
                        if let events = gathered.take() { outlets.send(events) }
                    }
                }
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

/// Events that gather until the next send.
private final class GatheredEvents: Sendable {
    private struct State {
        var text = ""
        var count = 0
        var leftOut = 0
    }

    private let state = Mutex(State())

    func add(_ event: ProjectEvent) {
        state.withLock { state in
            if case .sums = event {
            } else {
                guard state.count < Limits.consoleProjectEventsMax else {
                    state.leftOut += 1
                    return
                }
                state.count += 1
            }
            let (name, text) = EventText.of(event)
            state.text += EventBatch.text(name, text)
        }
    }

    /// nil: no event came.
    func take() -> EventBatch? {
        let taken = state.withLock { state in
            defer { state = State() }
            return state
        }
        guard !taken.text.isEmpty || taken.leftOut > 0 else { return nil }
        return EventBatch(
            EventBatch.leftOut(taken.leftOut) + taken.text, count: taken.count + taken.leftOut)
    }
}
