// SPDX-License-Identifier: Apache-2.0
//
// Which topics an application has asked for (DEV-2): what it gives back to the client at its next start,
// so that the broker hears of it again, and what of that the broker has not heard yet. Pure.

import MartletBase

/// Everything that an application asked for about topics and that is still to hold. Keep it with the
/// credentials.
public struct AskedTopics: Sendable, Hashable, Codable {
    /// To be subscribed to. Sorted.
    public var subscriptions: [String]
    /// To be unsubscribed from, where the broker has not answered yet. Sorted.
    public var unsubscriptions: [String]

    public init(subscriptions: [String] = [], unsubscriptions: [String] = []) {
        self.subscriptions = subscriptions
        self.unsubscriptions = unsubscriptions
    }
}

/// DEV-2: what was asked for in an earlier run, and will not be: trying again cannot help.
public struct TopicRefusal: Sendable, Hashable {
    public var topic: String
    public var operation: TopicOperation
    public var error: MartletError
}

/// Each topic's last wish. One that was asked for in an earlier run is said once more, unless it is
/// asked for anew before that.
package struct TopicWishes: Sendable {
    /// Tells a wish from a later one about the same topic.
    package struct Wish: Sendable, Hashable {
        package var topic: String
        package var operation: TopicOperation
        fileprivate var number: UInt64
    }

    private var wishes: [String: Wish] = [:]
    private var wishesEver: UInt64 = 0
    /// Of an earlier run, and not said yet.
    private var unsaid: Set<String> = []

    package init(_ asked: AskedTopics = AskedTopics()) {
        for topic in asked.subscriptions { _ = ask(.subscribe, topic) }
        for topic in asked.unsubscriptions { _ = ask(.unsubscribe, topic) }
        unsaid = Set(wishes.keys)
    }

    package var asked: AskedTopics {
        func topics(_ operation: TopicOperation) -> [String] {
            wishes.values.filter { $0.operation == operation }.map(\.topic).sorted()
        }
        return AskedTopics(
            subscriptions: topics(.subscribe), unsubscriptions: topics(.unsubscribe))
    }

    /// Whoever asks says it to the broker too.
    package mutating func ask(_ operation: TopicOperation, _ topic: String) -> Wish {
        wishesEver += 1
        let wish = Wish(topic: topic, operation: operation, number: wishesEver)
        wishes[topic] = wish
        unsaid.remove(topic)
        return wish
    }

    /// What holds about a topic.
    package func last(about topic: String) -> Wish? { wishes[topic] }

    /// It was not asked for after all: what held before holds again, and is said once more.
    package mutating func takeBack(_ wish: Wish, for earlier: Wish?) {
        guard isLast(wish) else { return }
        wishes[wish.topic] = earlier
        if earlier != nil { unsaid.insert(wish.topic) }
    }

    /// Whether nobody has asked for something about the topic since.
    package func isLast(_ wish: Wish) -> Bool { wishes[wish.topic] == wish }

    /// The broker has done it. A subscription is to last.
    package mutating func done(_ wish: Wish) {
        guard isLast(wish) else { return }
        unsaid.remove(wish.topic)
        if wish.operation == .unsubscribe { wishes[wish.topic] = nil }
    }

    /// It will not be done, now or later.
    package mutating func forget(_ wish: Wish) {
        guard isLast(wish) else { return }
        unsaid.remove(wish.topic)
        wishes[wish.topic] = nil
    }

    /// It is left to the next run.
    package mutating func giveUp(_ wish: Wish) {
        if isLast(wish) { unsaid.remove(wish.topic) }
    }

    /// What to say next: as much of one operation as fits into a request, and one at least.
    package func next(bytesMax: Int) -> [Wish] {
        var next: [Wish] = []
        var bytes = 0
        for wish in unsaid.sorted().compactMap({ wishes[$0] }) {
            if let first = next.first, first.operation != wish.operation { continue }
            bytes += wish.topic.utf8.count + MemoryLayout<UInt16>.size
            guard next.isEmpty || bytes <= bytesMax else { break }
            next.append(wish)
            if next.count == Limits.topicsPerDeviceRequestMax { break }
        }
        return next
    }
}
