// SPDX-License-Identifier: Apache-2.0
//
// Limits the messages to one device per minute and per hour, exactly (QUO-1). The buckets are kept only in memory, so a broker
// begins with full buckets. Tokens taken in a failed transaction are given back. Rests on ProjectRates.

package import MartletBase
package import MartletRows

/// The recipients within their quotas.
package enum RateGrant {
    case everyone
    /// A part of the recipients. The rest is over a limit.
    case some(Recipients)
    /// The only recipient is over a limit, for so many milliseconds.
    case nobody(retryMilliseconds: UInt64)
}

/// Messages that a device's buckets allow at an instant.
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

/// GW-9: messages that a device may get and send at an instant.
package struct DeviceAllowance: Sendable, Hashable {
    /// QUO-1: messages to the device.
    package var messages: MessagesLeft
    /// QUO-2: messages from the device.
    package var upstream: MessagesLeft

    package init(messages: MessagesLeft, upstream: MessagesLeft) {
        self.messages = messages
        self.upstream = upstream
    }
}

/// The buckets of all devices, by project. An engine has a value for messages to devices (QUO-1) and a value for
/// messages from devices (QUO-2).
package struct DeviceRates: ~Copyable {
    private let limits: RateLimits?
    private var projects: [ProjectNumber: ProjectRates] = [:]
    /// Projects with buckets that the present transaction changed.
    private var changed: [ProjectRates] = []
    /// The last reading of the given clock. `behind` is the sum of all steps back.
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

    /// Takes a token from both buckets of each recipient that has a token in both.
    package mutating func take(
        _ recipients: Recipients, in project: ProjectNumber, at now: Instant
    ) -> RateGrant {
        guard let limits, recipients.count > 0 else { return .everyone }
        let now = limits.instant(clock(now))
        return rates(project, limits, now).take(recipients, at: now)
    }

    /// MSG-7: milliseconds until an instance may get a message; nil: now. No token is taken.
    package mutating func delay(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> UInt64? {
        guard let limits, projects[project] != nil else { return nil }
        let now = limits.instant(clock(now))
        let delay = rates(project, limits, now).delay(ordinal, at: now)
        return delay > 0 ? delay : nil
    }

    /// GW-9: messages that an instance may get now, by each limit. No token is taken.
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

    /// Fills the buckets of an ordinal for its next holder, because the present holder has unregistered.
    package mutating func renew(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) {
        guard let limits, projects[project] != nil else { return }
        let now = limits.instant(clock(now))
        rates(project, limits, now).renew(ordinal, at: now)
    }

    /// Notes that all tokens taken since the last call of `committed` or `abandon` are final.
    package mutating func committed() {
        for rates in changed { rates.committed() }
        changed.removeAll(keepingCapacity: true)
    }

    /// Gives back all tokens taken since the last call of `committed` or `abandon`.
    package mutating func abandon() {
        for rates in changed { rates.abandon() }
        changed.removeAll(keepingCapacity: true)
    }

    /// Whether the project is armed (buckets for each instance), and the bytes of the buckets.
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

    /// A clock in milliseconds that never goes back. If the given clock is set back, no time passes in that step.
    private mutating func clock(_ now: Instant) -> UInt64 {
        if now < last { behind += UInt64(last.rawValue - now.rawValue) }
        last = now
        return UInt64(clamping: now.millisecondsSince1970) + behind
    }
}
