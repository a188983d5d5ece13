// SPDX-License-Identifier: Apache-2.0
//
// Topics: the record of a name, and an instance's topics. A topic's subscribers are a set (`SetLedger`). Rests on the
// rows.

package import MartletBase
import MartletBits
package import MartletRows

/// The records of topics, and each instance's topics.
package struct TopicLedger: Ledger {
    package let context: LedgerContext

    package init(_ context: LedgerContext) { self.context = context }

    package func topic(
        named name: TopicName, in project: ProjectNumber
    ) throws(StorageError) -> Topic? {
        guard let found = try raw.get(.topicNames, .topicName(name.text, in: project)) else {
            return nil
        }
        var reader = RecordReader(found, of: .topicNames)
        let number = TopicNumber(try reader.read(UInt32.self))
        guard let record = try raw.get(.topics, .topic(number, in: project)) else { return nil }
        var fields = RecordReader(record, of: .topics)
        // The record has the name that led to it, so it isn't read again.
        return Topic(
            number: number, name: name, subscriberCount: try fields.read(UInt64.self))
    }

    package func topic(
        _ number: TopicNumber, in project: ProjectNumber
    ) throws(StorageError) -> Topic? {
        guard let found = try raw.get(.topics, .topic(number, in: project)) else { return nil }
        var reader = RecordReader(found, of: .topics)
        let count = try reader.read(UInt64.self)
        let text = String(decoding: reader.rest(), as: UTF8.self)
        let name: TopicName
        do { name = try TopicName(validating: text) } catch { throw reader.damaged() }
        return Topic(number: number, name: name, subscriberCount: count)
    }

    /// The topics after `name`, in the order of their names, at most `limit`.
    package func topics(
        in project: ProjectNumber, after name: String, limit: Int
    ) throws(StorageError) -> [Topic] {
        let prefix = Key(project)
        let start = Key.topicName(name, in: project)
        let cursor = try Cursor(raw, .topicNames)
        var found = try cursor.seek(start)
        var result: [Topic] = []
        while let entry = found, prefix.isPrefix(of: entry.key), result.count < limit {
            let isStart =
                !name.isEmpty && start.isPrefix(of: entry.key)
                && entry.key.count == start.count
            if !isStart {
                var reader = RecordReader(entry.value, of: .topicNames)
                let number = TopicNumber(try reader.read(UInt32.self))
                if let topic = try topic(number, in: project) { result.append(topic) }
            }
            found = try cursor.next()
        }
        return result
    }

    package func put(
        _ topic: Topic, in project: ProjectNumber, isNew: Bool
    ) throws(StorageError) {
        invariant(SetKey.isTopic(topic.number.rawValue), "The number of a topic has 28 bits.")
        invariant(
            topic.number != .nobody, "The number of a topic without subscribers names no topic.")
        var writer = RecordWriter()
        writer.append(topic.subscriberCount)
        writer.bytes += Array(topic.name.text.utf8)
        try raw.put(.topics, .topic(topic.number, in: project), writer.bytes)
        guard isNew else { return }
        var number = RecordWriter()
        number.append(topic.number.rawValue)
        number.bytes += Array(topic.name.text.utf8)
        try raw.put(.topicNames, .topicName(topic.name.text, in: project), number.bytes)
    }

    /// Removes a topic that has no subscribers.
    package func remove(
        _ topic: Topic, in project: ProjectNumber
    ) throws(StorageError) {
        invariant(topic.subscriberCount == 0, "A topic ends with its last subscriber.")
        try raw.delete(.topics, .topic(topic.number, in: project))
        try raw.delete(.topicNames, .topicName(topic.name.text, in: project))
    }

    /// The numbers of an instance's topics, sorted.
    package func topicNumbers(
        of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) -> [UInt32] {
        guard let found = try raw.get(.instanceTopics, .ordinal(ordinal, in: project)) else {
            return []
        }
        return (0..<(found.count / 4)).map { found.loadLittleEndian(UInt32.self, at: $0 * 4) }
    }

    /// Sets an instance's topics.
    /// - Parameter numbers: sorted and distinct.
    package func setTopicNumbers(
        _ numbers: [UInt32], of ordinal: Ordinal, in project: ProjectNumber
    ) throws(StorageError) {
        assert(numbers.isAscending, "The topics of an instance are sorted and distinct.")
        let key = Key.ordinal(ordinal, in: project)
        if numbers.isEmpty {
            try raw.delete(.instanceTopics, key)
        } else {
            try raw.put(.instanceTopics, key, PackedList.bytes(of: numbers))
        }
    }
}
