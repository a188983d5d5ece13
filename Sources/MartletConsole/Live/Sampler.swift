// SPDX-License-Identifier: Apache-2.0
//
// The broker's figures once a second, and those of the last ten minutes (GW-9). All viewers share a sample: its JSON is
// written once. Rests on StatusAnswer.

import Martlet
import MartletAnswers
import Synchronization

/// The broker's figures at an instant.
struct Sample: Sendable {
    /// The whole sample as JSON, for persons of all projects.
    private let whole: String
    private let now: Int64
    private let projects: [StatusAnswer.Project]
    private let refusals: [StatusAnswer.ProjectRefusals]

    init(_ status: StatusAnswer, accepted: UInt64, acceptedPerSecond: Double) {
        now = status.now
        projects = status.projects
        refusals = status.projectRefusals
        var shown = status
        shown.projects = Array(status.projects.prefix(Limits.consoleProjectsPerEventMax))
        shown.projectRefusals = Array(
            status.projectRefusals.prefix(Limits.consoleProjectsPerEventMax))
        whole = JSON.line(
            Whole(
                status: shown, accepted: accepted, acceptedPerSecond: acceptedPerSecond,
                projectsLeftOut: status.projects.count - shown.projects.count,
                alerts: Alert.all(in: status)))
    }

    private struct Whole: Encodable {
        var status: StatusAnswer
        var accepted: UInt64
        var acceptedPerSecond: Double
        /// Projects that the sample does not name.
        var projectsLeftOut: Int
        var alerts: [Alert]
    }

    private struct Part: Encodable {
        struct Status: Encodable {
            var now: Int64
            var projects: [StatusAnswer.Project]
            var projectRefusals: [StatusAnswer.ProjectRefusals]
        }

        var status: Status
    }

    /// The JSON that a person may see.
    func text(for person: Person) -> String {
        guard let own = person.project else { return whole }
        return JSON.line(
            Part(
                status: .init(
                    now: now, projects: projects.filter { $0.project == own },
                    projectRefusals: refusals.filter { $0.project == own })))
    }
}

/// The figures of a second, for the plots.
struct HistoryPoint: Encodable, Sendable {
    /// Milliseconds since 1970.
    var at: Int64
    var connections: UInt64
    var deliveriesPerSecond: Double
    var acceptedPerSecond: Double
    /// Seconds; nil: there was no transaction.
    var commit50: Double?
    var commit99: Double?
    /// Seconds; nil: no message to many began.
    var firstDelivery99: Double?
    var memoryBytes: UInt64?
    var storeBytes: UInt64
}

/// Looks at the broker once a second.
final class Sampler: Sendable {
    private struct State {
        var latest: Sample
        var history: [HistoryPoint] = []
        var waiters: [UInt64: AsyncStream<Sample>.Continuation] = [:]
        var lastWaiter: UInt64 = 0
        var isEnded = false
    }

    private let broker: Broker
    private let state: Mutex<State>

    init(_ broker: Broker) {
        self.broker = broker
        let status = StatusAnswer(BrokerStatus(now: broker.now), MetricsReading(""))
        state = Mutex(State(latest: Sample(status, accepted: 0, acceptedPerSecond: 0)))
    }

    var latest: Sample { state.withLock { $0.latest } }
    var history: [HistoryPoint] { state.withLock { $0.history } }

    /// The samples from now on; the last sample alone for a slow reader.
    func samples() -> AsyncStream<Sample> {
        let (stream, continuation) = AsyncStream<Sample>.makeStream(
            bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state -> UInt64? in
            guard !state.isEnded else { return nil }
            state.lastWaiter += 1
            state.waiters[state.lastWaiter] = continuation
            continuation.yield(state.latest)
            return state.lastWaiter
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { state in _ = state.waiters.removeValue(forKey: number) }
        }
        return stream
    }

    /// Returns when the task is cancelled. The streams of samples end then.
    func run() async {
        var before: (status: StatusAnswer, accepted: UInt64)?
        while !Task.isCancelled {
            if let status = try? await broker.status() {
                let now = StatusAnswer(status, MetricsReading(broker.metricsText))
                let accepted = broker.statistics.acceptedCount
                if let before { take(now.after(before.status), accepted, since: before) }
                before = (now, accepted)
            }
            try? await Task.sleep(for: .seconds(1))
        }
        let waiters = state.withLock { state in
            state.isEnded = true
            defer { state.waiters = [:] }
            return state.waiters.values.map { $0 }
        }
        for waiter in waiters { waiter.finish() }
    }

    private func take(
        _ status: StatusAnswer, _ accepted: UInt64,
        since before: (status: StatusAnswer, accepted: UInt64)
    ) {
        let seconds = Double(max(status.now - before.status.now, 1)) / 1000
        let rate = Double(accepted - min(accepted, before.accepted)) / seconds
        let sample = Sample(status, accepted: accepted, acceptedPerSecond: rate)
        let point = HistoryPoint(
            at: status.now, connections: status.connections,
            deliveriesPerSecond: status.deliveriesPerSecond, acceptedPerSecond: rate,
            commit50: status.commit.p50, commit99: status.commit.p99,
            firstDelivery99: status.firstDelivery.p99, memoryBytes: status.allocatedBytes,
            storeBytes: status.storeBytes)
        let waiters = state.withLock { state in
            state.latest = sample
            if state.history.count >= Limits.consoleHistorySeconds { state.history.removeFirst() }
            state.history.append(point)
            return state.waiters.values.map { $0 }
        }
        for waiter in waiters { waiter.yield(sample) }
    }
}
