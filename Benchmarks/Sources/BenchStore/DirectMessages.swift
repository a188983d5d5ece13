// SPDX-License-Identifier: Apache-2.0
//
// What a message for one instance costs in rows: appended, acknowledged, and with it deleted. A
// transaction takes as many as the committer may find waiting and is committed, without waiting for
// the disk. Rests on the engine and the store.

import Glibc
import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletStore

enum DirectMessages {
    static let instances = 100_000
    static let messages = 40_000

    static func measure(folder: String) throws {
        let store = try Store(
            StoreConfiguration(folder: folder, mapBytes: 4 << 30, durability: .os))
        let fleet = try Fleet(store, instances: instances)
        for batch in [16, 256, 4096] {
            // The first round is not counted.
            try measure(store, fleet, batch: batch, isCounted: false)
            try measure(store, fleet, batch: batch, isCounted: true)
        }
        store.close()
    }

    static func measure(_ store: Store, _ fleet: Fleet, batch: Int, isCounted: Bool) throws {
        let body = [UInt8](repeating: 0x78, count: 140)
        var random = Random(state: 0x9E37_79B9_7F4A_7C15)
        var sequence = try store.read { transaction throws in
            try transaction.projects.project(fleet.project)!.lastSequence.rawValue
        }
        var (appending, acknowledging, appendRows, acknowledgeRows) =
            (UInt64(0), UInt64(0), UInt64(0), UInt64(0))
        var engine = Engine()
        for _ in 0..<messages / batch {
            let ordinals = (0..<batch).map { _ in
                Universe.ordinal(Int(random.next() % UInt64(instances)))
            }
            var began = nanoseconds()
            try store.write { (transaction) throws(StorageError) in
                let rows = nanoseconds()
                var project = try transaction.projects.project(fleet.project)!
                for ordinal in ordinals {
                    sequence += 1
                    let message = StoredMessage(
                        sequence: MessageSequence(sequence), number: sequence,
                        accepted: fleet.now, kind: .token, from: "123456789012",
                        options: MessageOptions(),
                        variants: [
                            MessageVariant(
                                platforms: .all, expires: fleet.now.advanced(bySeconds: 2_419_200),
                                priority: .normal, collapse: .none, body: body)
                        ])
                    try transaction.accepting.append(
                        message, recipients: .one(ordinal), in: fleet.project)
                }
                project.lastSequence = MessageSequence(sequence)
                try transaction.projects.put(project, isNew: false)
                appendRows += nanoseconds() - rows
            }
            appending += nanoseconds() - began
            began = nanoseconds()
            try store.write { (transaction) throws(StorageError) in
                let rows = nanoseconds()
                var rest = Outcome.unfinished(
                    .acknowledge(
                        ordinals.map {
                            Acknowledgement(
                                project: fleet.project, ordinal: $0,
                                through: LaneMarks(MessageSequence(sequence)))
                        }))
                while case .unfinished(let command) = rest {
                    rest = try engine.apply(
                        command, now: Instant(millisecondsSince1970: 1_800_000_000_000),
                        in: transaction)
                }
                acknowledgeRows += nanoseconds() - rows
            }
            acknowledging += nanoseconds() - began
        }
        guard isCounted else { return }
        let count = Double(messages / batch * batch) * 1e3
        report([
            "kind": "direct message", "batch": batch,
            "appendMicroseconds": Double(appendRows) / count,
            "acknowledgeMicroseconds": Double(acknowledgeRows) / count,
            "appendAndCommitMicroseconds": Double(appending) / count,
            "acknowledgeAndCommitMicroseconds": Double(acknowledging) / count,
        ])
    }
}

/// A project with registered instances, made by the engine.
struct Fleet {
    let project: ProjectNumber
    let now = Instant(millisecondsSince1970: 1_800_000_000_000)
    private(set) var tokens: [Token] = []

    init(_ store: Store, instances: Int) throws {
        let now = now
        project = try store.write { (transaction) throws(StorageError) in
            var engine = Engine()
            let outcome = try engine.apply(
                .createProject(
                    id: Universe.projectID, senderID: 123_456_789_012, conditionTopicsMax: 64),
                now: now, in: transaction)
            guard case .project(let project) = outcome else { fatalError("no project") }
            return project.number
        }
        var random = Random(state: 0x2545_F491_4F6C_DD1D)
        for first in stride(from: 0, to: instances, by: 4096) {
            let found = try store.write { (transaction) throws(StorageError) in
                var engine = Engine()
                var found: [Instance] = []
                for _ in first..<min(first + 4096, instances) {
                    let outcome = try engine.apply(
                        .register(Self.instance(&random)), now: now, in: transaction)
                    guard case .registered(let instance, _) = outcome else {
                        fatalError("not registered")
                    }
                    found.append(instance)
                }
                return found
            }
            tokens += found.map(\.token)
        }
    }

    private static func instance(_ random: inout Random) -> NewInstance {
        let digest = withUnsafeBytes(
            of: (random.next(), random.next(), random.next(), random.next())
        ) { SecretDigest(bytes: Array($0)) }
        return NewInstance(
            project: Universe.projectID, app: "com.example.bench", platform: .android,
            token: Token(words: (random.next(), random.next(), random.next())), keyDigest: digest,
            proof: .trusted)
    }
}
