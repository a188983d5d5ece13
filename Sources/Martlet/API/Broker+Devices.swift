// SPDX-License-Identifier: Apache-2.0
//
// A look at one device for an operator: its connection, what waits in its mailbox and why, and the limits that are left.
// The look reads a snapshot, asks the loops for the connection and the committer for the quotas, and changes nothing.
// Rests on MailboxLog, MailboxReplay and LoopSurveys.

import MartletDelivery
import MartletEngine
import MartletRows
import MartletThreads
import MartletTransport

/// An instance as an operator sees it.
package struct DeviceDetails: Sendable {
    /// A message that waits in the mailbox.
    package struct Waiting: Sendable {
        /// The number in the message ID; nil: the message has just gone.
        package var number: UInt64?
        package var accepted: Instant
        package var expires: Instant
        package var priority: MessagePriority
        /// Whether a later message with an equal collapse key replaces the message.
        package var isCollapsible: Bool
        package var reason: Reason
    }

    /// Why a message waits.
    package enum Reason: String, Sendable, CaseIterable {
        /// The device has no connection.
        case notConnected
        /// PRI-1: the message has normal priority, and the device dozes.
        case dozing
        /// COL-4: the message is collapsible, and the device had too many of these.
        case throttled
        /// The message was sent, and the device has not acknowledged the message yet.
        case notAcknowledged
        /// The message is about to be sent.
        case inDelivery
    }

    /// The present connection.
    package struct Connection: Sendable {
        /// Beginning of the connection, to a second.
        package var since: Instant
        /// Network address of the device.
        package var address: String
        /// Number of the loop that has the connection.
        package var loop: Int
        /// PRI-2: how awake the device is, as the device has told last.
        package var state: DeviceState
        /// Bytes that wait to be sent to the device.
        package var queuedBytes: Int
    }

    /// What is left of a limit of the device.
    package struct Allowance: Sendable, Hashable {
        package enum Kind: String, Sendable, CaseIterable {
            /// COL-4: collapsible messages in delivery.
            case collapsible
            /// QUO-1: messages to the device.
            case messagesPerMinute, messagesPerHour
            /// QUO-2: messages from the device.
            case upstreamPerMinute
        }

        package var kind: Kind
        package var left: UInt64
        package var limit: UInt64
    }

    package var token: String
    package var app: String
    package var platform: Platform
    package var registered: Instant
    /// nil: the instance is not connected.
    package var connection: Connection?
    /// STO-2: when the instance was last connected, as far as the store has noted it.
    package var seen: Instant
    /// COL-4: collapsible messages are held back until then; nil: they are not.
    package var throttledUntil: Instant?
    /// STO-1: discarded messages that the device was not told of yet.
    package var discardedCount: UInt64
    /// Limits in force; those that the broker does not know are left out.
    package var allowances: [Allowance]
    /// The oldest messages that wait, at most 100.
    package var waiting: [Waiting]
    /// Whether more messages may wait: the look ends after a number of the project's messages.
    package var hasMore: Bool
    /// Names of the groups, in their order.
    package var groups: [String]
}

extension Broker {
    /// Messages of the project that a look at a mailbox reads, those to other instances included.
    private static let rowsLookedAtMax = 100_000
    private static let waitingMax = 100

    /// What the store knows of an instance.
    private struct StoredDevice {
        var instance: Instance
        var app: App
        var state: MailboxState
        var discardedCount: UInt64
        /// The oldest messages that wait, with the numbers of their message IDs.
        var waiting: [(entry: LogEntry, number: UInt64?)]
        var hasMore: Bool
        var groups: [String]
    }

    /// Looks at an instance.
    /// - Throws: `NOT_FOUND` for the project, and for a token that is not registered in the project; `INVALID_ARGUMENT`
    ///   for text that is no token; `UNAVAILABLE` with a retry delay.
    package func device(
        _ token: String, in project: String
    ) async throws(MartletError) -> DeviceDetails {
        let number = try await number(of: project)
        // The connection is asked for first: a message that is acknowledged meanwhile is not in the mailbox any more.
        let ordinal = try await ask { (transaction) throws in
            try Listing.instance(token, in: number, transaction).0.ordinal
        }
        var connection: LoopConnection?
        for answer in try await survey(.connection(of: ordinal, in: number)) {
            // While a device moves between loops, the later connection counts.
            if case .connection(let found?) = answer, found.number > connection?.number ?? 0 {
                connection = found
            }
        }
        return try details(
            of: token, in: number, connection, await allowance(of: token, in: number))
    }

