// SPDX-License-Identifier: Apache-2.0
//
// Limits the deliveries of fanouts per second, over all loops together (FAN-7). The ceiling is one leaky bucket, in whole
// numbers, on the caller's clock: a delivery fills the bucket by 1000, and a millisecond drains the bucket by the rate. The
// bucket holds the deliveries of 20 milliseconds, at least one delivery, so that loops may sleep between turns.
//
// A loop takes part of the bucket's room, and takes more only when that is used up. After 20 milliseconds the part is void,
// because the bucket has drained by as much. So any window of w seconds has at most rate × w + 2 × the bucket deliveries.
// Only the last session of a turn may get more at once, and the excess is paid for before anything else is allowed.
//
// Of several nodes each has an equal part of the ceiling (OPS-7). When the number of nodes changes, so does the rate, from
// the next call on. Rests on ShareCount.

package import MartletBase
package import MartletEngine
import Synchronization

/// The ceiling of one broker.
package final class DeliveryCeiling: Sendable {
    private struct State {
        /// How full the bucket was at `last`. Anything above the capacity has to be paid for first.
        var level: Int64 = 0
        var last = Instant(rawValue: .min)
    }

    private let wholePerSecond: Int
    private let nodes: ShareCount?
    private let state = Mutex(State())

    /// What a delivery adds. With 1000, a millisecond drains as much as the rate per second.
    static let costOfOne: Int64 = 1000
    /// The bucket holds the deliveries of so many milliseconds.
    static let bucketMilliseconds: Int64 = 20

    /// - Parameters:
    ///   - perSecond: 1 to `Limits.deliveriesPerSecondMax`.
    ///   - nodes: the nodes that share the ceiling; nil for a lone broker.
    package init(perSecond: Int, nodes: ShareCount? = nil) {
        wholePerSecond = min(max(perSecond, 1), Limits.deliveriesPerSecondMax)
        self.nodes = nodes
    }

    private var perSecond: Int64 { Int64(nodes?.part(of: wholePerSecond) ?? wholePerSecond) }

    /// On a clock of whole milliseconds a delivery may come up to a millisecond late. The extra room keeps that from being
    /// lost.
    private static func capacity(_ perSecond: Int64) -> Int64 {
        max(perSecond * bucketMilliseconds, costOfOne + perSecond)
    }

    /// Deliveries that fit into an empty bucket.
    package var burst: Int { Int(Self.capacity(perSecond) / Self.costOfOne) }

    /// - Returns: the number of allowed deliveries, at most `count`.
    func take(_ count: Int, at now: Instant) -> Int {
        state.withLock { state in
            let perSecond = perSecond
            drain(&state, perSecond, now)
            let room = max(Self.capacity(perSecond) - state.level, 0) / Self.costOfOne
            let granted = min(Int64(count), room)
            invariant(granted >= 0, "A ceiling allows no fewer than no deliveries.")
            state.level += granted * Self.costOfOne
            return Int(granted)
        }
    }

    /// Charges deliveries that exceeded an allowance.
    func pay(_ count: Int) {
        invariant(count >= 0, "Deliveries fill the bucket.")
        state.withLock { $0.level += Int64(count) * Self.costOfOne }
    }

    /// Milliseconds until the next delivery is allowed.
    func wait(at now: Instant) -> Int {
        state.withLock { state in
            let perSecond = perSecond
            drain(&state, perSecond, now)
            let over = state.level + Self.costOfOne - Self.capacity(perSecond)
            return over > 0 ? Int((over + perSecond - 1) / perSecond) : 0
        }
    }

    /// Drains the bucket for the time since the last call. If the clock was set back, no time has passed.
    private func drain(_ state: inout State, _ perSecond: Int64, _ now: Instant) {
        guard now > state.last else { return }
        if state.last.rawValue != .min {
            let passed = now.rawValue.subtractingReportingOverflow(state.last.rawValue)
            let needed = (state.level + perSecond - 1) / perSecond
            let isEmpty = passed.overflow || passed.partialValue >= needed
            state.level = isEmpty ? 0 : state.level - passed.partialValue * perSecond
        }
        invariant(state.level >= 0, "The bucket holds no less than nothing.")
        state.last = now
    }
}

/// What one loop has taken of the ceiling.
package struct DeliveryAllowance: Sendable {
    private let ceiling: DeliveryCeiling
    /// Deliveries taken but not used yet.
    private var left = 0
    private var taken = Instant(rawValue: .min)
    private let atOnceMax: Int

    /// One loop's allowance. It takes at most a quarter of the ceiling's burst at a time.
    package init(_ ceiling: DeliveryCeiling) {
        self.ceiling = ceiling
        atOnceMax = max(1, ceiling.burst / 4)
    }

    /// - Returns: how many deliveries the next turn may make.
    package mutating func next(at now: Instant) -> Int {
        dropVoid(now)
        if left == 0 {
            left = ceiling.take(atOnceMax, at: now)
            taken = now
        }
        return left
    }

    /// Notes the deliveries of a turn.
    package mutating func use(_ count: Int) {
        invariant(count >= 0, "A turn makes no fewer than no deliveries.")
        if count > left { ceiling.pay(count - left) }
        left = max(0, left - count)
    }

    /// Milliseconds until a turn may make a delivery.
    package mutating func wait(at now: Instant) -> Int {
        dropVoid(now)
        return left > 0 ? 0 : ceiling.wait(at: now)
    }

    private mutating func dropVoid(_ now: Instant) {
        guard left > 0 else { return }
        let age = now.rawValue.subtractingReportingOverflow(taken.rawValue)
        let isVoid =
            age.overflow || age.partialValue < 0
            || age.partialValue >= DeliveryCeiling.bucketMilliseconds
        if isVoid { left = 0 }
    }
}
