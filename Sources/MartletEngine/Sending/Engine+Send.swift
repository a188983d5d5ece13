// SPDX-License-Identifier: Apache-2.0
//
// A message is accepted: its target becomes a set of instances, at this instant (CON-5), and the
// message is kept once, with that set once, until everyone in it has it. A cost per block of
// instances, not per instance. Rests on Storage and MartletCondition.

public import MartletBase
import MartletBits
import MartletCondition

extension Engine {
    func nothingSent(_ recipientCount: UInt64, _ number: UInt64 = 0) -> Outcome {
        .accepted(
            Acceptance(messageNumber: number, recipientCount: recipientCount), fanout: nil)
    }

    mutating func send(
        _ message: SendCommand, in number: ProjectNumber, now: Instant,
        _ storage: borrowing some StorageWriter & ~Copyable
    ) throws(StorageError) -> Outcome {
        guard var project = try storage.project(number) else { return .refused(.noProject("")) }
        let timeToLive = message.timeToLiveSeconds ?? Limits.timeToLiveSecondsMax
        guard timeToLive <= Limits.timeToLiveSecondsMax else {
            return .refused(
                MartletError(
                    .invalidArgument,
                    "The time to live is 0 to \(Limits.timeToLiveSecondsMax) seconds.",
                    field: "time_to_live"))
        }
        let recipients: Recipients?
        let kind: TargetKind
        var from = String(project.senderID)
        do {
            switch message.target {
            case .token(let text):
                kind = .token
                recipients = .one(try recipient(text, in: number, storage))
            case .topic(let text):
                kind = .topic
                let name = try TopicName(validating: text)
                from = "/topics/" + name.text
                recipients = try subscribers(of: name, in: number, storage)
            case .condition(let text):
                kind = .condition
                let condition = try programs.condition(
                    parsing: text, topicsMax: project.conditionTopicsMax)
                recipients = try matches(of: condition, in: number, storage)
            }
        } catch {
            switch error {
            case let refusal as MartletError: return .refused(refusal)
            case let trouble as StorageError: throw trouble
            default: preconditionFailure("Resolving a target throws refusals and store trouble.")
            }
        }
        let count = recipients?.count ?? 0
        if message.validateOnly { return nothingSent(count) }

        let sequence: MessageSequence
        if timeToLive == 0 {
            sequence = nextNotStored(now)
        } else {
            sequence = MessageSequence(project.lastSequence.rawValue + 1)
            project.lastSequence = sequence
            try storage.put(project, isNew: false)
        }
        let messageNumber = sequence.rawValue & ~MessageSequence.notStoredBit
        guard let recipients, count > 0 else { return nothingSent(0, messageNumber) }
        let header = MessageHeader(
            sequence: sequence, accepted: now, expires: now.advanced(bySeconds: Int64(timeToLive)),
            kind: kind, priority: message.priority, from: from)
        if sequence.isStored {
            try storage.append(header, body: message.body, recipients: recipients, in: number)
        }
        return .accepted(
            Acceptance(messageNumber: messageNumber, recipientCount: count),
            fanout: Fanout(
                project: number, header: header, body: message.body, recipients: recipients,
                position: project.lastSequence))
    }

    /// 42 bits of milliseconds and 21 of a counter: distinct over restarts without being stored.
    private mutating func nextNotStored(_ now: Instant) -> MessageSequence {
        notStoredCounter &+= 1
        let milliseconds = UInt64(clamping: now.millisecondsSince1970) & (1 << 42 - 1)
        return MessageSequence(
            MessageSequence.notStoredBit | milliseconds << 21 | notStoredCounter & (1 << 21 - 1))
    }

    private func recipient(
        _ text: String, in number: ProjectNumber,
        _ storage: borrowing some StorageReader & ~Copyable
    ) throws -> Ordinal {
        let token = try Token(validating: text)
        guard let place = try storage.locate(token) else {
            throw MartletError(
                .unregistered, "The token is not registered; drop it from your records.",
                field: "token")
        }
        guard place.project == number else {
            throw MartletError(
                .senderIDMismatch, "The token belongs to another project.", field: "token")
        }
        return place.ordinal
    }

    private mutating func subscribers(
        of name: TopicName, in number: ProjectNumber,
        _ storage: borrowing some StorageReader & ~Copyable
    ) throws -> Recipients? {
        if let last = lastAudience, last.project == number, last.topic == name {
            return last.recipients
        }
        let recipients = try readSubscribers(of: name, in: number, storage)
        lastAudience = TopicAudience(project: number, topic: name, recipients: recipients)
        return recipients
    }

    private func readSubscribers(
        of name: TopicName, in number: ProjectNumber,
        _ storage: borrowing some StorageReader & ~Copyable
    ) throws -> Recipients? {
        guard let topic = try storage.topic(named: name, in: number) else { return nil }
        var blocks = try storage.blocks(of: [.topic(topic.number)], in: number)
        var builder = RecipientSetBuilder()
        var from: UInt32 = 0
        while let next = blocks.nextBlock(slot: 0, from: from) {
            builder.append(block: next.block, view: next.view, count: next.view.count)
            from = next.block + 1
        }
        try blocks.finish()
        return .many(builder.finish())
    }

    private func matches(
        of condition: Condition, in number: ProjectNumber,
        _ storage: borrowing some StorageReader & ~Copyable
    ) throws -> Recipients? {
        let blocks = try storage.blocks(
            of: try Self.slots(of: condition, in: number, storage), in: number)
        var evaluator = ConditionEvaluator(condition, source: blocks)
        var builder = RecipientSetBuilder()
        while let result = evaluator.next() {
            builder.append(block: result.block, view: result.view, count: result.count)
        }
        try blocks.finish()
        return .many(builder.finish())
    }

    /// The evaluator's slots: the condition's topics, then everyone. A topic that nobody is
    /// subscribed to has a number that no set is stored under (CON-6).
    static func slots(
        of condition: Condition, in number: ProjectNumber,
        _ storage: borrowing some StorageReader & ~Copyable
    ) throws(StorageError) -> [InstanceSet] {
        var sets: [InstanceSet] = []
        for name in condition.topics {
            let topic = try storage.topic(named: name, in: number)
            sets.append(.topic(topic?.number ?? .nobody))
        }
        sets.append(.everyone)
        return sets
    }
}

extension TopicNumber {
    /// Never given to a topic: the empty set. Topic numbers have 28 bits.
    public static let nobody = TopicNumber((1 << 28) - 1)
}
