// SPDX-License-Identifier: Apache-2.0
//
// kill -9 under load, again and again on one data folder. Before each kill devices change their
// subscriptions, one sender changes those of fifty devices at a time, and another sends to tokens,
// topics and conditions. After each the store is opened here and asked whether everything that was
// acknowledged is there; the next process has to deliver it. Topics that messages are sent to never
// change their subscribers, so it is known exactly who has to get each message, and every message
// says so itself. Rests on WireClient, MartletStore and the built `martlet`.

import Foundation
import Glibc
import Martlet
import MartletBase
import MartletEngine
import MartletStore
import MartletWire
import Testing

/// A `martlet serve` of its own process.
private final class Server {
    let process = Process()
    let port: UInt16

    init(folder: String) throws {
        let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        process.executableURL = package.appendingPathComponent(".build/release/martlet")
        process.arguments = ["serve", "--data", folder, "--port", "0", "--loops", "2", "--json"]
        let output = Pipe()
        process.standardOutput = output
        let errors = Pipe()
        process.standardError = errors
        try process.run()
        struct Ready: Decodable { var port: UInt16 }
        var line = Data()
        while !line.contains(UInt8(ascii: "}")) {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else {
                let said = String(
                    decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
                throw WireClient.Failure(text: "martlet serve ended before it listened: \(said)")
            }
            line += more
        }
        port = try JSONDecoder().decode(Ready.self, from: line).port
    }

    func kill9() {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    deinit { if process.isRunning { kill9() } }
}

/// What was sent, and to whom it has to go.
private struct Sent: Sendable {
    var id: String
    var recipients: Set<Int>
}

/// One connection under load. Used by its thread alone until that has ended.
private class Load: @unchecked Sendable {
    var trouble: (any Error)?
    var random: SystemRandomNumberGenerator = .init()

    func run(_ port: UInt16) throws {}

    func start(_ port: UInt16, _ group: DispatchGroup) {
        group.enter()
        let thread = Thread {
            do { try self.run(port) } catch { self.trouble = error }
            group.leave()
        }
        thread.start()
    }
}

/// A device that subscribes and unsubscribes itself, one change at a time.
private final class DeviceLoad: Load, @unchecked Sendable {
    let hello: Hello
    /// Acknowledged.
    var topics: Set<String>
    /// Sent, and not answered before the end.
    var open: (topic: String, operation: TopicOperation)?

    init(_ hello: Hello, topics: Set<String>) {
        self.hello = hello
        self.topics = topics
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            correlation += 1
            let topic = "churn-\(Int.random(in: 0..<8))"
            let operation: TopicOperation = Bool.random() ? .subscribe : .unsubscribe
            open = (topic, operation)
            guard
                client.send(
                    DeviceTopicsRequest(
                        operation: operation, correlation: correlation, topics: [topic]))
            else { return }
            waiting: while true {
                switch try client.receive() {
                case nil: return
                case .topicResult(let result):
                    #expect(result.correlation == correlation && result.failures.isEmpty)
                    break waiting
                case .deliver, .ping: break
                case .some(let other): throw WireClient.Failure(text: "\(other)")
                }
            }
            open = nil
            if operation == .subscribe { topics.insert(topic) } else { topics.remove(topic) }
        }
    }
}

/// A sender that changes one topic for many devices at a time.
private final class BatchLoad: Load, @unchecked Sendable {
    let hello: Hello
    let tokens: [String]
    var topics: Set<String>
    var open: (topic: String, operation: TopicOperation)?

    init(_ hello: Hello, tokens: [String], topics: Set<String>) {
        self.hello = hello
        self.tokens = tokens
        self.topics = topics
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            correlation += 1
            let topic = "batch-\(Int.random(in: 0..<4))"
            let operation: TopicOperation = Bool.random() ? .subscribe : .unsubscribe
            open = (topic, operation)
            let request = ChangeTopicRequest(
                correlation: correlation, operation: operation, topic: topic, tokens: tokens)
            guard client.send(request) else { return }
            guard let answer = try client.receive() else { return }
            guard case .topicResult(let result) = answer else {
                throw WireClient.Failure(text: "\(answer)")
            }
            #expect(Int(result.successes) == tokens.count)
            open = nil
            if operation == .subscribe { topics.insert(topic) } else { topics.remove(topic) }
        }
    }
}

/// A sender with several sends outstanding.
private final class SendLoad: Load, @unchecked Sendable {
    let hello: Hello
    let cycle: Int
    let tokens: [String]
    var accepted: [Sent] = []
    var open: [UInt32: Sent] = [:]

    init(_ hello: Hello, cycle: Int, tokens: [String]) {
        self.hello = hello
        self.cycle = cycle
        self.tokens = tokens
    }

