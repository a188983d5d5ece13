// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a project's instances: eight bytes an instance, in pages of 1024. Reading and writing
// the buckets of a million scattered instances is what memory bears and takes milliseconds, so a fanout
// looks at pages first: each knows an instant after which none of its buckets is full. As long as that
// leaves everybody a token nobody is over a limit, and it is enough to remember what is to be done to
// the page. That is done when the page is next looked into, or some fanouts later with a share of the
// other pages: everything at once for as long as it lies in the cache. Fanouts to the same instances
// are one thing to do. The few of a page that are near a limit are kept apart and looked at each time.
// Rests on RateLimit, RateChange and MartletBits' views.

import MartletBase
import MartletBits
import MartletRows

/// Token buckets by ordinal. Those never touched are full.
struct RatePages: ~Copyable {
    private struct Page {
        /// When an instance's two buckets are full again, counted from `base`; nil: all then.
        var entries: UnsafeMutablePointer<RateChange.Times>?
        /// No bucket but those of `near` is full later than this once all changes are made.
        var bound: RateChange.Times = .zero
        /// Entries that changes are made to at once.
        var near: [UInt16] = []
        /// The first change that is to be made to the page; `settled`: none is.
        var changesFrom = Self.settled

        static let settled = UInt64.max
    }

    private static let shift = 10
    private static let pageEntries = 1 << shift
    private static let pagesPerBlockShift = Int(BlockGeometry.strideShift) - shift
    /// Changes that are remembered. Each holds on to its recipients, a bit an instance at most.
    private static let changesMax: UInt64 = 16
    /// Entries of a page that are kept apart at most.
    private static let nearMax = 32

    private let limits: RateLimits
    private var base: RatePair<UInt64>
    private var pages: UnsafeMutablePointer<Page>
    private var pageCount = 0
    private var changes: [RateChange] = []
    /// The number of the first of them.
    private var firstChange: UInt64 = 0
    /// All pages with members of the last change's recipients have yet to be changed by it, so that
    /// what comes to the same ones can be joined to it.
    private var isLastWhole = false

    /// - Parameter base: every bucket is full then, and nothing was taken before.
    init(limits: RateLimits, base: RatePair<UInt64>) {
        self.limits = limits
        self.base = base
        pages = .allocate(capacity: 0)
    }

    deinit {
        for index in 0..<pageCount { pages[index].entries?.deallocate() }
        pages.deinitialize(count: pageCount)
        pages.deallocate()
    }

    var bytes: Int {
        let filled = (0..<pageCount).count { pages[$0].entries != nil }
        return filled * Self.pageEntries * MemoryLayout<RateChange.Times>.stride
            + pageCount * MemoryLayout<Page>.stride
            + changes.reduce(0) { $0 + $1.recipients.bytes.count }
    }

    // MARK: One instance

    mutating func full(_ ordinal: Ordinal) -> RatePair<UInt64> {
        let index = Int(ordinal.rawValue >> Self.shift)
        guard index < pageCount else { return base }
        settle(index)
        guard let entries = pages[index].entries else { return base }
        let entry = entries[Int(ordinal.rawValue) & (Self.pageEntries - 1)]
        return RatePair(base.minute + UInt64(entry.x), base.hour + UInt64(entry.y))
    }

    mutating func set(_ full: RatePair<UInt64>, of ordinal: Ordinal) {
        let value = relative(full)
        change(ordinal) { _ in value }
    }

    private mutating func change(
        _ ordinal: Ordinal, _ body: (RateChange.Times) -> RateChange.Times
    ) {
        let index = Int(ordinal.rawValue >> Self.shift)
        ensurePages(through: index)
        settle(index)
        let entry = entries(index) + (Int(ordinal.rawValue) & (Self.pageEntries - 1))
        entry.pointee = body(entry.pointee)
        pages[index].bound = RateChange.later(pages[index].bound, entry.pointee)
    }

    // MARK: Many

