// SPDX-License-Identifier: Apache-2.0
//
// A project of many instances, built as sets. Rests on the store.

import Glibc
import Martlet
import MartletBase
import MartletBits
import MartletEngine
import MartletRows
import MartletStore

/// How a topic's members lie.
enum Shape {
    /// Each instance with this probability.
    case random(Double)
    /// Runs of members and of others, 5000 long on average, with this share of members.
    case clustered(Double)
}

struct Universe {
    static let projectID = "bench"
    let store: Store
    let project: ProjectNumber
    /// Positions count the usable ordinals.
    let instances: Int

    init(folder: String, instances: Int) throws {
        self.instances = instances
        store = try Store(StoreConfiguration(folder: folder, mapBytes: 8 << 30))
        project = try store.write { (transaction) throws(StorageError) in
            var engine = Engine()
            let outcome = try engine.apply(
                .createProject(
                    id: Self.projectID, senderID: 123_456_789_012, conditionTopicsMax: 64),
                now: Instant(rawValue: 0), in: transaction)
            guard case .project(let project) = outcome else { fatalError("no project") }
            return project.number
        }
        let everyone = members(.random(1), seed: 1)
        try add(everyone, to: .everyone)
        try store.write { (transaction) throws(StorageError) in
            var project = try transaction.projects.project(self.project)!
            project.instanceCount = UInt64(instances)
            project.nextOrdinal = Self.ordinal(instances)
            try transaction.projects.put(project, isNew: false)
        }
    }

    static func ordinal(_ position: Int) -> Ordinal {
        Ordinal(
            block: UInt32(position / BlockGeometry.bitsPerBlock),
            bit: position % BlockGeometry.bitsPerBlock)
    }

    func members(_ shape: Shape, seed: UInt64) -> [UInt32] {
        var random = Random(state: seed &* 0x9E37_79B9_7F4A_7C15 | 1)
        var result: [UInt32] = []
        var position = 0
        switch shape {
        case .random(let share):
            while position < instances {
                result.append(Self.ordinal(position).rawValue)
                // The distance to the next member is geometric.
                position += share >= 1 ? 1 : 1 + Int(log(1 - random.fraction()) / log(1 - share))
            }
        case .clustered(let share):
            while position < instances {
                let run = 1 + Int(-log(1 - random.fraction()) * 5000 * share)
                for member in position..<min(position + run, instances) {
                    result.append(Self.ordinal(member).rawValue)
                }
                position += run + 1 + Int(-log(1 - random.fraction()) * 5000 * (1 - share))
            }
        }
        return result
    }

    func add(_ ordinals: [UInt32], to set: InstanceSet) throws {
        var start = 0
        while start < ordinals.count {
            let end = min(start + (4 << 20), ordinals.count)
            _ = try store.write { (transaction) throws(StorageError) in
                try transaction.sets.add(Array(ordinals[start..<end]), to: set, in: project)
            }
            start = end
        }
    }

    func addTopic(_ name: String, number: UInt32, _ ordinals: [UInt32]) throws {
        let topic = Topic(
            number: TopicNumber(number), name: try TopicName(validating: name),
            subscriberCount: UInt64(ordinals.count))
        try store.write { (transaction) throws(StorageError) in
            try transaction.topics.put(topic, in: project, isNew: true)
        }
        try add(ordinals, to: .topic(topic.number))
    }
}
