// SPDX-License-Identifier: Apache-2.0
//
// QUO-1: so many messages to one device in a minute, and so many in an hour, exactly. Kept in memory
// alone: a broker that begins anew begins with full buckets. Tokens taken in a transaction that fails
// are given back. Rests on ProjectRates.

package import MartletBase
package import MartletRows

/// Who of a message's recipients gets it.
package enum RateGrant {
    case everyone
    /// These; the others are over a limit.
    case some(Recipients)
    /// Its one recipient is over a limit, for so long.
    case nobody(retryMilliseconds: UInt64)
}

/// Every device's buckets. One value per broker.
package struct DeviceRates: ~Copyable {
    private let limits: RateLimits?
    private var projects: [ProjectNumber: ProjectRates] = [:]
    /// Those that the transaction changed.
    private var changed: [ProjectRates] = []
    /// The given clock, which may be set back, made one that is not.
    private var last = Instant(millisecondsSince1970: 0)
    private var behind: UInt64 = 0

    /// - Parameters: 0: no limit.
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

    /// MSG-7: how many milliseconds it takes until an instance may have a message; nil: it may now. Nothing
    /// is taken.
    package mutating func delay(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> UInt64? {
        guard let limits, projects[project] != nil else { return nil }
        let now = limits.instant(clock(now))
        let delay = rates(project, limits, now).delay(ordinal, at: now)
        return delay > 0 ? delay : nil
    }

    /// The ordinal's holder has left; the next one's buckets are full.
    package mutating func renew(
        _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) {
        guard let limits, projects[project] != nil else { return }
        let now = limits.instant(clock(now))
        rates(project, limits, now).renew(ordinal, at: now)
    }

    /// What was taken since the last call of this or of `abandon` is taken for good.
    package mutating func committed() {
        for rates in changed { rates.committed() }
        changed.removeAll(keepingCapacity: true)
    }

    /// What was taken since then is given back.
    package mutating func abandon() {
        for rates in changed { rates.abandon() }
        changed.removeAll(keepingCapacity: true)
    }

    /// Whether a project's instances have buckets of their own, and bytes of those.
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

    /// While the given clock is behind where it was, no time passes.
    private mutating func clock(_ now: Instant) -> UInt64 {
        if now < last { behind += UInt64(last.rawValue - now.rawValue) }
        last = now
        return UInt64(clamping: now.millisecondsSince1970) + behind
    }
}
