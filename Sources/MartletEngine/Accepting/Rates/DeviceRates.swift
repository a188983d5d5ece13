// SPDX-License-Identifier: Apache-2.0
//
// Limits how many messages one device gets per minute and per hour, exactly (QUO-1). The buckets are only in memory, so
// a broker starts with full ones. What a failed transaction took is given back. Rests on ProjectRates.

package import MartletBase
package import MartletRows

/// The recipients within their quotas.
package enum RateGrant {
    case everyone
    /// These recipients. The others are over a limit.
    case some(Recipients)
    /// The only recipient is over a limit for this long.
    case nobody(retryMilliseconds: UInt64)
}

/// How many messages a device's buckets allow now.
package struct MessagesLeft: Sendable, Hashable {
    /// nil: there is no limit for a minute.
    package var minute: UInt64?
    /// nil: there is no limit for an hour.
    package var hour: UInt64?

    package init(minute: UInt64? = nil, hour: UInt64? = nil) {
        self.minute = minute
        self.hour = hour
    }
}

/// How many messages a device may get and send now (GW-9).
package struct DeviceAllowance: Sendable, Hashable {
    /// Messages to the device (QUO-1).
    package var messages: MessagesLeft
    /// Messages from the device (QUO-2).
    package var upstream: MessagesLeft

    package init(messages: MessagesLeft, upstream: MessagesLeft) {
        self.messages = messages
        self.upstream = upstream
    }
}

/// All devices' buckets, by project. An engine has one for messages to devices (QUO-1) and one for messages from them (QUO-2).
package struct DeviceRates: ~Copyable {
    private let limits: RateLimits?
    private var projects: [ProjectNumber: ProjectRates] = [:]
    /// Projects whose buckets this transaction has changed.
    private var changed: [ProjectRates] = []
    /// The clock's last reading. `behind` is the sum of all its steps back.
    private var last = Instant(millisecondsSince1970: 0)
    private var behind: UInt64 = 0

    /// - Parameters:
    ///   - perMinute: messages in a minute; 0: no limit.
    ///   - perHour: messages in an hour; 0: no limit.
    package init(perMinute: Int, perHour: Int) {
        limits =
            perMinute > 0 || perHour > 0
            ? RateLimits(perMinute: perMinute, perHour: perHour) : nil
    }

    /// Takes a token from both buckets of each recipient that has one in both.
    package mutating func take(
        _ recipients: Recipients, in project: ProjectNumber, at now: Instant
    ) -> RateGrant {
        guard let limits, recipients.count > 0 else { return .everyone }
        let now = limits.instant(clock(now))
        return rates(project, limits, now).take(recipients, at: now)
    }

    /// Milliseconds until an instance may get a message; nil if it may now. Takes no token (MSG-7).
    package mutating func delay(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> UInt64? {
        guard let limits, projects[project] != nil else { return nil }
        let now = limits.instant(clock(now))
        let delay = rates(project, limits, now).delay(ordinal, at: now)
        return delay > 0 ? delay : nil
    }

    /// How many messages an instance may get now, by each limit. Takes no token (GW-9).
    package mutating func left(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> MessagesLeft {
        guard let limits else { return MessagesLeft() }
        let now = limits.instant(clock(now))
        let full =
            projects[project] == nil ? now : rates(project, limits, now).full(ordinal, at: now)
        return MessagesLeft(
            minute: limits.minute.left(full.minute, at: now.minute),
            hour: limits.hour.left(full.hour, at: now.hour))
    }

    /// Fills an ordinal's buckets for its next holder, because the present one has unregistered.
    package mutating func renew(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) {
        guard let limits, projects[project] != nil else { return }
        let now = limits.instant(clock(now))
        rates(project, limits, now).renew(ordinal, at: now)
    }

    /// What was taken since the last `committed` or `abandon` is final.
    package mutating func committed() {
        for rates in changed { rates.committed() }
        changed.removeAll(keepingCapacity: true)
    }

    /// Gives back what was taken since the last `committed` or `abandon`.
    package mutating func abandon() {
        for rates in changed { rates.abandon() }
        changed.removeAll(keepingCapacity: true)
    }

    /// Whether the project is armed (has a bucket per instance), and how many bytes that takes.
    package func state(of project: ProjectNumber) -> (isArmed: Bool, bytes: Int) {
        (projects[project]?.isArmed ?? false, projects[project]?.bytes ?? 0)
    }

    private mutating func rates(
        _ project: ProjectNumber, _ limits: RateLimits, _ now: RatePair<UInt64>
    ) -> ProjectRates {
        let found = projects[project] ?? ProjectRates(limits: limits, at: now)
        projects[project] = found
        if changed.last !== found, !changed.contains(where: { $0 === found }) {
            changed.append(found)
        }
        return found
    }

    /// A clock in milliseconds that never goes back: when the given one is set back, no time passes.
    private mutating func clock(_ now: Instant) -> UInt64 {
        if now < last { behind += UInt64(last.rawValue - now.rawValue) }
        last = now
        return UInt64(clamping: now.millisecondsSince1970) + behind
    }
}
