// SPDX-License-Identifier: Apache-2.0
//
// What a device keeps between two runs of its application: as text, in a file, and in a store of the application's (DEV-1,
// DEV-2, TTL-4).

import Foundation
import MartletBase
import MartletClient
import MartletWire
import Synchronization
import Testing

/// Remembers everything that was saved.
final class MemoryStore: DeviceStateStore {
    private struct State {
        var saved: [StoredDevice] = []
        var isRemoved = false
        var isBroken = false
    }

    private let state = Mutex(State())

    var saved: [StoredDevice] { state.withLock { $0.saved } }
    var isBroken: Bool {
        get { state.withLock { $0.isBroken } }
        set { state.withLock { $0.isBroken = newValue } }
    }

    func load() -> StoredDevice? { state.withLock { $0.isRemoved ? nil : $0.saved.last } }

    func save(_ device: StoredDevice) throws {
        try state.withLock {
            if $0.isBroken { throw MartletError(.unavailable, "No.", field: "state") }
            $0.saved.append(device)
            $0.isRemoved = false
        }
    }

    func remove() { state.withLock { $0.isRemoved = true } }
}

private func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
}

private func open(
    _ broker: FakeBroker, _ store: any DeviceStateStore, app: String = "com.example.tides"
) async throws -> MartletDevice {
    var options = DeviceOptions()
    options.backoff = quickBackoff
    return try await MartletDevice.open(
        host: "127.0.0.1", port: broker.port, projectID: "tides", appName: app,
        platform: .apple, store: store, options: options)
}

private func topics(_ connection: FakeConnection) async throws -> DeviceTopicsRequest {
    while true {
        switch await connection.next() {
        case .frame(.deviceTopics(let request)): return request
        case .frame(.acknowledge): continue
        case let other: throw Surprise(seen: other)
        }
    }
}

private struct Surprise: Error {
    var seen: Seen
}

private func answer(_ connection: FakeConnection, _ request: DeviceTopicsRequest) {
    connection.send(
        .topicResult(
            TopicResult(
                correlation: request.correlation, successes: UInt16(request.topics.count))))
}

