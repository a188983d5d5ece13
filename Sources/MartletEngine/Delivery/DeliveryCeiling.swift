// SPDX-License-Identifier: Apache-2.0
//
// FAN-7: so many deliveries of fanouts per second over all loops. One leaky bucket, in whole numbers,
// on the clock it is given: a delivery fills it by 1000 and a millisecond drains it by the rate. It
// holds what 20 milliseconds allow (one delivery at least), so that loops may sleep between turns.
//
// A loop takes a part of the bucket's room at a time and uses it up before it takes more. What it has
// not used after 20 milliseconds is void: the bucket has drained as much meanwhile. So in any window
// of w seconds there are at most rate × w + 2 × the bucket deliveries, and beyond that only what the
// last session of a turn got at once, which is paid for before anything else is allowed.
//
// Rests on MartletBase.

public import MartletBase
import Synchronization

/// The ceiling of one broker.
public final class DeliveryCeiling: Sendable {
    private struct State {
        /// How full the bucket is, at `last`. More than full: to be paid for first.
        var level: Int64 = 0
        var last = Instant(rawValue: .min)
    }

    private let perSecond: Int64
    private let capacity: Int64
    private let state = Mutex(State())

    static let costOfOne: Int64 = 1000
    static let bucketMilliseconds: Int64 = 20

    /// - Parameter perSecond: 1 to `Limits.deliveriesPerSecondMax`.
    public init(perSecond: Int) {
        self.perSecond = Int64(min(max(perSecond, 1), Limits.deliveriesPerSecondMax))
        // What a clock of whole milliseconds brings too late is not lost.
        capacity = max(
            self.perSecond * Self.bucketMilliseconds, Self.costOfOne + self.perSecond)
    }

    /// Deliveries that an empty bucket takes.
    public var burst: Int { Int(capacity / Self.costOfOne) }

    /// - Returns: how many of `count` deliveries are allowed.
    func take(_ count: Int, at now: Instant) -> Int {
        state.withLock { state in
            drain(&state, now)
            let room = max(capacity - state.level, 0) / Self.costOfOne
            let granted = min(Int64(count), room)
            state.level += granted * Self.costOfOne
            return Int(granted)
        }
    }

    /// Deliveries that were not asked for.
    func pay(_ count: Int) {
        state.withLock { $0.level += Int64(count) * Self.costOfOne }
    }

    /// Milliseconds until one delivery is allowed.
    func wait(at now: Instant) -> Int {
        state.withLock { state in
            drain(&state, now)
            let over = state.level + Self.costOfOne - capacity
            return over > 0 ? Int((over + perSecond - 1) / perSecond) : 0
        }
    }

    /// While the clock is set back no time passes.
    private func drain(_ state: inout State, _ now: Instant) {
        guard now > state.last else { return }
        if state.last.rawValue != .min {
            let passed = now.rawValue.subtractingReportingOverflow(state.last.rawValue)
            let needed = (state.level + perSecond - 1) / perSecond
            let isEmpty = passed.overflow || passed.partialValue >= needed
            state.level = isEmpty ? 0 : state.level - passed.partialValue * perSecond
        }
        state.last = now
    }
}

/// One loop's part of the ceiling.
public struct DeliveryAllowance: Sendable {
    private let ceiling: DeliveryCeiling
    /// Taken and not used yet.
    private var left = 0
    private var taken = Instant(rawValue: .min)
    private let atOnceMax: Int

    public init(_ ceiling: DeliveryCeiling) {
        self.ceiling = ceiling
        atOnceMax = max(1, ceiling.burst / 4)
    }

    /// - Returns: how many deliveries the next turn may make.
    public mutating func next(at now: Instant) -> Int {
        dropVoid(now)
        if left == 0 {
            left = ceiling.take(atOnceMax, at: now)
            taken = now
        }
        return left
    }

    /// So many were made.
    public mutating func use(_ count: Int) {
        if count > left { ceiling.pay(count - left) }
        left = max(0, left - count)
    }

    /// Milliseconds until a turn may make one.
    public mutating func wait(at now: Instant) -> Int {
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
