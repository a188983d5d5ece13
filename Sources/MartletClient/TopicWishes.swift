// SPDX-License-Identifier: Apache-2.0
//
// Which wishes about topics the broker has not heard yet (DEV-2). Pure. Rests on AskedTopics.

import MartletBase

/// The latest wish about each topic. A wish of an earlier run is sent to the broker once more, unless the
/// application replaces the wish before.
package struct TopicWishes: Sendable {
    /// A wish about a topic. The number tells wishes about one topic apart.
    package struct Wish: Sendable, Hashable {
        package var topic: String
        package var operation: TopicOperation
        fileprivate var number: UInt64
    }

    private var wishes: [String: Wish] = [:]
    private var wishesEver: UInt64 = 0
    /// Topics with a wish of an earlier run that the broker has not settled.
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

    /// Records a wish. The caller also sends the wish to the broker.
    package mutating func ask(_ operation: TopicOperation, _ topic: String) -> Wish {
        wishesEver += 1
        let wish = Wish(topic: topic, operation: operation, number: wishesEver)
        wishes[topic] = wish
        unsaid.remove(topic)
        return wish
    }

    /// The latest wish about a topic.
    package func last(about topic: String) -> Wish? { wishes[topic] }

    /// Withdraws a wish that could not be saved. The earlier wish holds again and is sent once more.
    package mutating func takeBack(_ wish: Wish, for earlier: Wish?) {
        guard isLast(wish) else { return }
        wishes[wish.topic] = earlier
        if earlier != nil { unsaid.insert(wish.topic) }
    }

    /// True if the wish is still the latest about its topic.
    package func isLast(_ wish: Wish) -> Bool { wishes[wish.topic] == wish }

    /// Records that the broker fulfilled a wish. A subscription stays a wish for later runs.
    package mutating func done(_ wish: Wish) {
        guard isLast(wish) else { return }
        unsaid.remove(wish.topic)
        if wish.operation == .unsubscribe { wishes[wish.topic] = nil }
    }

    /// Drops a wish that the broker refuses for good.
    package mutating func forget(_ wish: Wish) {
        guard isLast(wish) else { return }
        unsaid.remove(wish.topic)
        wishes[wish.topic] = nil
    }

    /// Leaves a wish to the next run.
    package mutating func giveUp(_ wish: Wish) {
        if isLast(wish) { unsaid.remove(wish.topic) }
    }

    /// The wishes to send next: wishes of one operation up to `bytesMax` bytes, but at least one wish.
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