    /// Joins what the store, a loop and the committer know.
    private func details(
        of token: String, in number: ProjectNumber, _ connection: LoopConnection?,
        _ allowance: DeviceAllowance?
    ) throws(MartletError) -> DeviceDetails {
        let now = clock()
        let stored = try stored(token, in: number, now: now)
        let full = max(stored.state.throttleFull, connection?.session.throttleFull ?? now)
        let throttle = ThrottleReading(limits: limits, full: full, now: now)
        return DeviceDetails(
            token: stored.instance.token.text, app: stored.app.name, platform: stored.app.platform,
            registered: stored.instance.registered,
            connection: connection.map {
                DeviceDetails.Connection(
                    since: now.advanced(bySeconds: -$0.seconds),
                    address: $0.address.description,
                    loop: $0.loop, state: $0.state, queuedBytes: $0.session.queuedBytes)
            }, seen: stored.state.seen, throttledUntil: throttle.heldUntil,
            discardedCount: stored.discardedCount,
            allowances: [throttle.allowance].compactMap { $0 } + quotas(allowance),
            waiting: stored.waiting.map { waiting in
                DeviceDetails.Waiting(
                    number: waiting.number, accepted: waiting.entry.accepted,
                    expires: waiting.entry.expires, priority: waiting.entry.priority,
                    isCollapsible: !waiting.entry.isPlain,
                    reason: Self.reason(waiting.entry, connection?.session, throttle))
            }, hasMore: stored.hasMore, groups: stored.groups)
    }

    private static func reason(
        _ entry: LogEntry, _ session: SessionLook?, _ throttle: ThrottleReading
    ) -> DeviceDetails.Reason {
        guard let session else { return .notConnected }
        if session.delivered(entry.lane) >= entry.sequence { return .notAcknowledged }
        if session.isDozing, entry.priority == .normal { return .dozing }
        if !entry.isPlain, throttle.heldUntil != nil { return .throttled }
        return .inDelivery
    }

    private func stored(
        _ token: String, in number: ProjectNumber, now: Instant
    ) throws(MartletError) -> StoredDevice {
        try ask { (transaction) throws in
            let (instance, app) = try Listing.instance(token, in: number, transaction)
            let ordinal = instance.ordinal
            let state = try transaction.mailboxes.state(of: ordinal, in: number)
            var replay = MailboxReplay(limits: limits, state: state)
            let owner = MailboxOwner(
                project: number, ordinal: ordinal, platform: instance.platform,
                appKey: CollapseDigest(of: app.name))
            let scan = try transaction.log.forEachLogged(
                for: owner, after: state.logStart, rowsMax: Self.rowsLookedAtMax
            ) { replay.add($0) }
            let left = replay.left(at: now)
            var isWhole = true
            if case .paused = scan { isWhole = false }
            var waiting: [(entry: LogEntry, number: UInt64?)] = []
            for entry in left.prefix(Self.waitingMax) {
                var found: UInt64?
                _ = try transaction.messages.withMessage(
                    entry.sequence, on: instance.platform, in: number
                ) { found = $0.header.number }
                waiting.append((entry, found))
            }
            var groups: [String] = []
            for key in try transaction.groups.groupKeys(of: ordinal, in: number) {
                if let group = try transaction.groups.group(key, in: number) {
                    groups.append(group.name.text)
                }
            }
            return StoredDevice(
                instance: instance, app: app, state: state, discardedCount: replay.discardedCount,
                waiting: waiting, hasMore: !isWhole || left.count > Self.waitingMax,
                groups: groups.sorted())
        }
    }

    /// QUO-1, QUO-2: what the committer knows of a device's quotas; nil: the store refuses changes now.
    private func allowance(
        of token: String, in number: ProjectNumber
    ) async -> DeviceAllowance? {
        var command = SendCommand(target: .token(token), body: [], validateOnly: true)
        command.asksAllowance = true
        let outcome = await outcome(of: .send(project: number, message: command))
        guard case .accepted(let acceptance, _) = outcome else { return nil }
        return acceptance.allowance
    }

    private func quotas(_ allowance: DeviceAllowance?) -> [DeviceDetails.Allowance] {
        guard let allowance else { return [] }
        let limits = limits
        let all: [(DeviceDetails.Allowance.Kind, UInt64?, Int)] = [
            (.messagesPerMinute, allowance.messages.minute, limits.deviceMessagesPerMinute),
            (.messagesPerHour, allowance.messages.hour, limits.deviceMessagesPerHour),
            (.upstreamPerMinute, allowance.upstream.minute, limits.deviceUpstreamPerMinute),
        ]
        return all.compactMap { kind, left, limit in
            left.map {
                DeviceDetails.Allowance(kind: kind, left: $0, limit: UInt64(clamping: limit))
            }
        }
    }
}

/// COL-4: the bucket of collapsible messages as a number of messages.
private struct ThrottleReading {
    /// nil: there is no limit.
    var allowance: DeviceDetails.Allowance?
    /// The instant of the next message's token; nil: a token is there.
    var heldUntil: Instant?

    /// - Parameter full: the instant at which the bucket is full again.
    init(limits: BrokerLimits, full: Instant, now: Instant) {
        guard limits.collapsibleBurst > 0, limits.collapsibleRefillSeconds > 0 else { return }
        let token = Int64(limits.collapsibleRefillSeconds) * 1000
        let bucket = token * Int64(limits.collapsibleBurst)
        let missing = min(max(full.rawValue - now.rawValue, 0), bucket)
        let left = (bucket - missing) / token
        allowance = DeviceDetails.Allowance(
            kind: .collapsible, left: UInt64(left), limit: UInt64(limits.collapsibleBurst))
        if left == 0 {
            heldUntil = Instant(rawValue: now.rawValue + token - (bucket - missing))
        }
    }
}
