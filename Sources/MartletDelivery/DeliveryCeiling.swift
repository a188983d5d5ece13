// SPDX-License-Identifier: Apache-2.0
//
// Limits the deliveries of fanouts per second, over all loops together (FAN-7). The ceiling is one leaky bucket, in whole
// numbers, on the caller's clock: a delivery fills the bucket by 1000, and a millisecond drains the bucket by the rate. The
// bucket holds the deliveries of 20 milliseconds, at least one delivery, so that loops may sleep between turns.
//
// A loop takes a part of the bucket's room at a time, and takes more only after the part is used up. A part is void
// after 20 milliseconds, because the bucket has drained by as much meanwhile. So a window of w seconds has at most
// rate × w + 2 × the bucket deliveries. Only the last session of a turn may get more at once; the excess is paid
// for before further deliveries are allowed.
//
// OPS-7: each node of a cluster has an equal part of the ceiling. Another number of nodes changes the rate from the next
// call on.
//
// Rests on NodeCount.

package import MartletBase
package import MartletEngine
import Synchronization

/// The ceiling of one broker.
package final class DeliveryCeiling: Sendable {
    private struct State {
        /// The bucket's fill at `last`. A fill above the capacity has to be paid for first.
        var level: Int64 = 0
        var last = Instant(rawValue: .min)
    }

    private let wholePerSecond: Int
    private let nodes: NodeCount?
    private let state = Mutex(State())

    /// The fill of one delivery. With 1000, the drain of a millisecond is the rate per second.
    static let costOfOne: Int64 = 1000
    /// The time, in milliseconds, whose deliveries the bucket holds.
    static let bucketMilliseconds: Int64 = 20

    /// - Parameters:
    ///   - perSecond: 1 to `Limits.deliveriesPerSecondMax`.
    ///   - nodes: the nodes that share the ceiling; nil: the broker is alone.
    package init(perSecond: Int, nodes: NodeCount? = nil) {
        wholePerSecond = min(max(perSecond, 1), Limits.deliveriesPerSecondMax)
        self.nodes = nodes
    }

    private var perSecond: Int64 { Int64(nodes?.part(of: wholePerSecond) ?? wholePerSecond) }

    /// On a clock of whole milliseconds a delivery may come up to a millisecond late. The extra room keeps the drain of
    /// this time.
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

    /// Charges deliveries that were made beyond an allowance.
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

    /// Drains the bucket for the time since the last call. No time passes while the clock is set back.
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

/// The part of the ceiling that one loop has taken.
package struct DeliveryAllowance: Sendable {
    private let ceiling: DeliveryCeiling
    /// Deliveries taken and not used yet.
    private var left = 0
    private var taken = Instant(rawValue: .min)
    private let atOnceMax: Int

    /// Makes the allowance of one loop. The loop takes at most a quarter of the ceiling's burst at a time.
    package init(_ ceiling: DeliveryCeiling) {
        self.ceiling = ceiling
        atOnceMax = max(1, ceiling.burst / 4)
    }

    /// - Returns: the number of deliveries that the next turn may make.
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
