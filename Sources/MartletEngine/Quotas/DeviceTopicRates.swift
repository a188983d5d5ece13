// SPDX-License-Identifier: Apache-2.0
//
// Limits how fast each device changes its own subscriptions (TOP-11). A project's devices together change at most
// `topicChangesPerSecond` subscriptions in a second (TOP-6), and a bucket is full again after `burst` × `refill`. So with the
// default limits at most 300,000 buckets of a project are not full. Full buckets are dropped when the number of buckets has
// doubled. The buckets are kept only in memory.
//
// A bucket is a number: the instant at which the bucket is full again. Rests on nothing.

import MartletBase
import MartletRows

/// The buckets of all devices.
struct DeviceTopicRates {
    private struct Device: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// With fewer buckets, full buckets are kept, because the memory is small and a search costs time.
    private static let bucketsKept = 1024

    private let burst: Int
    private let refillMilliseconds: Int64
    private var fullAt: [Device: Instant] = [:]
    private var pruneAt = DeviceTopicRates.bucketsKept
    /// The buckets that the present transaction changed, as they were before; nil: the bucket was full.
    private var before: [Device: Instant?] = [:]

    /// - Parameters:
    ///   - burst: changes that a full bucket allows; 0: no limit.
    ///   - refillSeconds: seconds in which one change comes back.
    init(burst: Int, refillSeconds: Int) {
        self.burst = burst
        refillMilliseconds = Int64(refillSeconds) * 1000
    }

    /// Milliseconds until a device may change `count` subscriptions; nil: now. More changes than the burst need a full
    /// bucket.
    mutating func delay(
        _ count: Int, _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> UInt64? {
        guard burst > 0 else { return nil }
        let (full, span) = (fullInstant(ordinal, project, now), Int64(burst) * refillMilliseconds)
        let after =
            full.millisecondsSince1970 - now.millisecondsSince1970
            + Int64(min(count, burst)) * refillMilliseconds
        // Kept, so that the bucket fills from here on also after the clock was set back.
        let device = Device(project: project, ordinal: ordinal)
        if fullAt[device] != nil { fullAt[device] = full }
        return after > span ? UInt64(after - span) : nil
    }

    /// Takes changes, after `delay` has answered nil.
    mutating func take(
        _ count: Int, _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) {
        guard burst > 0 else { return }
        let device = Device(project: project, ordinal: ordinal)
        keepBefore(device)
        let full = fullInstant(ordinal, project, now).millisecondsSince1970
        fullAt[device] = Instant(
            millisecondsSince1970: full + Int64(min(count, burst)) * refillMilliseconds)
        if fullAt.count > pruneAt {
            fullAt = fullAt.filter { $0.value > now }
            pruneAt = max(Self.bucketsKept, 2 * fullAt.count)
        }
    }

    /// Fills the bucket of an ordinal for its next holder.
    mutating func renew(_ ordinal: Ordinal, in project: ProjectNumber) {
        let device = Device(project: project, ordinal: ordinal)
        guard fullAt[device] != nil else { return }
        keepBefore(device)
        fullAt[device] = nil
    }

    /// Notes that all amounts taken since the last call of `committed` or `abandon` are final.
    mutating func committed() { before.removeAll(keepingCapacity: true) }

    /// Gives back all amounts taken since the last call of `committed` or `abandon`.
    mutating func abandon() {
        for (device, full) in before { fullAt[device] = full }
        before.removeAll(keepingCapacity: true)
    }

    /// When the bucket is full. A clock that was set back leaves no bucket emptier than empty.
    private func fullInstant(
        _ ordinal: Ordinal, _ project: ProjectNumber, _ now: Instant
    ) -> Instant {
        guard let full = fullAt[Device(project: project, ordinal: ordinal)] else { return now }
        let latest = Instant(
            millisecondsSince1970: now.millisecondsSince1970 + Int64(burst) * refillMilliseconds)
        return min(max(full, now), latest)
    }

    private mutating func keepBefore(_ device: Device) {
        if before[device] == nil { before.updateValue(fullAt[device], forKey: device) }
    }
}