    /// Takes a token from both buckets of everyone who has one in each.
    /// - Returns: who had.
    mutating func take(_ recipients: RecipientSet, at now: RatePair<UInt64>) -> RecipientSet {
        rebase(now)
        let instant = relative(now)
        let cost = RateChange.Times(UInt32(limits.minute.cost), UInt32(limits.hour.cost))
        // A bucket that is full later than this has no token.
        let span = RateChange.Times(UInt32(limits.minute.span), UInt32(limits.hour.span))
        let latest = instant &+ span &- cost
        // With less than a quarter of its tokens it is near a limit.
        let nearest = latest &- RateChange.Times(span.x / 4, span.y / 4)
        let change = RateChange(recipients, added: cost, earliest: instant &+ cost)
        let (number, joins) = begin(change, mayJoin: true)
        var isWhole = true
        let view = recipients.view
        var buffer = BlockBuffer()
        var granted: RecipientSetBuilder?
        for index in 0..<view.blockCount {
            let block = view.block(at: index)
            let first = Int(block.block) << Self.pagesPerBlockShift
            ensurePages(through: first + (1 << Self.pagesPerBlockShift) - 1)
            var refusedCount = 0
            var parts = RateChange.parts(of: block.view)
            while parts != 0 {
                let part = parts.trailingZeroBitCount
                parts &= parts &- 1
                let page = pages + (first &+ part)
                let bound = RateChange.later(page.pointee.bound, instant)
                let isSafe = bound.x <= latest.x && bound.y <= latest.y
                if isSafe, !joins || page.pointee.changesFrom != Page.settled {
                    // Everything that was to be done leaves the buckets full.
                    if !joins, bound == instant { page.pointee.changesFrom = number }
                    page.pointee.changesFrom = min(page.pointee.changesFrom, number)
                    page.pointee.bound = bound &+ cost
                    if page.pointee.near.isEmpty { continue }
                    for near in page.pointee.near {
                        let bit = part << Self.shift | Int(near)
                        guard block.view.contains(bit: bit),
                            let entry = page.pointee.entries.map({ $0 + Int(near) }),
                            !Self.take(entry, instant, cost, latest)
                        else { continue }
                        if refusedCount == 0 { buffer.assign(block.view) }
                        refusedCount += 1
                        buffer.remove(bit: bit)
                    }
                    continue
                }
                isWhole = false
                settle(first + part)
                let entries = entries(first + part)
                RateChange.forEachMember(of: block.view, part: part) { bit in
                    guard !Self.take(entries + bit, instant, cost, latest) else { return }
                    if refusedCount == 0 { buffer.assign(block.view) }
                    refusedCount += 1
                    buffer.remove(bit: part << Self.shift | bit)
                }
                (page.pointee.bound, page.pointee.near) = Self.look(
                    at: entries, nearest, instant &+ span)
            }
            if refusedCount > 0, granted == nil {
                granted = RecipientSetBuilder()
                for before in 0..<index {
                    let block = view.block(at: before)
                    granted?.append(block: block.block, view: block.view, count: block.count)
                }
            }
            if granted != nil {
                granted?.append(
                    block: block.block, view: refusedCount > 0 ? buffer.view : block.view,
                    count: block.count - refusedCount)
            }
        }
        end(change, joins: joins, isWhole: isWhole)
        return if let granted { granted.finish() } else { recipients }
    }

