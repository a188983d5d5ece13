// SPDX-License-Identifier: Apache-2.0
//
// Topics and sets: names, forms, counts, and subscriptions both ways. The two ways are compared by sums (Universe). If
// an instance's sums differ, a second walk over the sets finds the subscriptions that exist only one way. Rests on
// Checker.

import MartletBase
import MartletBits
import MartletRows

extension Checker {
    mutating func checkTopics() throws(StorageError) {
        let number = project.number
        try forEachRow(of: .topics, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let at = entry.key.topic
            // A topic with a damaged record still owns its set.
            it.topics[at.rawValue] = .max
            let topic: Topic
            do throws(StorageError) {
                guard let found = try it.transaction.topics.topic(at, in: number) else { return }
                topic = found
            } catch {
                try it.noteDamage(error, in: number)
                return
            }
            it.topics[at.rawValue] = topic.subscriberCount
            it.report.counts.topics += 1
            if at >= it.project.nextTopic {
                it.note(.projectCounter, "topic \(at.rawValue) was never issued")
            }
            let back = try it.raw.get(.topicNames, .topicName(topic.name.text, in: number))
            guard let back, back.count >= 4,
                back.loadLittleEndian(UInt32.self, at: 0) == at.rawValue
            else {
                it.note(.topicIndex, "the name of topic \(at.rawValue) does not lead to it")
                return
            }
        }
        try forEachRow(of: .topicNames, keyBytes: 5...511) { (it, entry) throws(StorageError) in
            guard entry.value.count > 4 else {
                it.note(.damagedRecord, "topicNames: a value of \(entry.value.count) bytes")
                return
            }
            let at = TopicNumber(entry.value.loadLittleEndian(UInt32.self, at: 0))
            let name = entry.value.dropFirst(4)
            let key = Key.topicName(String(decoding: name, as: UTF8.self), in: number)
            let topic = try it.raw.get(.topics, .topic(at, in: number))
            guard let topic, topic.count >= 8, topic.dropFirst(8).elementsEqual(name),
                key.bytes.elementsEqual(entry.key)
            else {
                it.note(.topicIndex, "a name leads to topic \(at.rawValue), which has another")
                return
            }
        }
        if UInt64(topics.count) != project.topicCount {
            note(
                .projectCounter,
                "its record counts \(project.topicCount) topics, there are \(topics.count)")
        }
    }

    // MARK: Sets

    /// A set during the walk over the rows.
    private struct SetWalk {
        var number: UInt32
        var rowCount = 0
        /// The last block of the latest span.
        var spanEnd: UInt32?
        /// Members that belong in the set, and unregistered subscribers of a topic.
        var members: UInt64 = 0
        /// Whether a row is unreadable. Missing members are then not reported.
        var isDamaged = false
    }

    mutating func checkSets() throws(StorageError) {
        var walk: SetWalk?
        var seen: Set<UInt32> = []
        try forEachRow(of: .sets, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let set = entry.key.set
            if walk?.number != set {
                if let done = walk { it.finish(done) }
                seen.insert(set)
                walk = SetWalk(number: set)
                if !it.hasOwner(set) { it.note(.setWithoutOwner, Self.name(set)) }
            }
            it.visit(entry, &walk!)
        }
        if let walk { finish(walk) }
        // Sets without rows.
        for (topic, count) in topics where !seen.contains(topic) && count != .max {
            note(.topicCount, "topic \(topic) counts \(count) subscribers and has none")
        }
        for (set, count) in standing where !seen.contains(set) {
            note(.standingSet, "\(Self.name(set)) lacks \(count) of its instances")
        }
    }

    private func hasOwner(_ set: UInt32) -> Bool {
        if SetKey.isTopic(set) { return topics[set] != nil }
        if set == SetKey.number(of: .everyone) || set == SetKey.number(of: .inactive) {
            return true
        }
        if Platform.allCases.contains(where: { SetKey.number(of: .platform($0)) == set }) {
            return true
        }
        return set & 0xF000_0000 == 0xA000_0000 && apps[set & 0x0FFF_FFFF] != nil
    }

    private static func name(_ set: UInt32) -> String {
        switch set & 0xF000_0000 {
        case 0: "the set of topic \(set)"
        case 0x8000_0000: "the set of everyone"
        case 0x9000_0000: "the set of platform \(set & 0x0FFF_FFFF)"
        case 0xA000_0000: "the set of app \(set & 0x0FFF_FFFF)"
        case 0xB000_0000: "the inactive set"
        default: "set \(set)"
        }
    }

    private mutating func visit(_ entry: Cursor.Entry, _ walk: inout SetWalk) {
        let set = walk.number
        let block = entry.key.block
        walk.rowCount += 1
        let isSmallForm = block == SetKey.smallTopicBlock
        if isSmallForm, SetKey.isTopic(set), walk.rowCount > 1 {
            note(.setForm, "\(Self.name(set)) has blocks and a list of ordinals")
            walk.isDamaged = true
            return
        }
        if isSmallForm && !SetKey.isTopic(set) || !isSmallForm && block > BlockGeometry.blockMax {
            note(.setForm, "\(Self.name(set)) has a block \(block)")
            walk.isDamaged = true
            return
        }
        if let end = walk.spanEnd, !isSmallForm, block <= end {
            note(.setForm, "\(Self.name(set)), block \(block), is in a span too")
            walk.isDamaged = true
            return
        }
        if !isSmallForm, entry.value.count & 1 != 0 {
            walk.spanEnd = block | UInt32(RunSpan.blockCount - 1)
        }
        guard let row = SetRow(checking: entry.value, block: block) else {
            note(.setForm, "\(Self.name(set)), block \(block), of \(entry.value.count) bytes")
            walk.isDamaged = true
            return
        }
        let strangers = compare(row, of: set, &walk)
        for ordinal in strangers {
            if SetKey.isTopic(set) {
                note(.subscriberNotRegistered, "ordinal \(ordinal) in \(Self.name(set))")
            } else {
                note(.standingSet, "ordinal \(ordinal) does not belong into \(Self.name(set))")
            }
        }
    }

