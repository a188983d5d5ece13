// SPDX-License-Identifier: Apache-2.0
//
// One instance's mailbox as the specification tells it, kept message by message and changed at the
// moment things happen. The product keeps nothing of the kind: it computes a mailbox from a log when
// it is read. The two must never differ.
//
// Where the specification is silent, these are the rules:
//
//  1. While the instance is away, a message that is not collapsible and comes when as many such wait for
//     an acknowledgement as may be stored discards everything. While it is in doze, one of normal
//     priority does so that comes when as many such are held back: what was given is on its way, and does
//     not count.
//  2. The number discarded (STO-1) is what was stored and not acknowledged then, collapsible or not, and the
//     message that was one too many.
//  3. The instance is told when it connects, or when its doze ends, until it acknowledges that. Until then
//     further discarded messages are added to the number. What was discarded because it was inactive
//     (STO-2) is forgotten 28 days after its acceptance, or when others overflow; what was discarded by
//     STO-1 never.
//  4. What is acknowledged keeps its collapse key's place among the stored keys (COL-3) while an older one
//     is stored.
//  5. A message that is cancelled is one that expires then.
//
// Rests on the standard library.

/// What the broker stores for one instance.
struct EagerMailbox {
    /// The limits that concern what is stored; 0: none.
    struct Limits {
        var stored: Int
        var keys: Int
    }

    /// Rules that can be left out, to see whether that is noticed.
    enum BrokenRule {
        case none
        /// STO-1: a message that is replaced leaves its successor's place alone.
        case collapseKeepsFirst
        /// COL-3: the key written first goes, however recently it was written again.
        case evictsFirstWritten
        /// STO-1: the message that is one too many is stored.
        case overflowKeepsLast
        /// TTL-3: what expires in this very millisecond is still delivered.
        case expiresLate
        /// STO-1: collapsible messages are not counted among the discarded.
        case discardCountsFew
    }

    struct Item: Equatable {
        /// Rises with every message of the project.
        var serial: UInt64
        var accepted: Int64
        var expires: Int64
        var isHigh: Bool
        /// nil: not collapsible.
        var key: String?
        /// STO-2: it was discarded when it was accepted.
        var isForInactive = false
        var isAcknowledged = false
    }

    /// What is to be told of what was discarded.
    struct Notice: Equatable {
        var count: UInt64
        /// The last message that discarded any.
        var through: UInt64
    }

    /// REP-1: what became of a message. Whoever was given it and has not said so yet may still say so
    /// after it was replaced: then both are true, and either is told.
    enum Fate: Hashable, CaseIterable {
        case acknowledged, collapsed, expired, discarded, inactive, cancelled, unregistered
        case collapsedOrAcknowledged, discardedOrAcknowledged
    }

    let limits: Limits
    let brokenRule: BrokenRule
    /// By serial; not in here: it waits.
    private(set) var fates: [UInt64: Fate] = [:]
    /// What it was given, on any connection.
    var given: Set<UInt64> = []
    /// In the order of acceptance. Acknowledged ones are only here to keep their key's place.
    private(set) var stored: [Item] = []
    /// STO-1: discarded, and the instance has not said that it knows.
    private var overflow: Notice?
    /// STO-2: discarded since then.
    private var inactive: [Item] = []

    init(limits: Limits, brokenRule: BrokenRule = .none) {
        self.limits = limits
        self.brokenRule = brokenRule
    }

    /// What is to be delivered.
    var pending: [Item] { stored.filter { !$0.isAcknowledged } }

    /// What is to be told.
    var notice: Notice? {
        guard overflow != nil || !inactive.isEmpty else { return nil }
        return Notice(
            count: (overflow?.count ?? 0) + UInt64(inactive.count),
            through: inactive.last?.serial ?? overflow!.through)
    }

    // MARK: What happens