@Suite(.timeLimit(.minutes(2))) struct StateTests {
    private static let device = StoredDevice(
        credentials: DeviceCredentials(
            projectID: "tides", token: "tok", deviceKey: "quote \" and \u{1F30A}"),
        appName: "com.example.tides", platform: .web, unconfirmed: [1, .max >> 1],
        topics: AskedTopics(subscriptions: ["a", "b"], unsubscriptions: ["c"]))

    @Test("DEV-2 what is kept is read again, and a text that is something else is not")
    func text() {
        let device = Self.device
        #expect(StoredDevice(json: device.json) == device)
        for text in [
            "", "{}", "[1]", "no", device.json.replacing("\"web\"", with: "\"phone\""),
            device.json.replacing("\"token\"", with: "\"other\""),
            device.json.replacing("[1,", with: "[-1,"),
        ] {
            #expect(StoredDevice(json: text) == nil, "\(text)")
        }
        let early = #"{"project":"p","app":"a","platform":"web","token":"t","deviceKey":"k"}"#
        #expect(StoredDevice(json: early)?.topics == AskedTopics())
    }

    @Test(
        "DEV-2 a file that an editor wrote again is read, with any line ends and a byte-order mark",
        arguments: ["\u{FEFF}", ""], ["\n", "\r\n", "\r"])
    func edited(mark: String, end: String) throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "state.json")
        try Data((mark + Self.device.json.replacing(",", with: ",\(end)") + end).utf8).write(
            to: path)
        #expect(try DeviceStateFile(path: path.path).load() == Self.device)
    }

    @Test("DEV-1 the file is its owner's alone, replaced as a whole, and gone when it is removed")
    func file() throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "state.json").path
        let file = DeviceStateFile(path: path)
        #expect(try file.load() == nil)
        for unconfirmed in [Array(0..<1024), [7], []] as [[UInt64]] {
            // What a crash left beside the file.
            _ = FileManager.default.createFile(
                atPath: path + ".new", contents: Data("half a li".utf8),
                attributes: [.posixPermissions: 0o644])
            var device = Self.device
            device.unconfirmed = unconfirmed
            try file.save(device)
            #expect(try file.load() == device)
            #expect(
                try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
                    as? Int == 0o600)
            #expect(!FileManager.default.fileExists(atPath: path + ".new"))
        }
        try Data("half a li".utf8).write(to: folder.appending(path: "state.json"))
        #expect(throws: MartletError.self) { try file.load() }
        try file.remove()
        try file.remove()
        #expect(try file.load() == nil)
        let nowhere = DeviceStateFile(path: folder.appending(path: "none/state.json").path)
        #expect(throws: MartletError.self) { try nowhere.save(Self.device) }
        #expect(try nowhere.load() == nil)
    }

    @Test(
        "DEV-1 DEV-2 TTL-4 the second run of an application is the same device, says again what topics it was asked for, and knows what it has taken"
    )
    func twoRuns() async throws {
        let folder = try folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = DeviceStateFile(path: folder.appending(path: "state.json").path)
        try await FakeBroker.run { broker in
            async let opening = open(broker, file)
            let registration = await broker.connection()
            guard case .newDevice = await registration.welcome(token: "tok", deviceKey: "dev")
            else {
                Issue.record("registration expected")
                return
            }
            let first = try await opening
            var messages = first.messages.makeAsyncIterator()
            async let connected: Void = first.connect()
            let one = await broker.connection()
            await one.welcome()
            try await connected
            async let subscribed: Void = first.subscribe(toTopic: "a")
            answer(one, try await topics(one))
            try await subscribed
            one.deliver([5])
            if let message = try await messages.next() { await first.acknowledge(message) }
            // The application ends before the broker has answered.
            async let lost = refusal { try await first.subscribe(toTopic: "b") }
            _ = try await topics(one)
            async let left = refusal { try await first.unsubscribe(fromTopic: "c") }
            _ = try await topics(one)
            await first.close()
            #expect(await lost != nil)
            #expect(await left != nil)

            let second = try await open(broker, file)
            #expect(second.credentials == first.credentials)
            #expect(
                await second.askedTopics
                    == AskedTopics(subscriptions: ["a", "b"], unsubscriptions: ["c"]))
            async let again: Void = second.connect()
            let two = await broker.connection()
            guard case .device(_, "tok", "dev", _, [5]) = await two.welcome() else {
                Issue.record("another device, or one that forgot a message")
                return
            }
            try await again
            let said = try await topics(two)
            #expect(said.operation == .subscribe && said.topics == ["a", "b"])
            answer(two, said)
            let rest = try await topics(two)
            #expect(rest.operation == .unsubscribe && rest.topics == ["c"])
            answer(two, rest)
            while await !second.askedTopics.unsubscriptions.isEmpty { await Task.yield() }
            await second.close()
            #expect(try file.load()?.topics == AskedTopics(subscriptions: ["a", "b"]))
            await #expect(throws: MartletError.self) {
                try await open(broker, file, app: "com.example.ferries")
            }
        }
    }

    @Test("DEV-1 REG-4 a new token is kept when it is returned; who is unregistered is forgotten")
    func tokens() async throws {
        try await FakeBroker.run { broker in
            let store = MemoryStore()
            try store.save(Self.device)
            let device = MartletDevice(
                host: "127.0.0.1", port: broker.port, stored: Self.device, store: store)
            async let rotated = device.rotateToken()
            let connection = await broker.connection()
            await connection.welcome()
            // Topics of the run before are said as well.
            var seen = await connection.next()
            while case .frame(.deviceTopics) = seen { seen = await connection.next() }
            guard case .frame(.rotate(let request)) = seen else {
                Issue.record("ROTATE expected")
                return
            }
            connection.send(.rotated(Rotated(correlation: request.correlation, token: "tok-2")))
            _ = try await rotated
            #expect(store.load()?.credentials.token == "tok-2")
            #expect(store.load()?.credentials.deviceKey == Self.device.credentials.deviceKey)
            async let unregistered: Void = device.unregister()
            guard case .frame(.unregister(let last)) = await connection.next() else {
                Issue.record("UNREGISTER expected")
                return
            }
            connection.send(.done(Done(correlation: last.correlation)))
            try await unregistered
            #expect(store.load() == nil)
            await device.close()
            #expect(store.load() == nil)
        }
    }
}
