// SPDX-License-Identifier: Apache-2.0
//
// A project's buckets: eight bytes per instance, in pages of 1024. To read and write those of a million scattered instances
// takes milliseconds, limited by the speed of memory. So a fanout looks at pages first.
//
// Each page has a bound, an instant by which all its buckets are full again. As long as that leaves everybody a token, nobody
// is over a limit, and the page just remembers the change. It is made when somebody next looks into the page, or some
// fanouts later together with some other pages. All of a page's changes are made at once, while it is in the cache. Fanouts
// to the same recipients are one change. The few entries that are near a limit are kept apart, and every fanout looks at
// them. Rests on RateLimit, RateChange and MartletBits' views.

import MartletBase
import MartletBits
import MartletRows

/// Token buckets by ordinal. Those that were never touched are full.
struct RatePages: ~Copyable {
    private struct Page {
        /// When each instance's two buckets are full again, counted from `base`; nil if all are full at `base`.
        var entries: UnsafeMutablePointer<RateChange.Times>?
        /// Once all changes are made, no bucket is full later than this, except those in `near`.
        var bound: RateChange.Times = .zero
        /// Entries near a limit. For these changes are made at once.
        var near: [UInt16] = []
        /// The first change that the page still needs; `settled` if none.
        var changesFrom = Self.settled

        static let settled = UInt64.max
    }

    private static let shift = 10
    private static let pageEntries = 1 << shift
    private static let pagesPerBlockShift = Int(BlockGeometry.strideShift) - shift
    /// Most changes to remember. Each keeps its recipients in memory, at most a bit per instance.
    private static let changesMax: UInt64 = 16
    /// Most entries of a page that are kept apart.
    private static let nearMax = 32

    private let limits: RateLimits
    private var base: RatePair<UInt64>
    private var pages: UnsafeMutablePointer<Page>
    private var pageCount = 0
    private var changes: [RateChange] = []
    /// The number of the first remembered change.
    private var firstChange: UInt64 = 0
    /// Whether no page has made the last change yet, so that a fanout to the same recipients can join it.
    private var isLastWhole = false

    /// - Parameter base: an instant at which all buckets are full.
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
            + changes.reduce(0) { $0 + $1.recipients.byteCount }
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

    /// Takes a token from both buckets of each recipient that has a token in both.
    /// - Returns: these recipients.
    mutating func take(_ recipients: RecipientSet, at now: RatePair<UInt64>) -> RecipientSet {
        rebase(now)
        let instant = relative(now)
        let cost = RateChange.Times(UInt32(limits.minute.cost), UInt32(limits.hour.cost))
        // If a bucket is full later than `latest`, it has no token.
        let span = RateChange.Times(UInt32(limits.minute.span), UInt32(limits.hour.span))
        let latest = instant &+ span &- cost
        // If it is full later than `nearest`, it has less than a quarter of its tokens: it is near a limit.
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
                    // If the bound has passed, all the page's buckets are full, and earlier changes don't matter.
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
            if refusedCount > 0 {
                granted?.append(
                    block: block.block, buffer: buffer, count: block.count - refusedCount)
            } else {
                granted?.append(block: block.block, view: block.view, count: block.count)
            }
        }
        end(change, joins: joins, isWhole: isWhole)
        return if let granted { granted.finish() } else { recipients }
    }

    /// Applies a run of messages without checking limits.
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

    /// Gives each recipient a token back. Exact if they were taken no later than now.
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
    /// - Returns: its number; with `joins`, that of the last change, which has the same recipients.
    private mutating func begin(
        _ change: RateChange, mayJoin: Bool
    ) -> (number: UInt64, joins: Bool) {
        let number = firstChange + UInt64(changes.count)
        if mayJoin, isLastWhole, let last = changes.last, last.recipients === change.recipients {
            return (number - 1, true)
        }
        // Settle one page in 16, so that each is settled once while 16 changes are remembered.
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
        invariant(changes.count <= Int(Self.changesMax), "The remembered changes are bounded.")
    }

    /// Makes the changes that a page needs.
    private mutating func settle(_ index: Int) {
        let page = pages + index
        guard page.pointee.changesFrom != Page.settled else { return }
        let entries = entries(index)
        invariant(
            page.pointee.changesFrom >= firstChange, "A change is kept until each page has made it."
        )
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

    /// A page's entries, allocated if it has none.
    private mutating func entries(_ index: Int) -> UnsafeMutablePointer<RateChange.Times> {
        invariant(
            index >= 0 && index < pageCount, "There is a page for each ordinal with a bucket.")
        if let entries = pages[index].entries { return entries }
        let entries = UnsafeMutablePointer<RateChange.Times>.allocate(capacity: Self.pageEntries)
        entries.initialize(repeating: .zero, count: Self.pageEntries)
        pages[index].entries = entries
        return entries
    }

    /// - Returns: whether both buckets had a token, and it was taken.
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

    /// Finds a page's entries that are full later than `nearest`, and a bound for the others. If there are too many, it
    /// returns none, and the bound `last`.
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
        invariant(count > index, "There is a page for each ordinal.")
        pages.deallocate()
        pages = grown
        pageCount = count
    }

    private func relative(_ instant: RatePair<UInt64>) -> RateChange.Times {
        RateChange.Times(
            UInt32(clamping: max(instant.minute, base.minute) - base.minute),
            UInt32(clamping: max(instant.hour, base.hour) - base.hour))
    }

    /// How far an instant may be from the base, in units, so that adding the longest span still fits into 32 bits.
    static let reach: UInt64 = 1 << 31

    /// Moves the base to `now` if it is too far behind. Buckets that were full before stay full.
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
