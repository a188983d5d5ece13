// SPDX-License-Identifier: Apache-2.0
//
// Lists things in pages (TOP-9). Each page is its own snapshot and begins after the last entry of the one before. A change
// between two pages may show or not, but nothing is listed twice. Rests on the ledgers.

package import MartletBase
import MartletBits
import MartletCondition
package import MartletRows

/// Pages of lists.
package enum Listing {
    /// One page, and whether more entries follow.
    package struct Page<Element: Sendable>: Sendable {
        /// Entries of the page, in the order of the list.
        package var entries: [Element]
        /// Whether more entries follow the page.
        package var hasMore: Bool

        package init(entries: [Element], hasMore: Bool) {
            self.entries = entries
            self.hasMore = hasMore
        }
    }

    static func check(_ limit: Int) throws(MartletError) {
        guard (1...Limits.pageEntriesMax).contains(limit) else {
            throw MartletError(
                .invalidArgument, "A page has 1 to \(Limits.pageEntriesMax) entries.",
                field: "limit")
        }
    }

    /// Bytes of entries in a page: less than a frame may carry (`Limits.brokerFrameBytesMax`).
    static let bytesPerPageMax = 192 * 1024

    /// Projects in the order of IDs, at most `limit`.
    /// - Parameter id: the last entry of the page before, or empty.
    /// - Throws: `MartletError` if `limit` is outside 1 to `Limits.pageEntriesMax`, `StorageError`.
    package static func projects(
        after id: String, limit: Int, _ storage: borrowing Transaction
    ) throws -> Page<Project> {
        try check(limit)
        var found = try storage.projects.projects(after: id, limit: limit + 1)
        let hasMore = found.count > limit
        if hasMore { found.removeLast() }
        return Page(entries: found, hasMore: hasMore)
    }

    /// Topics of a project, in the order of names, at most `limit`. A page has at most 192 KiB.
    /// - Parameter name: the last entry of the page before, or empty.
    /// - Throws: `MartletError` if `limit` is outside 1 to `Limits.pageEntriesMax`, `StorageError`.
    package static func topics(
        in project: ProjectNumber, after name: String, limit: Int,
        _ storage: borrowing Transaction
    ) throws -> Page<Topic> {
        try check(limit)
        return cut(
            try storage.topics.topics(in: project, after: name, limit: limit + 1), limit: limit)
    }

    /// Topics of an instance, in the order of names.
    package static func topics(
        of ordinal: Ordinal, in project: ProjectNumber, after name: String, limit: Int,
        _ storage: borrowing Transaction
    ) throws -> Page<Topic> {
        try check(limit)
        var all: [Topic] = []
        for number in try storage.topics.topicNumbers(of: ordinal, in: project) {
            if let topic = try storage.topics.topic(TopicNumber(number), in: project) {
                all.append(topic)
            }
        }
        all.sort { $0.name.text.utf8.lexicographicallyPrecedes($1.name.text.utf8) }
        let rest = all.drop { !name.utf8.lexicographicallyPrecedes($0.name.text.utf8) }
        return cut(Array(name.isEmpty ? all[...] : rest), limit: limit)
    }

    private static func cut(_ topics: [Topic], limit: Int) -> Page<Topic> {
        var bytes = 0
        var entries: [Topic] = []
        for topic in topics {
            bytes += topic.name.text.utf8.count + 10
            guard entries.count < limit, bytes <= bytesPerPageMax else { break }
            entries.append(topic)
        }
        return Page(entries: entries, hasMore: entries.count < topics.count)
    }

    /// The members of a group (GRP-3).
    package static func group(
        named text: String, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws -> GroupMembers {
        let name = try GroupName(validating: text)
        guard let group = try storage.groups.group(named: name, in: project) else {
            throw MartletError.noGroup
        }
        return try GroupMembers(group, in: project, storage)
    }

    /// The members of the group with the notification key; nil if there is no such group (GRP-3).
    /// - Throws: `StorageError`, also if a member is not registered.
    package static func group(
        _ key: GroupKey, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> GroupMembers? {
        guard let group = try storage.groups.group(key, in: project) else { return nil }
        return try GroupMembers(group, in: project, storage)
    }

    /// Groups of a project, in the order of names.
    package static func groups(
        in project: ProjectNumber, after name: String, limit: Int,
        _ storage: borrowing Transaction
    ) throws -> Page<Group> {
        try check(limit)
        let groups = try storage.groups.groups(in: project, after: name, limit: limit + 1)
        var bytes = 0
        var entries: [Group] = []
        for group in groups {
            bytes += group.name.text.utf8.count + groupBytes
            guard entries.count < limit, bytes <= bytesPerPageMax else { break }
            entries.append(group)
        }
        return Page(entries: entries, hasMore: entries.count < groups.count)
    }

    /// Bytes of a group's entry in a page, without its name.
    private static let groupBytes = 38

    /// Tokens of instances, in the order of ordinals.
    package struct Tokens: Sendable {
        /// All instances of the set, over all pages; 0 if the request does not count them.
        package var total: UInt64
        /// At most as many tokens as the request's limit.
        package var tokens: [Token]
        /// The first ordinal of the next page; nil at the end.
        package var next: Ordinal?
    }

    /// Tokens of a topic's subscribers, at most `limit`. A topic without subscribers has an empty page.
    /// - Parameter start: the ordinal at which the page begins.
    /// - Throws: `MartletError` if `limit` is outside 1 to `Limits.pageEntriesMax`, `StorageError`.
    package static func subscribers(
        of name: TopicName, in project: ProjectNumber, from start: Ordinal, limit: Int,
        _ storage: borrowing Transaction
    ) throws -> Tokens {
        try check(limit)
        guard let topic = try storage.topics.topic(named: name, in: project) else {
            return Tokens(total: 0, tokens: [], next: nil)
        }
        var blocks = try storage.sets.blocks(of: [.topic(topic.number)], in: project)
        var ordinals: [Ordinal] = []
        var from = start.blockIndex
        while ordinals.count <= limit, let next = blocks.nextBlock(slot: 0, from: from) {
            take(next.block, next.view, from: start, limit: limit, into: &ordinals)
            from = next.block + 1
        }
        try blocks.finish()
        return try tokens(
            of: ordinals, total: topic.subscriberCount, in: project, limit: limit, storage)
    }

    /// Tokens of the instances that a condition selects (CON-8).
    package static func audience(
        of text: String, in number: ProjectNumber, from start: Ordinal, limit: Int,
        _ programs: SharedPrograms, limits: BrokerLimits, _ storage: borrowing Transaction
    ) throws -> Tokens {
        try check(limit)
        let project = try Audience.project(number, storage)
        let condition = try programs.condition(
            parsing: text, topicsMax: project.conditionTopicsMax(limits))
        let total = try Audience.count(condition, in: number, storage)
        let slots = try Audiences.slots(of: condition, in: number, storage)
        let blocks = try storage.sets.blocks(of: slots, in: number)
        var evaluator = ConditionEvaluator(condition, source: blocks)
        evaluator.skip(to: start.blockIndex)
        var ordinals: [Ordinal] = []
        while ordinals.count <= limit, let next = evaluator.next() {
            take(next.block, next.view, from: start, limit: limit, into: &ordinals)
        }
        try blocks.finish()
        return try tokens(of: ordinals, total: total, in: number, limit: limit, storage)
    }

    /// Adds a block's ordinals from `start` on. One ordinal more than `limit` shows that another page follows.
    private static func take(
        _ block: UInt32, _ view: BlockView, from start: Ordinal, limit: Int,
        into ordinals: inout [Ordinal]
    ) {
        view.forEachBit { bit in
            let ordinal = Ordinal(block: block, bit: bit)
            if ordinal >= start, ordinals.count <= limit { ordinals.append(ordinal) }
        }
    }

    private static func tokens(
        of found: [Ordinal], total: UInt64, in project: ProjectNumber, limit: Int,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> Tokens {
        var result = Tokens(total: total, tokens: [], next: nil)
        if found.count > limit { result.next = found[limit] }
        for ordinal in found.prefix(limit) {
            if let instance = try storage.instances.instance(ordinal, in: project) {
                result.tokens.append(instance.token)
            }
        }
        return result
    }

    /// The instance of a token, and its app.
    package static func instance(
        _ token: String, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws -> (instance: Instance, app: App) {
        let ordinal = try locate(token, in: project, storage)
        guard let instance = try storage.instances.instance(ordinal, in: project),
            let app = try storage.projects.app(instance.app, in: project)
        else {
            throw StorageError.tokenWithoutInstance
        }
        return (instance, app)
    }

    /// The ordinal of the instance that has the token.
    /// - Throws: `MartletError` if the token is malformed, or is not registered in the project; `StorageError`.
    package static func locate(
        _ text: String, in project: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws -> Ordinal {
        guard let ordinal = try ordinal(of: Token(validating: text), in: project, storage) else {
            throw MartletError.unknownToken
        }
        return ordinal
    }

    /// The ordinal of the instance that has the token; nil if the token is not registered in the project.
    static func ordinal(
        of token: Token, in project: ProjectNumber, _ storage: borrowing Transaction
    ) throws(StorageError) -> Ordinal? {
        guard let place = try storage.instances.locate(token), place.project == project else {
            return nil
        }
        return place.ordinal
    }
}

extension MartletError {
    /// The refusal of a token that is not registered in the project.
    static var unknownToken: MartletError {
        MartletError(
            .notFound, "The token is not registered in this project.", field: "token")
    }
}
