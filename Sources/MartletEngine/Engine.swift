// SPDX-License-Identifier: Apache-2.0
//
// The engine: commands and a clock in, outcomes out. It opens no socket, reads no clock and makes no
// random bytes; what must last is in the storage transaction it is given, and nowhere else. What it
// keeps in memory (compiled conditions, a counter) may be lost or stale without harm, so commands of
// a transaction that could not be committed are simply applied again. The one thing that must not be
// stale, the last topic's subscribers, is forgotten before any command that could change them, and
// when a transaction is abandoned.
// Rests on Storage and MartletCondition.

public import MartletBase
import MartletCondition

/// Applies commands to a storage transaction. One value per broker, used by its committer alone.
public struct Engine: ~Copyable {
    let programs: SharedPrograms
    /// The subscribers of the topic that was sent to last, as long as nothing but sends came since: a
    /// burst to one topic reads them once, and loops see that its messages are for the same instances.
    var lastAudience: TopicAudience?
    /// Distinguishes messages that are not stored and were accepted in one millisecond.
    var notStoredCounter: UInt64 = 0

    public init(programs: SharedPrograms = SharedPrograms()) { self.programs = programs }

    /// - Returns: what came of it. A refusal is an outcome; only trouble with the store throws, and
    ///   then the transaction must be abandoned.
    public mutating func apply(
        _ command: Command, now: Instant, in storage: borrowing some StorageWriter & ~Copyable
    ) throws(StorageError) -> Outcome {
        switch command {
        case .send, .acknowledge: break
        default: lastAudience = nil
        }
        return switch command {
        case .createProject(let id, let senderID, let conditionTopicsMax):
            try createProject(
                id: id, senderID: senderID, conditionTopicsMax: conditionTopicsMax, in: storage)
        case .createKey(let project, let key):
            try createKey(key, projectID: project, now: now, in: storage)
        case .revokeKey(let project, let keyID):
            try revokeKey(id: keyID, projectID: project, in: storage)
        case .register(let instance):
            try register(instance, now: now, in: storage)
        case .unregister(let project, let ordinal, let holder):
            try unregister(ordinal, of: holder, in: project, storage)
        case .changeTopics(let project, let ordinal, let change, let topics, let holder):
            try changeTopics(
                of: ordinal, of: holder, in: project, change, names: topics, storage)
        case .changeTopic(let project, let topic, let change, let tokens):
            try changeTopic(topic, in: project, change, tokens: tokens, storage)
        case .send(let project, let message):
            try send(message, in: project, now: now, storage)
        case .acknowledge(let acknowledgements):
            try acknowledge(acknowledgements, storage)
        }
    }

    /// The transaction of the commands applied last was thrown away, and they will not be applied
    /// again.
    public mutating func abandon() { lastAudience = nil }

    private func acknowledge(
        _ acknowledgements: [Acknowledgement], _ storage: borrowing some StorageWriter & ~Copyable
    ) throws(StorageError) -> Outcome {
        for one in acknowledgements {
            try storage.acknowledge(
                through: one.through, single: one.single, for: one.ordinal, in: one.project)
        }
        return .done
    }
}

/// A topic's subscribers.
struct TopicAudience {
    let project: ProjectNumber
    let topic: TopicName
    let recipients: Recipients?
}

extension MartletError {
    static func noProject(_ id: String) -> MartletError {
        MartletError(
            .notFound, "There is no such project; create it with 'martlet project create'.",
            field: "project")
    }
}