    /// What several tokens taken one after the other do to everyone's buckets, whoever it is.
    mutating func apply(_ run: RateRun) {
        let added = RateChange.Times(
            UInt32(limits.minute.cost * run.count), UInt32(limits.hour.cost * run.count))
        let earliest = relative(run.earliest)
        switch run.recipients {
        case .one(let ordinal):
            change(ordinal) { RateChange.later($0 &+ added, earliest) }
        case .many(let set):
            let change = RateChange(set, added: added, earliest: earliest)
            let (number, _) = begin(change, mayJoin: false)
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                let first = Int(block.block) << Self.pagesPerBlockShift
                ensurePages(through: first + (1 << Self.pagesPerBlockShift) - 1)
                var parts = RateChange.parts(of: block.view)
                while parts != 0 {
                    let page = pages + (first &+ parts.trailingZeroBitCount)
                    parts &= parts &- 1
                    page.pointee.changesFrom = min(page.pointee.changesFrom, number)
                    page.pointee.bound = RateChange.later(
                        page.pointee.bound &+ added, earliest)
                }
            }
            end(change, joins: false, isWhole: true)
        }
    }

    /// Gives back a token of each. Exact as long as it was taken no later than now.
    mutating func giveBack(_ recipients: Recipients) {
        let cost = RateChange.Times(UInt32(limits.minute.cost), UInt32(limits.hour.cost))
        func less(_ full: RateChange.Times) -> RateChange.Times {
            full &- RateChange.earlier(full, cost)
        }
        switch recipients {
        case .one(let ordinal): change(ordinal, less)
        case .many(let set):
            settleAll()
            for index in 0..<set.view.blockCount {
                let block = set.view.block(at: index)
                let first = Int(block.block) << Self.pagesPerBlockShift
                var parts = RateChange.parts(of: block.view)
                while parts != 0 {
                    let part = parts.trailingZeroBitCount
                    parts &= parts &- 1
                    let entries = entries(first + part)
                    RateChange.forEachMember(of: block.view, part: part) {
                        entries[$0] = less(entries[$0])
                    }
                }
            }
        }
    }

    // MARK: Changes

    /// Makes room for a change.
    /// - Returns: its number; `joins`: that of the last one, which is for the same recipients.
    private mutating func begin(
        _ change: RateChange, mayJoin: Bool
    ) -> (number: UInt64, joins: Bool) {
        let number = firstChange + UInt64(changes.count)
        if mayJoin, isLastWhole, let last = changes.last, last.recipients === change.recipients {
            return (number - 1, true)
        }
        // Each page once for as many changes as are remembered.
        for index in stride(
            from: Int(number % Self.changesMax), to: pageCount, by: Int(Self.changesMax))
        {
            settle(index)
        }
        if changes.count == Int(Self.changesMax) {
            changes.removeFirst()
            firstChange += 1
        }
        return (number, false)
    }

    private mutating func end(_ change: RateChange, joins: Bool, isWhole: Bool) {
        isLastWhole = isWhole
        if joins {
            changes[changes.count - 1].join(change)
        } else {
            changes.append(change)
        }
    }

    /// Makes the changes of a page.
    private mutating func settle(_ index: Int) {
        let page = pages + index
        guard page.pointee.changesFrom != Page.settled else { return }
        let entries = entries(index)
        let near = page.pointee.near.map { entries[Int($0)] }
        for at in Int(page.pointee.changesFrom - firstChange)..<changes.count {
            changes[at].make(entries, page: index >> Self.pagesPerBlockShift, Self.part(index))
        }
        for (at, entry) in zip(page.pointee.near, near) { entries[Int(at)] = entry }
        page.pointee.changesFrom = Page.settled
        isLastWhole = false
    }

    private mutating func settleAll() {
        for index in 0..<pageCount { settle(index) }
        firstChange += UInt64(changes.count)
        changes.removeAll()
        isLastWhole = false
    }

    // MARK: Parts

    private static func part(_ index: Int) -> Int { index & (1 << pagesPerBlockShift - 1) }

    /// The buckets of a page, of which there are some from now on.
    private mutating func entries(_ index: Int) -> UnsafeMutablePointer<RateChange.Times> {
        if let entries = pages[index].entries { return entries }
        let entries = UnsafeMutablePointer<RateChange.Times>.allocate(capacity: Self.pageEntries)
        entries.initialize(repeating: .zero, count: Self.pageEntries)
        pages[index].entries = entries
        return entries
    }

    /// - Returns: whether there was a token in both buckets, which is taken.
    @inline(__always)
    private static func take(
        _ entry: UnsafeMutablePointer<RateChange.Times>, _ instant: RateChange.Times,
        _ cost: RateChange.Times, _ latest: RateChange.Times
    ) -> Bool {
        let full = RateChange.later(entry.pointee, instant)
        guard full.x <= latest.x, full.y <= latest.y else { return false }
        entry.pointee = full &+ cost
        return true
    }

    /// Which entries of a page are full after `nearest`, and a bound of the others; if they are too
    /// many, none of them, and a bound of all.
    private static func look(
        at entries: UnsafeMutablePointer<RateChange.Times>, _ nearest: RateChange.Times,
        _ last: RateChange.Times
    ) -> (bound: RateChange.Times, near: [UInt16]) {
        var bound = RateChange.Times.zero
        var near: [UInt16] = []
        for index in 0..<pageEntries {
            let entry = entries[index]
            if entry.x > nearest.x || entry.y > nearest.y {
                guard near.count < nearMax else { return (last, []) }
                near.append(UInt16(truncatingIfNeeded: index))
            } else {
                bound = RateChange.later(bound, entry)
            }
        }
        return (bound, near)
    }

    private mutating func ensurePages(through index: Int) {
        guard index >= pageCount else { return }
        let count = max(index + 1, pageCount * 2)
        let grown = UnsafeMutablePointer<Page>.allocate(capacity: count)
        grown.moveInitialize(from: pages, count: pageCount)
        (grown + pageCount).initialize(repeating: Page(), count: count - pageCount)
        pages.deallocate()
        pages = grown
        pageCount = count
    }

    private func relative(_ instant: RatePair<UInt64>) -> RateChange.Times {
        RateChange.Times(
            UInt32(clamping: max(instant.minute, base.minute) - base.minute),
            UInt32(clamping: max(instant.hour, base.hour) - base.hour))
    }

    /// How far instants may be from the base: with the longest span they still fit into 32 bits.
    static let reach: UInt64 = 1 << 31

    /// Counts from `now` on, if that is getting too far from the base: whatever was full before is full.
    mutating func rebase(_ now: RatePair<UInt64>) {
        guard now.minute > base.minute + Self.reach || now.hour > base.hour + Self.reach else {
            return
        }
        settleAll()
        let passed = relative(now)
        func moved(_ full: RateChange.Times) -> RateChange.Times {
            full &- RateChange.earlier(full, passed)
        }
        for index in 0..<pageCount {
            pages[index].bound = moved(pages[index].bound)
            guard let entries = pages[index].entries else { continue }
            for entry in 0..<Self.pageEntries { entries[entry] = moved(entries[entry]) }
        }
        base = now
    }
}
