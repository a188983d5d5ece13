// SPDX-License-Identifier: Apache-2.0
//
// Limits how fast each device changes its own subscriptions (TOP-11). All devices of a project together change at most
// `topicChangesPerSecond` (TOP-6), and a bucket is full again after `burst` × `refill`. So by default at most 300,000 of
// a project's buckets aren't full. Full ones are dropped whenever the number of buckets has doubled. Buckets are only in
// memory, each as the instant at which it is full again. Rests on nothing.

import MartletBase
import MartletRows

/// The buckets of all devices.
struct DeviceTopicRates {
    private struct Device: Hashable {
        let project: ProjectNumber
        let ordinal: Ordinal
    }

    /// Below this many, full buckets are kept: they take little memory, and a search takes time.
    private static let bucketsKept = 1024

    private let burst: Int
    private let refillMilliseconds: Int64
    private var fullAt: [Device: Instant] = [:]
    private var pruneAt = DeviceTopicRates.bucketsKept
    /// The buckets that this transaction has changed, as they were before; nil if it was full.
    private var before: [Device: Instant?] = [:]

    /// - Parameters:
    ///   - burst: changes that a full bucket allows; 0: no limit.
    ///   - refillSeconds: seconds in which one change comes back.
    init(burst: Int, refillSeconds: Int) {
        self.burst = burst
        refillMilliseconds = Int64(refillSeconds) * 1000
    }

    /// Milliseconds until a device may change `count` subscriptions; nil if it may now. More than the burst take a full
    /// bucket.
    mutating func delay(
        _ count: Int, _ ordinal: Ordinal, in project: ProjectNumber, at now: Instant
    ) -> UInt64? {
        guard burst > 0 else { return nil }
        let (full, span) = (fullInstant(ordinal, project, now), Int64(burst) * refillMilliseconds)
        let after =
            full.millisecondsSince1970 - now.millisecondsSince1970
            + Int64(min(count, burst)) * refillMilliseconds
        // Keep it, so that the bucket goes on filling even after the clock was set back.
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

    /// What was taken since the last `committed` or `abandon` is final.
    mutating func committed() { before.removeAll(keepingCapacity: true) }

    /// Gives back what was taken since the last `committed` or `abandon`.
    mutating func abandon() {
        for (device, full) in before { fullAt[device] = full }
        before.removeAll(keepingCapacity: true)
    }

    /// When the bucket is full. Even if the clock was set back, no bucket is emptier than empty.
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
