// SPDX-License-Identifier: Apache-2.0
//
// A look at one device for an operator: its connection, and what waits in its mailbox and why. The look reads a snapshot and
// changes nothing. Rests on MailboxLog and MailboxReplay.

import MartletEngine
import MartletRows

/// An instance as an operator sees it.
package struct DeviceDetails: Sendable {
    /// A message that waits in the mailbox.
    package struct Waiting: Sendable {
        package var accepted: Instant
        package var expires: Instant
        package var priority: MessagePriority
        /// Whether a later message with an equal collapse key replaces the message.
        package var isCollapsible: Bool
    }

    package var token: String
    package var app: String
    package var platform: Platform
    package var registered: Instant
    /// Whether the instance has a connection to this run of the broker.
    package var isConnected: Bool
    /// STO-2: when the instance was last connected, as far as the store has noted it.
    package var seen: Instant
    /// COL-4: collapsible messages are throttled until then; in the past: no throttle.
    package var throttledUntil: Instant
    /// STO-1: discarded messages that the device was not told of yet.
    package var discardedCount: UInt64
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

    /// Looks at an instance.
    /// - Throws: `NOT_FOUND` for the project, and for a token that is not registered in the project; `INVALID_ARGUMENT`
    ///   for text that is no token.
    package func device(
        _ token: String, in project: String
    ) throws(MartletError) -> DeviceDetails {
        let number = try number(of: project)
        let now = clock()
        return try ask { (transaction) throws in
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
            var groups: [String] = []
            for key in try transaction.groups.groupKeys(of: ordinal, in: number) {
                if let group = try transaction.groups.group(key, in: number) {
                    groups.append(group.name.text)
                }
            }
            return DeviceDetails(
                token: instance.token.text, app: app.name, platform: app.platform,
                registered: instance.registered, isConnected: state.isConnected,
                seen: state.seen, throttledUntil: state.throttleFull,
                discardedCount: replay.discardedCount,
                waiting: left.prefix(Self.waitingMax).map {
                    DeviceDetails.Waiting(
                        accepted: $0.accepted, expires: $0.expires, priority: $0.priority,
                        isCollapsible: !$0.isPlain)
                }, hasMore: !isWhole || left.count > Self.waitingMax, groups: groups.sorted())
        }
    }
}