    override func run(_ port: UInt16) throws {
        let client = try WireClient(port: port)
        guard try client.hello(hello) else { return }
        var correlation: UInt32 = 0
        while true {
            while open.count < 8 {
                correlation += 1
                let (target, recipients) = makeTarget()
                let id = "\(cycle)-\(correlation)"
                let message = try Message(data: ["id": id]).encoded()
                open[correlation] = Sent(id: id, recipients: recipients)
                let request = SendRequest(
                    correlation: correlation, target: target, message: message)
                guard client.send(request) else { return }
            }
            guard let answer = try client.receive() else { return }
            guard case .accepted(let acceptance) = answer,
                let sent = open.removeValue(forKey: acceptance.correlation)
            else { throw WireClient.Failure(text: "\(answer)") }
            #expect(Int(acceptance.recipients) == sent.recipients.count)
            accepted.append(sent)
        }
    }

    private func makeTarget() -> (MessageTarget, Set<Int>) {
        let all = tokens.indices
        switch Int.random(in: 0..<5) {
        case 0, 1:
            let index = Int.random(in: all)
            return (.token(tokens[index]), [index])
        case 2: return (.topic("all"), Set(all))
        case 3: return (.topic("even"), Set(all.filter { $0 % 2 == 0 }))
        default:
            return (
                .condition("'even' in topics && !('third' in topics)"),
                Set(all.filter { $0 % 2 == 0 && $0 % 3 != 0 })
            )
        }
    }
}

/// The data folder, and what is known of what must be in it.
private final class World {
    let folder = NSTemporaryDirectory() + "martlet-crash-" + UUID().uuidString
    var instances: [InstanceCredentials] = []
    var sender = Hello.sender(projectID: "tides", serverKey: "")
    let number = ProjectNumber(0)

    /// By ID: accepted, and those that may have been.
    var accepted: [String: Sent] = [:]
    var uncertain: [String: Sent] = [:]
    /// By device: IDs of what it was given and has acknowledged. Whether the broker still knows is
    /// open.
    var acknowledgedMessages: [Int: Set<String>] = [:]
    var deviceTopics: [Int: Set<String>] = [:]
    var batchTopics: Set<String> = []
    var deliveredCount = 0

    static let churning = 0..<4
    static let batched = 50..<100

