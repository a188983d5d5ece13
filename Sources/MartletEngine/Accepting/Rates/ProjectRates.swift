// SPDX-License-Identifier: Apache-2.0
//
// Applies the per-device limits to a whole project, mostly without keeping a bucket per device (QUO-1). Imagine a device that
// gets every message of the project, the *virtual* device. No real one gets more. So while the virtual device has tokens,
// nobody is over a limit, and it is enough to note who received each message since its buckets were last full.
//
// When it runs out of tokens, or the notes get too long, the project is *armed*: all devices' buckets are worked out from the
// notes. They are kept until the virtual device's buckets are full again, because then everybody's are. Rests on RatePages.

import MartletBase
import MartletBits
import MartletRows

/// Messages in a row to the same recipients. A bucket that was full at x is now full at x plus the time of `count` tokens, but
/// not before `earliest`.
struct RateRun {
    let recipients: Recipients
    var count: UInt64
    var earliest: RatePair<UInt64>

    func contains(_ ordinal: Ordinal) -> Bool {
        switch recipients {
        case .one(let one): one == ordinal
        case .many(let set): set.view.contains(ordinal)
        }
    }

    func isFor(_ others: Recipients) -> Bool {
        switch (recipients, others) {
        case (.one(let a), .one(let b)): a == b
        case (.many(let a), .many(let b)): a === b
        default: false
        }
    }
}

/// The buckets of all devices of one project.
final class ProjectRates {
    private enum Event {
        case run(RateRun)
        /// The ordinal has a new holder, whose buckets are full.
        case renewed(Ordinal)
    }

    /// What this transaction changed in the pages, to be undone if it fails.
    private enum Step {
        case took(Recipients)
        case renewed(Ordinal, before: RatePair<UInt64>)
    }

    /// The state when the transaction began.
    private struct Beginning {
        var virtual: RatePair<UInt64>
        var isArmed: Bool
        var eventCount: Int
        var last: Event?
        var weight: Int
    }

    /// At this weight of the notes the project is armed, which then takes some 0.1 s.
    private static let weightMax = 1 << 25

    private let limits: RateLimits
    /// When the virtual device's buckets are full again.
    private var virtual: RatePair<UInt64>
    /// When they were last full.
    private var start: RatePair<UInt64>
    /// The events since `start`, until arming is committed.
    private var events: [Event] = []
    private var weight = 0
    /// All devices' buckets, if the project is armed.
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
        // A bucket can't lack more than all its tokens.
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
        invariant(
            granted.count <= recipients.count, "A quota grants a message to recipients alone.")
        return granted.count == recipients.count ? .everyone : .some(granted)
    }

    /// Milliseconds until an instance has a token in both buckets.
    func delay(_ ordinal: Ordinal, at now: RatePair<UInt64>) -> UInt64 {
        func delay(_ full: RatePair<UInt64>) -> UInt64 {
            max(
                limits.minute.delay(full.minute, at: now.minute),
                limits.hour.delay(full.hour, at: now.hour))
        }
        // No device lacks more than the virtual one.
        guard delay(virtual) > 0 else { return 0 }
        begin()
        if pages == nil { arm() }
        pages?.rebase(now)
        guard let full = pages?.full(ordinal) else { return 0 }
        return delay(full)
    }

    /// When an instance's buckets are full. No need to arm the project: of its notes, few are about one instance.
    func full(_ ordinal: Ordinal, at now: RatePair<UInt64>) -> RatePair<UInt64> {
        if pages != nil {
            begin()
            pages?.rebase(now)
            return pages?.full(ordinal) ?? now
        }
        var full = start
        for event in events {
            switch event {
            case .renewed(let renewed): if renewed == ordinal { full = start }
            case .run(let run):
                guard run.contains(ordinal) else { continue }
                full = RatePair(
                    max(full.minute + run.count * limits.minute.cost, run.earliest.minute),
                    max(full.hour + run.count * limits.hour.cost, run.earliest.hour))
            }
        }
        return full
    }

    /// Fills an ordinal's buckets, because its holder has unregistered.
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
        invariant(steps.isEmpty || beginning != nil, "A step belongs to a transaction.")
        beginning = nil
        steps.removeAll(keepingCapacity: true)
        if isArmed {
            events = []
            weight = 0
        }
    }

    /// Undoes this transaction. After a token was taken and given back, a bucket is as if nothing had happened.
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
            invariant(
                events.count >= beginning.eventCount,
                "A transaction forgets no events without their buckets.")
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

    /// All buckets are full: forgets all events.
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
        if case .many(let set) = recipients { weight += Int(set.count) + set.byteCount / 8 }
    }

    private func arm() {
        invariant(pages == nil, "A project is armed once.")
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
