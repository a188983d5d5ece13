// SPDX-License-Identifier: Apache-2.0
//
// QUO-1 for one project. Nobody gets more than a device that got every message of the project would:
// the virtual device. While its buckets hold, nobody is over a limit, and it is enough to keep in mind
// who was sent what since they were last full. When they do not, or that becomes too much to keep in
// mind, everyone's buckets are worked out from it, and kept until those of the virtual device are full
// again: then everyone's are. Rests on RatePages.

import MartletBase
import MartletBits
import MartletRows

/// Messages to the same instances, one after the other. What they did to a bucket: one that was full at
/// x is full at x + count tokens later, but not before `earliest`.
struct RateRun {
    let recipients: Recipients
    var count: UInt64
    var earliest: RatePair<UInt64>

    func isFor(_ others: Recipients) -> Bool {
        switch (recipients, others) {
        case (.one(let a), .one(let b)): a == b
        case (.many(let a), .many(let b)): a === b
        default: false
        }
    }
}

/// Every device's buckets of one project.
final class ProjectRates {
    private enum Event {
        case run(RateRun)
        /// The ordinal has a new holder, whose buckets are full.
        case renewed(Ordinal)
    }

    /// What a transaction did to everyone's buckets, in case it fails.
    private enum Step {
        case took(Recipients)
        case renewed(Ordinal, before: RatePair<UInt64>)
    }

    /// What was when the transaction began.
    private struct Beginning {
        var virtual: RatePair<UInt64>
        var isArmed: Bool
        var eventCount: Int
        var last: Event?
        var weight: Int
    }

    /// Past so much to be worked out, it is: that takes some 0.1 s by then.
    private static let weightMax = 1 << 25

    private let limits: RateLimits
    /// When the virtual device's buckets are full again.
    private var virtual: RatePair<UInt64>
    /// Since when the virtual device's buckets have not been full.
    private var start: RatePair<UInt64>
    /// What happened since then, until it is armed for good.
    private var events: [Event] = []
    private var weight = 0
    /// Armed: everyone's buckets.
    private var pages: RatePages?
    private var beginning: Beginning?
    private var steps: [Step] = []

    init(limits: RateLimits, at now: RatePair<UInt64>) {
        self.limits = limits
        virtual = now
        start = now
    }

    var isArmed: Bool { pages != nil }
    var bytes: Int { pages?.bytes ?? 0 }

    func take(_ recipients: Recipients, at now: RatePair<UInt64>) -> RateGrant {
        begin()
        if virtual.minute <= now.minute, virtual.hour <= now.hour { clear(at: now) }
        if pages == nil {
            let isTooMuch =
                weight > Self.weightMax || now.minute - start.minute > RatePages.reach / 2
                || now.hour - start.hour > RatePages.reach / 2
            if !isTooMuch, let minute = limits.minute.taking(virtual.minute, at: now.minute),
                let hour = limits.hour.taking(virtual.hour, at: now.hour)
            {
                virtual = RatePair(minute, hour)
                note(recipients, at: now)
                return .everyone
            }
            arm()
        }
        // As far behind as anyone can be at all.
        virtual.minute = min(
            max(virtual.minute, now.minute) + limits.minute.cost, now.minute + limits.minute.span)
        virtual.hour = min(
            max(virtual.hour, now.hour) + limits.hour.cost, now.hour + limits.hour.span)
        let granted: Recipients
        switch recipients {
        case .one(let ordinal):
            pages?.rebase(now)
            let full = pages?.full(ordinal) ?? now
            guard let minute = limits.minute.taking(full.minute, at: now.minute),
                let hour = limits.hour.taking(full.hour, at: now.hour)
            else {
                return .nobody(
                    retryMilliseconds: max(
                        limits.minute.delay(full.minute, at: now.minute),
                        limits.hour.delay(full.hour, at: now.hour)))
            }
            pages?.set(RatePair(minute, hour), of: ordinal)
            granted = recipients
        case .many(let set):
            granted = .many(pages?.take(set, at: now) ?? set)
        }
        if beginning?.isArmed == true { steps.append(.took(granted)) }
        return granted.count == recipients.count ? .everyone : .some(granted)
    }

    /// Milliseconds until an instance has a token in both buckets.
    func delay(_ ordinal: Ordinal, at now: RatePair<UInt64>) -> UInt64 {
        func delay(_ full: RatePair<UInt64>) -> UInt64 {
            max(
                limits.minute.delay(full.minute, at: now.minute),
                limits.hour.delay(full.hour, at: now.hour))
        }
        // Nobody is further behind than the virtual device.
        guard delay(virtual) > 0 else { return 0 }
        begin()
        if pages == nil { arm() }
        pages?.rebase(now)
        guard let full = pages?.full(ordinal) else { return 0 }
        return delay(full)
    }

    /// The ordinal's holder has left.
    func renew(_ ordinal: Ordinal, at now: RatePair<UInt64>) {
        begin()
        if pages == nil {
            guard !events.isEmpty else { return }
            events.append(.renewed(ordinal))
            weight += 16
        } else {
            if beginning?.isArmed == true {
                steps.append(.renewed(ordinal, before: pages?.full(ordinal) ?? now))
            }
            pages?.set(now, of: ordinal)
        }
    }

    func committed() {
        beginning = nil
        steps.removeAll(keepingCapacity: true)
        if isArmed {
            events = []
            weight = 0
        }
    }

    /// A token taken at an instant and given back leaves a bucket as if nothing had been, for all that
    /// comes later than that instant.
    func abandon() {
        guard let beginning else { return }
        virtual = beginning.virtual
        if beginning.isArmed {
            for step in steps.reversed() {
                switch step {
                case .took(let recipients): pages?.giveBack(recipients)
                case .renewed(let ordinal, let before): pages?.set(before, of: ordinal)
                }
            }
        } else {
            pages = nil
            events.removeLast(events.count - beginning.eventCount)
            if let last = beginning.last { events[events.count - 1] = last }
            weight = beginning.weight
        }
        committed()
    }

    private func begin() {
        guard beginning == nil else { return }
        beginning = Beginning(
            virtual: virtual, isArmed: isArmed, eventCount: events.count, last: events.last,
            weight: weight)
    }

    /// Everyone's buckets are full: nothing that was matters any more.
    private func clear(at now: RatePair<UInt64>) {
        virtual = now
        start = now
        events.removeAll()
        weight = 0
        pages = nil
        steps.removeAll()
        beginning = Beginning(
            virtual: now, isArmed: false, eventCount: 0, last: nil, weight: 0)
    }

    private func note(_ recipients: Recipients, at now: RatePair<UInt64>) {
        if case .run(var run)? = events.last, run.isFor(recipients) {
            run.count += 1
            run.earliest.minute = max(run.earliest.minute, now.minute) + limits.minute.cost
            run.earliest.hour = max(run.earliest.hour, now.hour) + limits.hour.cost
            events[events.count - 1] = .run(run)
            return
        }
        events.append(
            .run(
                RateRun(
                    recipients: recipients, count: 1,
                    earliest: RatePair(
                        now.minute + limits.minute.cost, now.hour + limits.hour.cost))))
        weight += 64
        if case .many(let set) = recipients { weight += Int(set.count) + set.bytes.count / 8 }
    }

    private func arm() {
        var pages = RatePages(limits: limits, base: start)
        for event in events {
            switch event {
            case .run(let run): pages.apply(run)
            case .renewed(let ordinal): pages.set(start, of: ordinal)
            }
        }
        self.pages = consume pages
    }
}