    mutating func passTime(to now: Int64) {
        let late: Int64 = brokenRule == .expiresLate ? 1 : 0
        for item in pending where item.expires + late <= now { end(item, .expired) }
        stored.removeAll { $0.expires + late <= now }
        inactive.removeAll { $0.expires <= now }
        forgetPlaces()
    }

    /// - Parameter held: rule 1: which of those that are stored wait for the instance; nil: none does, for
    ///   it is connected and ready.
    mutating func accept(_ item: Item, held: ((Item) -> Bool)?) {
        passTime(to: item.accepted)
        if item.isForInactive {
            end(item, .inactive)
            inactive.append(item)
        } else if let key = item.key {
            storeCollapsible(item, key)
        } else if let held, limits.stored > 0, held(item),
            pending.count(where: { $0.key == nil && held($0) }) >= limits.stored
        {
            discardAll(item)
        } else {
            stored.append(item)
        }
        forgetPlaces()
    }

    /// The instance has taken these messages.
    mutating func acknowledge(_ isTaken: (Item) -> Bool) {
        for index in stored.indices where isTaken(stored[index]) {
            end(stored[index], .acknowledged)
            stored[index].isAcknowledged = true
        }
        forgetPlaces()
    }

    /// The instance has said that it has taken everything up to here.
    mutating func acknowledgeNotice(through serial: UInt64) {
        if let last = overflow?.through, last <= serial { overflow = nil }
        inactive.removeAll { $0.serial <= serial }
    }

    /// The instance has taken a notice with this stream ID, if that is one.
    mutating func acknowledgeNotice(_ serial: UInt64) {
        guard overflow?.through == serial || inactive.contains(where: { $0.serial == serial })
        else { return }
        acknowledgeNotice(through: serial)
    }

    /// The message expires now.
    mutating func cancel(_ serial: UInt64, now: Int64) {
        for item in pending where item.serial == serial { end(item, .cancelled) }
        stored.removeAll { $0.serial == serial }
        forgetPlaces()
    }

    /// The instance leaves.
    mutating func leave() {
        for item in pending { end(item, .unregistered) }
    }

    private mutating func end(_ item: Item, _ fate: Fate) {
        if fates[item.serial] == nil { fates[item.serial] = fate }
    }

    private mutating func drop(_ item: Item) {
        guard !item.isAcknowledged else { return }
        end(item, given.contains(item.serial) ? .collapsedOrAcknowledged : .collapsed)
    }

    // MARK: The rules

    private mutating func discardAll(_ item: Item) {
        let all = pending + [item]
        let count = brokenRule == .discardCountsFew ? all.filter { $0.key == nil }.count : all.count
        for one in pending + [item] {
            end(one, given.contains(one.serial) ? .discardedOrAcknowledged : .discarded)
        }
        overflow = Notice(count: (overflow?.count ?? 0) + UInt64(count), through: item.serial)
        inactive = []
        stored = brokenRule == .overflowKeepsLast ? [item] : []
    }

    private mutating func storeCollapsible(_ item: Item, _ key: String) {
        if let old = stored.firstIndex(where: { $0.key == key }) {
            if brokenRule == .collapseKeepsFirst { return }
            if brokenRule == .evictsFirstWritten {
                stored[old] = item
                return
            }
            drop(stored.remove(at: old))
        } else if limits.keys > 0, stored.filter({ $0.key != nil }).count == limits.keys {
            drop(stored.remove(at: stored.firstIndex { $0.key != nil }!))
        }
        stored.append(item)
    }

    /// Rule 4: a place is kept only while an older key is stored, which no other can push out before.
    private mutating func forgetPlaces() {
        stored.removeAll { $0.isAcknowledged && $0.key == nil }
        let first = stored.firstIndex { $0.key != nil && !$0.isAcknowledged }
        let oldest = first.map { stored[$0].serial } ?? .max
        stored.removeAll { $0.isAcknowledged && $0.serial < oldest }
    }
}
