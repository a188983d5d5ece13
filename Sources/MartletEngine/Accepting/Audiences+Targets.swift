// SPDX-License-Identifier: Apache-2.0
//
// Turns a target into a set of instances, as of now (CON-5). Rests on the ledgers, MartletCondition and Audiences+Several.

package import MartletBase
import MartletBits
import MartletCondition
import MartletRows

/// A target's instances, before platforms and quotas, and the message's `from`.
struct ResolvedTarget {
    enum Instances {
        case one(Instance)
        case many(RecipientSet)
    }

    var kind: TargetKind
    /// `/topics/NAME`, or the sender ID in decimal; for a device's message to a group, the notification key.
    var from: String
    var instances: Instances
    /// The instances that a group or several targets list; nil if the answer lists none.
    var named: NamedInstances?

    /// The target of a message that has nobody left to go to. Nobody reads its `from`.
    static var nobody: ResolvedTarget {
        ResolvedTarget(kind: .token, from: "", instances: .many(.none))
    }
}

extension Audiences {
    /// Checks a message's target without working out all instances.
    /// - Returns: the results for instances that it lists.
    func check(
        _ dispatch: Dispatch, in project: Project,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> NamedResults {
        switch dispatch.target {
        case .token(let text):
            let instance = try instance(text, in: project.number, storage)
            _ = try variant(of: dispatch, for: instance, storage)
            return .none
        case .topic(let text): _ = try checked(TopicName(validating: text))
        case .condition(let text): _ = try condition(text, of: project)
        case .group(let text):
            _ = try checked(Self.groupKey(text))
            return NamedInstances(.group).results
        case .several(let targets): return try check(targets, of: dispatch, in: project, storage)
        }
        return .none
    }

    /// Works out a message's target.
    mutating func resolve(
        _ dispatch: Dispatch, in project: Project,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> ResolvedTarget {
        switch dispatch.target {
        case .token(let text):
            let instance = try addressee(text, of: dispatch, in: project.number, storage)
            lastInstance = instance
            return ResolvedTarget(
                kind: .token, from: sender(of: project), instances: .one(instance))
        case .topic(let text):
            if let from = lastTopic?.from(of: text, in: project.number) {
                return ResolvedTarget(
                    kind: .topic, from: from, instances: .many(lastTopic!.subscribers))
            }
            let name = try checked(TopicName(validating: text))
            let set = try rows(subscribers(of: name, in: project.number, storage))
            return ResolvedTarget(
                kind: .topic, from: TopicAudience.from(name), instances: .many(set))
        case .condition(let text):
            let condition = try condition(
                text, of: project, hasWaited: dispatch.number != nil)
            let set = try rows(matches(of: condition, in: project.number, storage))
            return ResolvedTarget(
                kind: .condition, from: sender(of: project), instances: .many(set))
        case .group(let text):
            let named = try members(of: text, for: dispatch, in: project.number, storage)
            return ResolvedTarget(
                kind: .group, from: sender(of: project), instances: .many(.of(named.ordinals)),
                named: named)
        case .several(let targets):
            let (set, named) = try union(of: targets, for: dispatch, in: project, storage)
            return ResolvedTarget(
                kind: .several, from: sender(of: project), instances: .many(set), named: named)
        }
    }

    /// - Parameter hasWaited: the message was accepted earlier, when the limit of topics may have been higher.
    func condition(
        _ text: String, of project: Project, hasWaited: Bool = false
    ) throws(Obstacle) -> Condition {
        try checked(
            programs.condition(
                parsing: text,
                topicsMax: hasWaited
                    ? Limits.conditionTopicsCeiling : project.conditionTopicsMax(limits)))
    }

    /// Whose token this is now; for a message that has waited, whose it was at acceptance (REG-4).
    func addressee(
        _ text: String, of dispatch: Dispatch, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> Instance {
        guard let addressee = dispatch.addressees[text] else {
            return try instance(text, in: number, storage)
        }
        guard
            let instance = try rows(
                storage.instances.instance(addressee.ordinal, in: number)),
            instance.holder == addressee.holder
        else {
            throw .refusal(
                MartletError(
                    .unregistered, "The instance has been unregistered since then.",
                    field: "token"))
        }
        return instance
    }

    /// The instance of a token.
    /// - Parameter field: what a refusal names.
    func instance(
        _ text: String, at field: String = "token", in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(Obstacle) -> Instance {
        guard let token = Token(text: text) else { throw .refusal(.noToken(at: field)) }
        guard let place = try rows(storage.instances.locate(token)) else {
            throw .refusal(
                MartletError(
                    .unregistered, "The token is not registered; drop it from your records.",
                    field: field))
        }
        guard place.project == number else {
            throw .refusal(
                MartletError(
                    .senderIDMismatch, "The token belongs to another project.", field: field))
        }
        guard let instance = try rows(storage.instances.instance(place.ordinal, in: number))
        else { throw .trouble(.tokenWithoutInstance) }
        if !bridgeFaults.isEmpty, let refusal = try rows(fault(of: instance, at: field, storage)) {
            throw .refusal(refusal)
        }
        return instance
    }

    /// Refuses an instance that only a push service reaches, while that service refuses the project's keys (GW-11).
    private func fault(
        of instance: Instance, at field: String, _ storage: borrowing Transaction
    ) throws(StorageError) -> MartletError? {
        guard
            let bridging = try storage.bridges.bridging(
                of: instance.ordinal, in: instance.project), bridging.isOnlyWay,
            let reason = bridgeFaults.reason(of: bridging.address.kind, in: instance.project)
        else { return nil }
        return MartletError(
            .thirdPartyAuthError,
            """
            The push service does not accept the project's key (\(reason)); the administrator adds \
            another.
            """, field: field)
    }

    mutating func subscribers(
        of name: TopicName, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RecipientSet {
        if let last = lastTopic, last.project == number, last.topic == name {
            return last.subscribers
        }
        let subscribers = try readSubscribers(of: name, in: number, storage)
        lastTopic = TopicAudience(project: number, topic: name, subscribers: subscribers)
        return subscribers
    }

    private func readSubscribers(
        of name: TopicName, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RecipientSet {
        guard let topic = try storage.topics.topic(named: name, in: number) else { return .none }
        var blocks = try storage.sets.blocks(of: [.topic(topic.number)], in: number)
        var builder = RecipientSetBuilder()
        var from: UInt32 = 0
        while let next = blocks.nextBlock(slot: 0, from: from) {
            invariant(next.block >= from, "A set is read in the order of its blocks.")
            builder.append(block: next.block, view: next.view, count: next.view.count)
            from = next.block + 1
        }
        try blocks.finish()
        return builder.finish()
    }

    func matches(
        of condition: Condition, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> RecipientSet {
        let blocks = try storage.sets.blocks(
            of: try Self.slots(of: condition, in: number, storage), in: number)
        var evaluator = ConditionEvaluator(condition, source: blocks)
        var builder = RecipientSetBuilder()
        while let result = evaluator.next() {
            builder.append(block: result.block, view: result.view, count: result.count)
        }
        try blocks.finish()
        return builder.finish()
    }

    /// The evaluator's slots: the condition's topics, then everyone. A topic without subscribers has no stored set, so it gets
    /// the number `nobody` (CON-6).
    static func slots(
        of condition: Condition, in number: ProjectNumber,
        _ storage: borrowing Transaction
    ) throws(StorageError) -> [InstanceSet] {
        var sets: [InstanceSet] = []
        for name in condition.topics {
            let topic = try storage.topics.topic(named: name, in: number)
            sets.append(.topic(topic?.number ?? .nobody))
        }
        sets.append(.everyone)
        return sets
    }
}

extension StorageError {
    /// A token is in the store, but its instance isn't.
    static var tokenWithoutInstance: StorageError {
        StorageError(
            operation: "read instances", code: 0,
            text: "a token has no instance; run 'martlet check'", isFull: false)
    }
}

extension TopicNumber {
    /// No topic has this number, so its set is empty. Topic numbers have 28 bits.
    package static let nobody = TopicNumber((1 << 28) - 1)
}