    init() async throws {
        let broker = try await Broker.open(BrokerConfiguration(folder: folder))
        _ = try await broker.createProject("tides")
        let key = try await broker.createServerKey(named: "load", in: "tides")
        sender = .sender(projectID: "tides", serverKey: key.text)
        for _ in 0..<100 {
            instances.append(
                try await broker.register(app: "com.example.tides", platform: .android, in: "tides")
            )
        }
        try await broker.close()
        let store = try Store(StoreConfiguration(folder: folder))
        var engine = Engine()
        for (topic, step) in [("all", 1), ("even", 2), ("third", 3)] {
            let tokens = instances.indices.filter { $0 % step == 0 }.map { instances[$0].token }
            _ = try store.write { (transaction) throws(StorageError) in
                try engine.apply(
                    .changeTopic(project: number, topic: topic, change: .subscribe, tokens: tokens),
                    now: Instant(millisecondsSince1970: 0), in: transaction)
            }
        }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    func device(_ index: Int) -> Hello {
        .device(
            projectID: "tides", token: instances[index].token,
            deviceKey: instances[index].deviceKey, receivedThrough: 0)
    }

    /// What the store keeps for an instance now: stream IDs and the messages' own IDs.
    func pending(_ index: Int, in store: Store) throws -> [(sequence: UInt64, id: String)] {
        try store.read { (transaction) throws in
            let ordinal = try Listing.locate(instances[index].token, in: number, transaction)
            var found: [(sequence: UInt64, bytes: [UInt8])] = []
            _ = try transaction.forEachPending(
                for: ordinal, in: number,
                after: try transaction.watermark(of: ordinal, in: number),
                now: Instant(millisecondsSince1970: Int64(Date().timeIntervalSince1970 * 1000)),
                rowsMax: .max
            ) { message in
                found.append((message.header.sequence.rawValue, Array(message.body)))
                return true
            }
            return try found.map {
                ($0.sequence, try Message(decoding: $0.bytes, unknownTags: .refuse)["id"] ?? "")
            }
        }
    }

    func topics(_ index: Int, in store: Store) throws -> Set<String> {
        try store.read { (transaction) throws in
            let ordinal = try Listing.locate(instances[index].token, in: number, transaction)
            let page = try Listing.topics(
                of: ordinal, in: number, after: "", limit: 1000, transaction)
            return Set(page.entries.map(\.name.text))
        }
    }

    /// One process: delivers what was stored to `readers`, then works under load until it is killed.
    func cycle(_ cycle: Int, readers: [Int], killAfter microseconds: UInt32) throws {
        var expected: [Int: [(sequence: UInt64, id: String)]] = [:]
        do {
            let store = try Store(StoreConfiguration(folder: folder))
            for reader in readers { expected[reader] = try pending(reader, in: store) }
        }
        let server = try Server(folder: folder)
        var readerClients: [WireClient] = []
        for reader in readers {
            let client = try WireClient(port: server.port)
            #expect(try client.hello(device(reader)))
            for (sequence, id) in expected[reader]! {
                let frame = try client.receive()
                guard case .deliver(let delivery) = frame else {
                    throw WireClient.Failure(text: "instead of message \(id): \(frame as Any)")
                }
                let message = try Message(decoding: delivery.message, unknownTags: .refuse)
                #expect(delivery.streamID == sequence && message["id"] == id)
                deliveredCount += 1
            }
            // Some of it, so that the next process has something left.
            if let through = expected[reader]!.randomElement()?.sequence {
                client.send(Acknowledge(through: through))
                let taken = expected[reader]!.filter { $0.sequence <= through }.map(\.id)
                acknowledgedMessages[reader, default: []].formUnion(taken)
            }
            readerClients.append(client)
        }

        let group = DispatchGroup()
        var devices: [Int: DeviceLoad] = [:]
        for index in Self.churning {
            devices[index] = DeviceLoad(device(index), topics: deviceTopics[index] ?? [])
        }
        let batch = BatchLoad(
            sender, tokens: Self.batched.map { instances[$0].token }, topics: batchTopics)
        let send = SendLoad(sender, cycle: cycle, tokens: instances.map(\.token))
        let loads: [Load] = Array(devices.values) + [batch, send]
        for load in loads { load.start(server.port, group) }
        usleep(microseconds)
        server.kill9()
        group.wait()
        withExtendedLifetime(readerClients) {}
        for load in loads {
            // A connection that the kill came before is none.
            if let trouble = load.trouble, !"\(trouble)".contains("connect") { throw trouble }
        }
        for sent in send.accepted { accepted[sent.id] = sent }
        for sent in send.open.values { uncertain[sent.id] = sent }
        for (index, load) in devices { deviceTopics[index] = load.topics }
        batchTopics = batch.topics
        try verify(devices, batch)
    }

    private func verify(_ devices: [Int: DeviceLoad], _ batch: BatchLoad) throws {
        let store = try Store(StoreConfiguration(folder: folder))
        let report = try store.check()
        #expect(report.isClean, "\(report.problems.prefix(20))")

        for (index, load) in devices {
            let found = try topics(index, in: store).filter { $0.hasPrefix("churn") }
            var allowed: Set<Set<String>> = [load.topics]
            if let open = load.open { allowed.insert(Self.apply(open, to: load.topics)) }
            #expect(
                allowed.contains(found), "device \(index): an acknowledged subscription is lost")
            deviceTopics[index] = found
        }
        // One request is one transaction: all fifty or none.
        var batches: Set<Set<String>> = []
        for index in Self.batched {
            batches.insert(try topics(index, in: store).filter { $0.hasPrefix("batch") })
        }
        #expect(batches.count == 1, "a request was applied in part")
        var allowed: Set<Set<String>> = [batch.topics]
        if let open = batch.open { allowed.insert(Self.apply(open, to: batch.topics)) }
        #expect(allowed.isSuperset(of: batches))
        batchTopics = batches.first ?? []

        var missing: [Int: Set<String>] = [:]
        for sent in accepted.values {
            for index in sent.recipients { missing[index, default: []].insert(sent.id) }
        }
        for index in instances.indices {
            let found = try pending(index, in: store)
            #expect(Set(found.map(\.id)).count == found.count, "a message is stored twice")
            for (_, id) in found {
                let sent = accepted[id] ?? uncertain[id]
                #expect(
                    sent?.recipients.contains(index) == true,
                    "instance \(index) would get '\(id)', which is not for it")
            }
            let present = Set(found.map(\.id))
            let lost = (missing[index] ?? []).subtracting(present)
            // Only what the device itself has acknowledged may be gone.
            let acknowledgedIDs = acknowledgedMessages[index] ?? []
            #expect(
                lost.isSubset(of: acknowledgedIDs),
                "instance \(index): \(lost.subtracting(acknowledgedIDs).count) accepted messages are lost"
            )
        }
    }

    private static func apply(
        _ change: (topic: String, operation: TopicOperation), to topics: Set<String>
    ) -> Set<String> {
        change.operation == .subscribe
            ? topics.union([change.topic]) : topics.subtracting([change.topic])
    }
}

@Suite("Crashes", .serialized)
struct CrashTests {
    @Test(
        "OPS-4 TOP-7 MSG-6 TTL-4: fifty times killed under load, nothing acknowledged is lost, every index agrees, and each message reaches whom it was for and nobody else"
    )
    func kills() async throws {
        let world = try await World()
        for cycle in 0..<50 {
            let readers = (0..<3).map { _ in Int.random(in: 4..<100) }
            try world.cycle(
                cycle, readers: Array(Set(readers)),
                killAfter: UInt32.random(in: 20_000...200_000))
        }
        #expect(world.accepted.count > 500, "the load was too light to prove anything")
        #expect(world.deliveredCount > 100)
        // A last process, killed too: everybody comes and gets everything.
        try world.cycle(50, readers: Array(4..<100), killAfter: 1000)
    }
}
