// SPDX-License-Identifier: Apache-2.0
//
// What one project may ask of a broker: changes of subscriptions (TOP-6, QUO-4), connections of its
// senders (QUO-3) and messages of its devices (QUO-2). Kept in memory alone: a broker that begins
// anew begins with full buckets. Shared by the engine, which takes changes in transactions that may
// fail, the loops, whose connections come and go, and whoever asks what is left; its lock is taken
// once for a request or a connection, and never for a message. Rests on TokenBucket.

public import MartletBase
import Synchronization

/// What is left of one quota.
public struct QuotaAmount: Sendable, Hashable {
    /// As the limit is called in the configuration of a broker.
    public var name: String
    public var limit: UInt64
    public var remaining: UInt64
    /// How long until all of it is there again, if nobody takes any; nil where nobody can know.
    public var untilFullMilliseconds: UInt64?
}

/// All projects' quotas. One value per broker.
public final class ProjectQuotas: Sendable {
    private struct Project {
        var topicChanges: TokenBucket?
        var upstream: TokenBucket?
        var newConnections: TokenBucket?
        var connections = 0
    }

    private struct State {
        var projects: [ProjectNumber: Project] = [:]
        /// What the transaction took from, as it was before; nil: it was full.
        var before: [ProjectNumber: (topicChanges: TokenBucket?, upstream: TokenBucket?)] = [:]

        mutating func keepBefore(_ project: ProjectNumber) {
            guard before[project] == nil else { return }
            let mine = projects[project]
            before[project] = (mine?.topicChanges, mine?.upstream)
        }
    }

    /// When a connection of senders is tried again while as many as may be are open. When one of those
    /// closes, nobody knows.
    private static let connectionsFullMilliseconds: UInt64 = 1000

    private let limits: MailboxLimits
    private let state = Mutex(State())

    public init(_ limits: MailboxLimits = MailboxLimits()) { self.limits = limits }

    // MARK: Changes of subscriptions

    /// All of them, or none.
    func takeTopicChanges(
        _ count: Int, in project: ProjectNumber, at now: Instant
    ) throws(MartletError) {
        let perSecond = limits.topicChangesPerSecond
        guard perSecond > 0 else { return }
        let delay = state.withLock { state in
            var bucket =
                state.projects[project]?.topicChanges
                ?? TokenBucket(count: perSecond, milliseconds: 1000, at: now)
            state.keepBefore(project)
            let delay = bucket.take(count, at: now)
            state.projects[project, default: Project()].topicChanges = bucket
            return delay
        }
        guard delay > 0 else { return }
        throw .exhausted(
            """
            The project's subscriptions may change \(perSecond) times in a second \
            (topic-changes-per-second); nothing of this request was applied. Repeat it later. The \
            broker's operator sets the quota: --limit topic-changes-per-second=N of 'martlet serve'.
            """, field: "topic", after: delay)
    }

    /// What was taken since the last call of this or of `abandon` is taken for good.
    func committed() { state.withLock { $0.before.removeAll(keepingCapacity: true) } }

    /// What was taken since then is given back.
    func abandon() {
        state.withLock { state in
            for (project, before) in state.before {
                state.projects[project]?.topicChanges = before.topicChanges
                state.projects[project]?.upstream = before.upstream
            }
            state.before.removeAll(keepingCapacity: true)
        }
    }

    // MARK: Messages of devices

    /// Whether there is one to be taken. Only whoever commits takes any, so it is still there then.
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

    /// A sender has shown who it is. Its connection counts from now on, unless it is refused.
    public func senderConnects(
        to project: ProjectNumber, at now: Instant
    ) throws(MartletError) {
        let (perMinute, max) = (limits.senderConnectionsPerMinute, limits.senderConnectionsMax)
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
                    mine.newConnections
                    ?? TokenBucket(count: perMinute, milliseconds: 60_000, at: now)
                let delay = bucket.take(at: now)
                mine.newConnections = bucket
                guard delay == 0 else {
                    state.projects[project] = mine
                    return .tooFast(milliseconds: delay)
                }
            }
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

    /// A connection that was not refused is closed.
    public func senderLeft(_ project: ProjectNumber) {
        state.withLock { state in
            guard let count = state.projects[project]?.connections else { return }
            state.projects[project]?.connections = max(0, count - 1)
        }
    }

    // MARK: Questions

    /// Each quota that is not turned off.
    /// - Parameter book: what is in progress (QUO-5).
    public func amounts(
        of project: ProjectNumber, at now: Instant, book: FanoutBook
    ) -> [QuotaAmount] {
        let mine = state.withLock { $0.projects[project] } ?? Project()
        var amounts: [QuotaAmount] = []
        func add(_ name: String, _ limit: Int, _ bucket: TokenBucket?) {
            guard limit > 0 else { return }
            amounts.append(
                QuotaAmount(
                    name: name, limit: UInt64(limit),
                    remaining: UInt64(bucket?.remaining(at: now) ?? limit),
                    untilFullMilliseconds: bucket?.untilFull(at: now) ?? 0))
        }
        add("topic-changes-per-second", limits.topicChangesPerSecond, mine.topicChanges)
        add("upstream-per-minute", limits.upstreamPerMinute, mine.upstream)
        add("sender-connections-per-minute", limits.senderConnectionsPerMinute, mine.newConnections)
        func add(_ name: String, _ limit: Int, used: Int) {
            guard limit > 0 else { return }
            amounts.append(
                QuotaAmount(
                    name: name, limit: UInt64(limit), remaining: UInt64(max(0, limit - used)),
                    untilFullMilliseconds: used == 0 ? 0 : nil))
        }
        add("sender-connections-max", limits.senderConnectionsMax, used: mine.connections)
        add(
            "fanouts-in-progress", limits.fanoutsInProgressMax,
            used: book.inProgressCount(of: project))
        return amounts
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