    /// Counts a row's members that belong in the set, and all subscribers of a topic.
    /// - Returns: the members that are no instances, or whose app doesn't belong in the set.
    private mutating func compare(
        _ row: SetRow, of set: UInt32, _ walk: inout SetWalk
    ) -> [UInt32] {
        var strangers: [UInt32] = []
        var count: UInt64 = 0
        row.forEachBlock { block, members in
            if SetKey.isTopic(set) {
                count += UInt64(members.count)
                universe.add(topic: set, to: members, ofBlock: block) { strangers.append($0) }
            } else {
                walk.members += universe.count(
                    members, ofBlock: block, belongs: belonging(to: set)
                ) { strangers.append($0) }
            }
            if set == SetKey.number(of: .inactive) {
                universe.setInactive(members, ofBlock: block)
            }
        }
        report.counts.subscriptions += count
        walk.members += count
        return strangers
    }

    /// Whether an app's instances belong in a set; nil: all do.
    private func belonging(to set: UInt32) -> ((_ app: UInt32) -> Bool)? {
        switch set & 0xF000_0000 {
        case 0x9000_0000:
            return { [apps] app in
                apps[app].map { UInt32($0.rawValue) == set & 0x0FFF_FFFF } ?? true
            }
        case 0xA000_0000: return { app in app == set & 0x0FFF_FFFF }
        default: return nil
        }
    }

    private mutating func finish(_ walk: SetWalk) {
        guard !walk.isDamaged else {
            unreadable.insert(walk.number)
            return
        }
        if let count = topics[walk.number] {
            if count != walk.members, count != .max {
                note(
                    .topicCount,
                    "topic \(walk.number) counts \(count) subscribers and has \(walk.members)")
            }
        } else if let count = standing[walk.number], walk.members < count {
            note(
                .standingSet,
                "\(Self.name(walk.number)) lacks \(count - walk.members) of its instances")
        }
    }

    // MARK: The reverse index

    /// Most instances with differing sums that are looked into.
    private static let suspectsMax = 10_000

    mutating func checkReverseIndex() throws(StorageError) {
        // Instances with differing sums, and their lists of topics.
        var suspects: [UInt32: [UInt32]] = [:]
        func suspect(_ ordinal: UInt32, _ list: [UInt32]) {
            if suspects.count < Self.suspectsMax { suspects[ordinal] = list }
        }
        try forEachRow(of: .instanceTopics, keyBytes: 8...8) { (it, entry) throws(StorageError) in
            let ordinal = entry.key.ordinal.rawValue
            guard let sum = Self.topicSum(entry.value) else {
                it.note(.damagedRecord, "instanceTopics: the list of ordinal \(ordinal)")
                _ = it.universe.settle(ordinal, sum: 0)
                return
            }
            guard it.universe.contains(ordinal) else {
                it.note(.reverseIndex, "ordinal \(ordinal) has topics and is not registered")
                return
            }
            if !it.universe.settle(ordinal, sum: sum) {
                suspect(ordinal, Self.topicList(entry.value))
            }
        }
        universe.forEachUnsettled { suspect($0, []) }
        guard !suspects.isEmpty else { return }
        var found: Set<UInt64> = []
        try forEachRow(of: .sets, keyBytes: 12...12) { (it, entry) throws(StorageError) in
            let topic = entry.key.set
            let block = entry.key.block
            guard SetKey.isTopic(topic), let row = SetRow(checking: entry.value, block: block)
            else { return }
            row.forEachOrdinal { ordinal in
                guard let list = suspects[ordinal] else { return }
                found.insert(UInt64(ordinal) << 32 | UInt64(topic))
                if !list.contains(topic) {
                    it.note(
                        .reverseIndex,
                        "ordinal \(ordinal) is in topic \(topic), which is not in its list")
                }
            }
        }
        for (ordinal, list) in suspects.sorted(by: { $0.key < $1.key }) {
            for topic in list
            where !unreadable.contains(topic)
                && !found.contains(UInt64(ordinal) << 32 | UInt64(topic))
            {
                note(
                    .reverseIndex,
                    "ordinal \(ordinal) has topic \(topic) in its list and is not in it")
            }
        }
    }

    private static func topicList(_ value: UnsafeRawBufferPointer) -> [UInt32] {
        (0..<value.count / 4).map { value.loadLittleEndian(UInt32.self, at: $0 * 4) }
    }

    /// The sum over an instance's list of topics; nil if the list is invalid.
    private static func topicSum(_ value: UnsafeRawBufferPointer) -> UInt64? {
        guard value.count % 4 == 0, !value.isEmpty else { return nil }
        var sum: UInt64 = 0
        var previous: UInt32?
        for offset in stride(from: 0, to: value.count, by: 4) {
            let topic = value.loadLittleEndian(UInt32.self, at: offset)
            guard previous.map({ $0 < topic }) ?? true else { return nil }
            sum &+= Universe.weight(topic)
            previous = topic
        }
        return sum
    }
}
