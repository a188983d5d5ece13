// SPDX-License-Identifier: Apache-2.0
//
// A project's quotas: changes of subscriptions (TOP-6, QUO-4), connections of senders (QUO-3), messages from devices (QUO-2)
// and registrations (REG-8). They are only in memory, so a broker starts with full buckets. For changes and registrations
// a project may have its own rate. The caller names it, and if the rate has changed, a full bucket replaces the old one.
//
// The engine takes from the quotas in transactions that may fail, loops count connections, and other threads ask what is
// left. The lock is taken once per request or connection, never for a message to devices. Rests on TokenBucket.

package import MartletBase
import Synchronization

/// What is left of a quota.
package struct QuotaAmount: Sendable, Hashable {
    /// The name of the limit in a broker's configuration.
    package var name: String
    /// The whole quota.
    package var limit: UInt64
    /// What the project can take now.
    package var remaining: UInt64
    /// Milliseconds until all of it is back if no more is taken; nil if nobody can tell.
    package var untilFullMilliseconds: UInt64?
}

/// The quotas of all projects. A broker has one value.
package final class ProjectQuotas: Sendable {
    private struct Project {
        var topicChanges: TokenBucket?
        var upstream: TokenBucket?
        var registrations: TokenBucket?
        var newConnections: TokenBucket?
        var connections = 0
    }

    private struct State {
        var projects: [ProjectNumber: Project] = [:]
        /// The buckets that this transaction took from, as they were before; nil if it was full.
        var before: [ProjectNumber: Project] = [:]

        mutating func keepBefore(_ project: ProjectNumber) {
            guard before[project] == nil else { return }
            before[project] = projects[project] ?? Project()
        }
    }

    /// Retry delay in milliseconds while too many sender connections are open. Nobody can tell when one will close.
    private static let connectionsFullMilliseconds: UInt64 = 1000

    private let limitsInForce: Mutex<BrokerLimits>
    private var limits: BrokerLimits { limitsInForce.withLock { $0 } }
    private let state = Mutex(State())

    /// The nodes that share the limits on connections; nil for a lone broker (OPS-7).
    private let nodes: ShareCount?

    /// Makes quotas with full buckets, because the quotas are not stored.
    package init(_ limits: BrokerLimits = BrokerLimits(), nodes: ShareCount? = nil) {
        limitsInForce = Mutex(limits)
        self.nodes = nodes
    }

    private func part(of limit: Int) -> Int { nodes?.part(of: limit) ?? limit }

    /// Changes the limits, between two transactions (OPS-11). The buckets of a changed rate are full again.
    func change(limits new: BrokerLimits) {
        let old = limits
        limitsInForce.withLock { $0 = new }
        state.withLock { state in
            for project in state.projects.keys {
                if new.upstreamPerMinute != old.upstreamPerMinute {
                    state.projects[project]?.upstream = nil
                }
                if new.senderConnectionsPerMinute != old.senderConnectionsPerMinute {
                    state.projects[project]?.newConnections = nil
                }
            }
        }
    }

    // MARK: Changes of subscriptions

    /// Takes changes of subscriptions from a project's bucket: all `count` of them, or none.
    /// - Parameter perSecond: the project's quota; 0 if unlimited.
    /// - Throws: `MartletError` with a retry delay if the bucket hasn't enough.
    func takeTopicChanges(
        _ count: Int, in project: ProjectNumber, perSecond: Int, at now: Instant
    ) throws(MartletError) {
        let delay = take(count, from: \.topicChanges, of: project, perSecond: perSecond, at: now)
        guard delay > 0 else { return }
        throw .exhausted(
            """
            The project's subscriptions may change \(perSecond) times in a second \
            (topic-changes-per-second); nothing of this request was applied. Repeat it later. The \
            broker's operator sets the quota: --limit topic-changes-per-second=N of 'martlet serve', \
            or of 'martlet project set' for this project.
            """, field: "topic", after: delay)
    }

    /// Takes from a bucket that is full again after a second.
    /// - Returns: 0 if `count` was taken, otherwise the milliseconds until it makes sense to try again.
    private func take(
        _ count: Int, from bucket: WritableKeyPath<Project, TokenBucket?>,
        of project: ProjectNumber, perSecond: Int, at now: Instant
    ) -> UInt64 {
        guard perSecond > 0 else { return 0 }
        return state.withLock { state in
            state.keepBefore(project)
            var mine =
                state.projects[project]?[keyPath: bucket].ofRate(perSecond)
                ?? TokenBucket(count: perSecond, milliseconds: 1000, at: now)
            let delay = mine.take(count, at: now)
            state.projects[project, default: Project()][keyPath: bucket] = mine
            return delay
        }
    }

    /// Notes that all amounts taken since the last call of `committed` or `abandon` are final.
    func committed() { state.withLock { $0.before.removeAll(keepingCapacity: true) } }

    /// Gives back all amounts taken since the last call of `committed` or `abandon`.
    func abandon() {
        state.withLock { state in
            for (project, before) in state.before {
                state.projects[project]?.topicChanges = before.topicChanges
                state.projects[project]?.upstream = before.upstream
                state.projects[project]?.registrations = before.registrations
            }
            state.before.removeAll(keepingCapacity: true)
        }
    }

    // MARK: Registrations

    /// Takes the registration of a new device from a project's bucket (REG-8).
    /// - Parameter perSecond: the project's quota; 0: unlimited.
    /// - Throws: `MartletError` with a retry delay if the bucket is empty.
    func takeRegistration(
        in project: ProjectNumber, perSecond: Int, at now: Instant
    ) throws(MartletError) {
        let delay = take(1, from: \.registrations, of: project, perSecond: perSecond, at: now)
        guard delay > 0 else { return }
        throw .exhausted(
            """
            The project registers at most \(perSecond) devices in a second \
            (registrations-per-second). Try again later.
            """, field: "project", after: delay)
    }

    // MARK: Messages of devices

    /// Checks that the project's bucket has a message left, without taking it (QUO-2). Only the committer takes any, so it
    /// will still be there.
    func checkUpstream(in project: ProjectNumber, at now: Instant) throws(MartletError) {
        let perMinute = limits.upstreamPerMinute
        guard perMinute > 0 else { return }
        let delay = state.withLock { state in
            var bucket = state.projects[project]?.upstream
            return bucket?.take(at: now) ?? 0
        }
        guard delay > 0 else { return }
        throw .exhausted(
            """
            The project's devices send at most \(perMinute) messages a minute \
            (upstream-per-minute). Send again later.
            """, field: "message", after: delay)
    }

    /// Takes a message, after `checkUpstream` (QUO-2).
    func takeUpstream(in project: ProjectNumber, at now: Instant) {
        let perMinute = limits.upstreamPerMinute
        guard perMinute > 0 else { return }
        state.withLock { state in
            state.keepBefore(project)
            var bucket =
                state.projects[project]?.upstream
                ?? TokenBucket(count: perMinute, milliseconds: 60_000, at: now)
            _ = bucket.take(at: now)
            state.projects[project, default: Project()].upstream = bucket
        }
    }

    // MARK: Connections of senders

    /// Counts an authenticated sender's connection, from now until `senderLeft` (QUO-3).
    /// - Throws: `MartletError` with a retry delay if it is refused, in which case it isn't counted.
    package func senderConnects(
        to project: ProjectNumber, at now: Instant
    ) throws(MartletError) {
        let limits = limits
        let perMinute = part(of: limits.senderConnectionsPerMinute)
        let max = part(of: limits.senderConnectionsMax)
        enum Answer {
            case taken
            case tooMany
            case tooFast(milliseconds: UInt64)
        }
        let answer: Answer = state.withLock { state in
            var mine = state.projects[project] ?? Project()
            guard max == 0 || mine.connections < max else { return .tooMany }
            if perMinute > 0 {
                var bucket =
                    mine.newConnections.ofRate(perMinute)
                    ?? TokenBucket(count: perMinute, milliseconds: 60_000, at: now)
                let delay = bucket.take(at: now)
                mine.newConnections = bucket
                guard delay == 0 else {
                    state.projects[project] = mine
                    return .tooFast(milliseconds: delay)
                }
            }
            invariant(mine.connections >= 0, "No project has fewer than no connections.")
            mine.connections += 1
            state.projects[project] = mine
            return .taken
        }
        switch answer {
        case .taken: return
        case .tooMany:
            throw .exhausted(
                """
                The project's senders have \(max) connections open (sender-connections-max); close \
                one, or send more over each.
                """, field: "connections", after: Self.connectionsFullMilliseconds)
        case .tooFast(let delay):
            throw .exhausted(
                """
                The project's senders may open \(perMinute) connections in a minute \
                (sender-connections-per-minute); keep them open, and send more over each.
                """, field: "connections", after: delay)
        }
    }

    /// A connection that was not refused is closed (QUO-3).
    package func senderLeft(_ project: ProjectNumber) {
        state.withLock { state in
            let count = state.projects[project]?.connections ?? 0
            invariant(count > 0, "A connection of a sender that ends was counted.")
            state.projects[project]?.connections = count - 1
        }
    }

    // MARK: Questions

    /// The quotas of changes that are not full, the emptiest first.
    package func counted(
        at now: Instant, limit: Int
    ) -> [(project: ProjectNumber, quota: CountedQuota, left: QuotaLeft)] {
        let projects = state.withLock { $0.projects }
        var all: [(project: ProjectNumber, quota: CountedQuota, left: QuotaLeft)] = []
        for (number, project) in projects {
            for quota in CountedQuota.allCases {
                let bucket =
                    switch quota {
                    case .topicChanges: project.topicChanges
                    case .registrations: project.registrations
                    case .upstream: project.upstream
                    }
                guard let bucket, bucket.untilFull(at: now) > 0 else { continue }
                let left = QuotaLeft(
                    remaining: UInt64(bucket.remaining(at: now)),
                    untilFullMilliseconds: bucket.untilFull(at: now))
                all.append((number, quota, left))
            }
        }
        all.sort { $0.left.untilFullMilliseconds > $1.left.untilFullMilliseconds }
        return Array(all.prefix(limit))
    }

    /// The amounts of each quota that is not turned off.
    /// - Parameters:
    ///   - own: limits that the project has of its own.
    ///   - counted: OPS-7: the quotas that are not full, as the active node counts them; nil: this node counts.
    ///   - fanoutsInProgress: QUO-5: stored fanouts of the project in progress.
    package func amounts(
        of project: ProjectNumber, with own: ProjectLimits, at now: Instant,
        counted: [CountedQuota: QuotaLeft]? = nil, fanoutsInProgress: Int
    ) -> [QuotaAmount] {
        let limits = limits.with(own)
        let mine = state.withLock { $0.projects[project] } ?? Project()
        var amounts: [QuotaAmount] = []
        func add(
            _ name: String, _ limit: Int, _ bucket: TokenBucket?, as quota: CountedQuota? = nil
        ) {
            guard limit > 0 else { return }
            if let quota, let counted {
                let left = counted[quota]
                return amounts.append(
                    QuotaAmount(
                        name: name, limit: UInt64(limit),
                        remaining: min(left?.remaining ?? .max, UInt64(limit)),
                        untilFullMilliseconds: left?.untilFullMilliseconds ?? 0))
            }
            amounts.append(
                QuotaAmount(
                    name: name, limit: UInt64(limit),
                    remaining: UInt64(bucket?.remaining(at: now) ?? limit),
                    untilFullMilliseconds: bucket?.untilFull(at: now) ?? 0))
        }
        add(
            ProjectLimit.topicChangesPerSecond.name, limits.topicChangesPerSecond,
            mine.topicChanges.ofRate(limits.topicChangesPerSecond), as: .topicChanges)
        add(
            ProjectLimit.registrationsPerSecond.name, limits.registrationsPerSecond,
            mine.registrations.ofRate(limits.registrationsPerSecond), as: .registrations)
        add("upstream-per-minute", limits.upstreamPerMinute, mine.upstream, as: .upstream)
        let perMinute = part(of: limits.senderConnectionsPerMinute)
        add("sender-connections-per-minute", perMinute, mine.newConnections.ofRate(perMinute))
        func add(_ name: String, _ limit: Int, used: Int) {
            guard limit > 0 else { return }
            amounts.append(
                QuotaAmount(
                    name: name, limit: UInt64(limit), remaining: UInt64(max(0, limit - used)),
                    untilFullMilliseconds: used == 0 ? 0 : nil))
        }
        add(
            "sender-connections-max", part(of: limits.senderConnectionsMax),
            used: mine.connections)
        add(
            "fanouts-in-progress", limits.fanoutsInProgressMax,
            used: fanoutsInProgress)
        return amounts
    }
}

extension TokenBucket? {
    /// nil for a bucket of an earlier rate, because a changed rate begins with a full bucket.
    fileprivate func ofRate(_ count: Int) -> TokenBucket? {
        flatMap { $0.count == count ? $0 : nil }
    }
}

extension MartletError {
    fileprivate static func exhausted(
        _ message: String, field: String, after milliseconds: UInt64
    ) -> MartletError {
        MartletError(
            .resourceExhausted, message, field: field,
            retryDelayMilliseconds: UInt32(clamping: milliseconds))
    }
}
