// SPDX-License-Identifier: Apache-2.0
//
// A data folder of millions of registered instances, each with all that a registration and one topic
// leave: its token, its record, its topics, how far it is, when it was seen, and its place in the sets.
// Written in large transactions straight into the store, in the order of the tokens, since through the
// API 10 million would take minutes. Some devices more are registered through the API, with credentials
// for the load generator: FOLDER/device has one that is alone, FOLDER/devices those in the topic.
// Rests on Universe and the embedding API.

import Glibc
import Martlet
import MartletBase
import MartletEngine
import MartletRows
import MartletStore

enum Instances {
    static let batch = 500_000
    /// When the instances were last there, for all that the store knows: now.
    static let seen = Instant(millisecondsSince1970: Int64(time(nil)) * 1000)
    /// Devices of which the keys are known, besides the one that is alone.
    static let returning = 10_000
    static let topic = "bench"
    static let app = App(number: AppNumber(0), platform: .android, name: "com.example.bench")

    static func build(folder: String, instances: Int) async throws {
        let began = nanoseconds()
        let universe = try Universe(folder: folder, instances: instances)
        let project = universe.project
        let everyone = universe.members(.random(1), seed: 1)
        try universe.store.write { (transaction) throws(StorageError) in
            var record = try transaction.projects.project(project)!
            record.nextApp = AppNumber(1)
            record.appCount = 1
            record.lastSequence = MessageSequence(1)
            record.nextTopic = TopicNumber(1)
            record.topicCount = 1
            try transaction.projects.put(record, isNew: false)
            try transaction.projects.put(app, in: project)
        }
        try universe.add(everyone, to: .platform(app.platform))
        try universe.add(everyone, to: .app(app.number))
        try universe.addTopic(topic, number: 0, everyone)
        var engine = Engine()
        for start in stride(from: 0, to: instances, by: batch) {
            try universe.store.write { (transaction) throws(StorageError) in
                for position in start..<min(start + batch, instances) {
                    try insert(position, project, &engine, transaction)
                }
            }
        }
        let used = universe.store.size.used
        universe.store.close()
        try await addDevices(folder)
        report([
            "kind": "instances", "instances": instances,
            "subscribers": instances + returning, "bytesOnDisk": used,
            "bytesPerInstance": Double(used) / Double(instances),
            "seconds": Double(nanoseconds() - began) / 1e9,
        ])
    }

    static func insert(
        _ position: Int, _ project: ProjectNumber, _ engine: inout Engine,
        _ transaction: borrowing Transaction
    ) throws(StorageError) {
        // The store orders tokens by their bytes: the upper half of the first word rises.
        var random = Random(state: UInt64(position) &* 0x9E37_79B9_7F4A_7C15 | 1)
        let first = UInt64(UInt32(position).byteSwapped) | random.next() << 32
        let token = Token(words: (first, random.next(), random.next()))
        let digest = withUnsafeBytes(
            of: (random.next(), random.next(), random.next(), random.next())
        ) { SecretDigest(bytes: Array($0)) }
        let ordinal = Universe.ordinal(position)
        try transaction.instances.insert(
            Instance(
                project: project, ordinal: ordinal, token: token, keyDigest: digest,
                app: app.number, platform: app.platform,
                registered: Instant(millisecondsSince1970: 1_700_000_000_000)))
        try transaction.topics.setTopicNumbers([0], of: ordinal, in: project)
        let left = Acknowledgement(
            project: project, ordinal: ordinal, through: LaneMarks(MessageSequence(1)),
            departure: Acknowledgement.Departure(
                connectionNumber: 0, position: .none,
                throttleFull: Instant(millisecondsSince1970: 0), seen: seen))
        _ = try engine.apply(.acknowledge([left]), now: seen, in: transaction)
    }

    static func addDevices(_ folder: String) async throws {
        var configuration = BrokerConfiguration(folder: folder)
        // Ten thousand subscribe at once, and not as fast as a project's senders may ask for it.
        configuration.limits.topicChangesPerSecond = 0
        // A project of ten million takes no more instances by default.
        configuration.limits.instancesPerProjectMax = 0
        let broker = try await Broker.open(configuration)
        var devices: [InstanceCredentials] = []
        try await withThrowingTaskGroup(of: InstanceCredentials.self) { group in
            for _ in 0...returning {
                group.addTask {
                    try await broker.register(
                        app: app.name, platform: app.platform, in: Universe.projectID)
                }
            }
            for try await device in group { devices.append(device) }
        }
        save(devices.prefix(1), to: "\(folder)/device")
        let others = devices.dropFirst()
        save(others, to: "\(folder)/devices")
        for start in stride(from: others.startIndex, to: others.endIndex, by: 1000) {
            _ = try await broker.subscribe(
                others[start..<min(start + 1000, others.endIndex)].map(\.token), to: topic,
                in: Universe.projectID)
        }
        try await broker.close()
    }

    static func save(_ devices: ArraySlice<InstanceCredentials>, to path: String) {
        guard let list = fopen(path, "w") else { fatalError("'\(path)' cannot be written") }
        for device in devices { fputs("\(device.token) \(device.deviceKey)\n", list) }
        fclose(list)
    }
}
