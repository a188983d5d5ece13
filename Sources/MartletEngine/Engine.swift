// SPDX-License-Identifier: Apache-2.0
//
// The engine: commands and the time go in, outcomes come out. It opens no socket, reads no clock and makes no random bytes.
// All durable state is in the transaction that the caller passes.
//
// What the engine remembers (compiled conditions, counters) may be lost or stale without harm: after a failed commit the
// commands are simply applied again. Three things must not be stale, so the engine is told how transactions end:
// - The subscribers of the last topic are forgotten before each command that can change them, and when a transaction
//   fails.
// - Quota that a failed transaction took is given back.
// - Fanouts that a failed transaction began leave the book.
//
// Rests on the ledgers and MartletCondition.

package import MartletBase
import MartletCondition
package import MartletRows

/// Applies commands to a storage transaction. A broker has one engine, for its committer alone.
package struct Engine: ~Copyable {
    /// Works out targets. Remembers the last topic's subscribers until a command changes a set.
    var audiences: Audiences
    let nowOrNeverNumbers: NowOrNeverNumbers
    private(set) var limits: BrokerLimits
    /// Bounds on the acknowledgements that one transaction applies.
    package var acknowledgingBounds = AcknowledgingBounds.alone
    /// The disk is full, except for the room reserved for deletions. The engine then refuses whatever keeps new data, and
    /// scheduled and deferred messages wait (OPS-12).
    package var isShortOfRoom = false
    /// Buckets for messages to each device (QUO-1).
    var rates: DeviceRates
    /// Buckets for messages from each device (QUO-2).
    var upstreamRates: DeviceRates
    /// Buckets for each device's own changes of subscriptions (TOP-11).
    var topicRates: DeviceTopicRates
    /// The listening senders; nil if there are none (UPS-1).
    let upstreamBook: UpstreamBook?
    /// By project: devices' now-or-never messages that this transaction has accepted. Each takes a place in a listening
    /// sender's window.
    var upstreamPromised: [ProjectNumber: Int] = [:]
    /// Whether the store knows that the broker's run has begun, perhaps only in this transaction. `isBegun` is the committed
    /// value.
    var hasBegun = false
    /// Whether the engine begins a run of its own. Of several nodes, each begins the runs by events of its own (OPS-7).
    package var beginsRun = true
    /// The run of the node whose command is being applied; nil for the broker's own (OPS-7).
    var nodeRun: UInt32?
    /// The quotas of all projects (QUO-2, QUO-4).
    let quotas: ProjectQuotas
    private var isBegun = false
    /// The fanouts in progress; nil if every message begins at once (FAN-1).
    let book: FanoutBook?
    var admission = Admission()

    /// - Parameters:
    ///   - quotas: shared with the loops; nil to have its own.
    ///   - book: the fanouts in progress; nil for no limit.
    ///   - upstreamBook: the listening senders; nil if there are none.
    ///   - bridgeFaults: what the door to push services has noted.
    package init(
        programs: SharedPrograms = SharedPrograms(), limits: BrokerLimits = BrokerLimits(),
        book: FanoutBook? = nil, quotas: ProjectQuotas? = nil, upstreamBook: UpstreamBook? = nil,
        nowOrNeverNumbers: NowOrNeverNumbers = NowOrNeverNumbers(),
        bridgeFaults: BridgeFaults = BridgeFaults()
    ) {
        audiences = Audiences(programs: programs, limits: limits, bridgeFaults: bridgeFaults)
        self.nowOrNeverNumbers = nowOrNeverNumbers
        self.limits = limits
        self.book = book
        self.quotas = quotas ?? ProjectQuotas(limits)
        rates = DeviceRates(
            perMinute: limits.deviceMessagesPerMinute, perHour: limits.deviceMessagesPerHour)
        upstreamRates = DeviceRates(perMinute: limits.deviceUpstreamPerMinute, perHour: 0)
        topicRates = DeviceTopicRates(
            burst: limits.deviceTopicBurst, refillSeconds: limits.deviceTopicRefillSeconds)
        self.upstreamBook = upstreamBook
    }

    /// Changes the limits, between two transactions. If a rate has changed, its buckets are full again (OPS-11).
    package mutating func change(limits new: BrokerLimits) {
        let old = limits
        limits = new
        audiences.limits = new
        quotas.change(limits: new)
        if new.deviceMessagesPerMinute != old.deviceMessagesPerMinute
            || new.deviceMessagesPerHour != old.deviceMessagesPerHour
        {
            rates = DeviceRates(
                perMinute: new.deviceMessagesPerMinute, perHour: new.deviceMessagesPerHour)
        }
        if new.deviceUpstreamPerMinute != old.deviceUpstreamPerMinute {
            upstreamRates = DeviceRates(perMinute: new.deviceUpstreamPerMinute, perHour: 0)
        }
        if new.deviceTopicBurst != old.deviceTopicBurst
            || new.deviceTopicRefillSeconds != old.deviceTopicRefillSeconds
        {
            topicRates = DeviceTopicRates(
                burst: new.deviceTopicBurst, refillSeconds: new.deviceTopicRefillSeconds)
        }
    }

    /// Applies a command that has its part of a transaction to itself.
    /// - Parameter goesOn: asked between the steps of a command that several transactions may apply.
    /// - Returns: the outcome. A refusal is an outcome.
    /// - Throws: `StorageError` if the store fails. The transaction must then be abandoned.
    package mutating func apply(
        _ command: Command, now: Instant, in storage: borrowing Transaction,
        goesOn: () -> Bool = { true }
    ) throws(StorageError) -> Outcome {
        forget(command)
        if isShortOfRoom, command.takesRoom { return .refused(.noRoom) }
        return switch command {
        case .createProject(let id, let senderID, let topicsMax, let registration, let key):
            try createProject(
                id: id, senderID: senderID, conditionTopicsMax: topicsMax,
                registration: registration, key: key, now: now, in: storage)
        case .changeProject(let id, let weight, let overload, let topicsMax):
            try changeProject(
                id: id, weight: weight, overload: overload, conditionTopicsMax: topicsMax,
                in: storage)
        case .createKey(let project, let key):
            try createKey(key, projectID: project, now: now, in: storage)
        case .revokeKey(let project, let keyID):
            try revokeKey(id: keyID, projectID: project, in: storage)
        case .createServiceAccount(let project, let key):
            try createServiceAccount(key, projectID: project, now: now, in: storage)
        case .revokeServiceAccount(let project, let keyID):
            try revokeServiceAccount(id: keyID, projectID: project, in: storage)
        case .changeRegistry(let project, let change):
            try changeRegistry(change, projectID: project, now: now, in: storage)
        case .register(let instance):
            try register(instance, now: now, in: storage)
        case .changeBridge(let change): try changeBridge(change, now: now, storage)
        case .unregister(let project, let ordinal, let holder):
            try unregister(ordinal, of: holder, in: project, now: now, storage)
        case .unregisterToken(let project, let token):
            try unregister(token: token, in: project, now: now, storage)
        case .changeTopics(let project, let ordinal, let change, let topics, let holder):
            try changeTopics(
                of: ordinal, of: holder, in: project, change, names: topics, now: now, storage)
        case .changeTopic(let project, let topic, let change, let tokens, let progress):
            try changeTopic(
                topic, in: project, change, tokens: tokens, progress, now: now, storage, goesOn)
        case .createGroup(let project, let name, let key, let tokens):
            try createGroup(named: name, key: key, tokens: tokens, in: project, storage)
        case .changeGroup(let project, let name, let key, let change, let tokens):
            try changeGroup(named: name, key: key, change, tokens: tokens, in: project, storage)
        case .send(let project, let message):
            try send(message, in: project, now: now, storage)
        case .acknowledge: try apply([command], now: now, in: storage)[0]
        case .connected(let project, let ordinal, let holder, let connection):
            try connected(ordinal, of: holder, in: project, connection, now: now, storage)
        case .rotate(let project, let ordinal, let holder, let token):
            try rotate(ordinal, of: holder, in: project, to: token, storage)
        case .cancel(let project, let number):
            try cancel(number, in: project, now: now, storage)
        case .receipt(let project, let ordinal, let holder, let kind, let streamID):
            try receipt(kind, of: streamID, by: ordinal, holder, in: project, now: now, storage)
        case .takeReceipts(let project, let through):
            try takeReceipts(through: through, in: project, storage)
        case .upstream(let message): try acceptUpstream(message, now: now, storage)
        case .takeUpstream(let project, let numbers):
            try takeUpstream(numbers, in: project, storage)
        case .touch: try touch(storage)
        case .count(let days): try count(days, storage)
        }
    }

    /// Everything applied since the last `committed` or `abandon` is durable.
    package mutating func committed() {
        invariant(hasBegun || !isBegun, "A run of the broker begins once.")
        isBegun = hasBegun
        rates.committed()
        upstreamRates.committed()
        topicRates.committed()
        upstreamPromised.removeAll(keepingCapacity: true)
        admission.committed(book)
        quotas.committed()
    }

    /// The transaction has failed: forgets everything applied since the last `committed` or `abandon`.
    package mutating func abandon() {
        audiences.forget()
        hasBegun = isBegun
        rates.abandon()
        upstreamRates.abandon()
        topicRates.abandon()
        upstreamPromised.removeAll(keepingCapacity: true)
        admission.abandon(book)
        quotas.abandon()
    }

    /// Forgets the remembered sets that a command can change.
    mutating func forget(_ command: Command) {
        switch command {
        case .send, .count, .touch, .rotate, .cancel, .receipt, .takeReceipts, .changeProject,
            .upstream,
            .takeUpstream, .createGroup, .changeGroup, .createServiceAccount,
            .revokeServiceAccount, .changeRegistry:
            break
        case .changeBridge(let change): if change.asksWhoHas { audiences.forget() }
        case .acknowledge(let acknowledgements, _):
            for one in acknowledgements where one.departure != nil {
                audiences.lastTopic?.forgetInactive(one.ordinal, in: one.project)
            }
        case .connected(let project, let ordinal, _, _):
            audiences.lastTopic?.forgetInactive(ordinal, in: project)
        case .createProject, .createKey, .revokeKey, .register, .unregister, .unregisterToken,
            .changeTopics, .changeTopic:
            audiences.forget()
        }
    }

    private func count(
        _ days: [DayCount], _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        try storage.reports.count(days)
        return .done
    }

    private func touch(
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        try storage.connections.touch()
        return .done
    }

    private func takeReceipts(
        through event: UInt64, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        try storage.receipts.remove(through: event, in: project)
        return .done
    }

    private func connected(
        _ ordinal: Ordinal, of holder: Holder, in project: ProjectNumber,
        _ connection: ConnectionStart, now: Instant,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Outcome {
        // A copy, because the compiler is slow at checking reads of a noncopyable value's properties.
        let limits = self.limits
        if try storage.instances.instance(ordinal, in: project)?.holder == holder {
            try storage.presence.connected(
                ordinal, in: project, connection, run: nodeRun, now: now, limits: limits)
        }
        return .done
    }
}

extension Command {
    /// Whether the command keeps new data (OPS-12). What frees room, or what a connection needs, takes none.
    fileprivate var takesRoom: Bool {
        switch self {
        case .createProject, .changeProject, .createKey, .createServiceAccount, .register,
            .createGroup, .rotate, .receipt, .upstream, .touch:
            true
        case .changeRegistry(_, let change): change.takesRoom
        case .changeBridge(let change): change.takesRoom
        case .send(_, let message): !message.validateOnly
        case .changeTopics(_, _, let change, _, _): change == .subscribe
        case .changeTopic(_, _, let change, _, _): change == .subscribe
        case .changeGroup(_, _, _, let change, _): change == .add
        case .revokeKey, .revokeServiceAccount, .unregister, .unregisterToken, .acknowledge,
            .connected,
            .cancel, .takeReceipts, .takeUpstream, .count:
            false
        }
    }
}

extension MartletError {
    /// Refuses a command that takes room while the disk is full (OPS-12).
    static var noRoom: MartletError {
        MartletError(
            .unavailable,
            """
            The disk is full but for what is kept for deletions: nothing new is taken. Make room on \
            it. In a large store it helps too that devices take their messages.
            """, retryDelayMilliseconds: 5000)
    }

    static var noProject: MartletError {
        MartletError(
            .notFound, "There is no such project; create it with 'martlet project create'.",
            field: "project")
    }
}
